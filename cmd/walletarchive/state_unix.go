//go:build unix

package main

import (
	"os"
	"os/signal"
	"syscall"
)

// watchState prints where a run stands whenever SIGUSR1 comes, which would
// otherwise kill it, until the function that it returns is called.
func (p *program) watchState() (stop func()) {
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGUSR1)
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-asked:
				p.printState()
			case <-end:
				return
			}
		}
	}()
	return func() {
		signal.Stop(asked)
		close(end)
		<-ended
	}
}
