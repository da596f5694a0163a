//go:build !unix

package main

// watchState does nothing where there is no SIGUSR1.
func (p *program) watchState() (stop func()) { return func() {} }
