package cosfake

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// Server is a Fake that listens.
type Server struct {
	*Fake
	// URL is http://127.0.0.1:PORT: the bucket is at the root.
	URL string
	// Bucket and Region are its names; SecretID, SecretKey and Token open it.
	Bucket, Region, SecretID, SecretKey, Token string

	http     *http.Server
	done     chan struct{} // closed when Serve has returned
	accepted atomic.Int64
	mu       sync.Mutex
	open     map[net.Conn]bool
}

// Start serves a new bucket on a free port of 127.0.0.1 until Close.
func Start(opts Options) (*Server, error) { return StartAt("127.0.0.1:0", opts) }

// StartAt is Start on an address of one's own, which has to be a loopback one:
// the fake is no service.
func StartAt(addr string, opts Options) (*Server, error) {
	fake, err := New(opts)
	if err != nil {
		return nil, err
	}
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, fmt.Errorf("cosfake address: %w", err)
	}
	if ip := net.ParseIP(host); ip == nil || !ip.IsLoopback() {
		return nil, fmt.Errorf("cosfake address %s is not a loopback address", addr)
	}
	// Listening on a loopback address does not wait, so there is nothing to cancel.
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("cosfake listen: %w", err)
	}
	s := &Server{
		Fake: fake, URL: "http://" + l.Addr().String(), Bucket: fake.opts.Bucket, Region: fake.opts.Region,
		SecretID: fake.opts.SecretID, SecretKey: fake.opts.SecretKey, Token: fake.opts.Token,
		done: make(chan struct{}), open: map[net.Conn]bool{},
	}
	s.http = &http.Server{
		Handler:           fake,
		ConnState:         s.connState,
		ReadHeaderTimeout: 30 * time.Second,
	}
	go func() {
		defer close(s.done)
		if err := s.http.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			panic("cosfake: serve: " + err.Error())
		}
	}()
	return s, nil
}

// Close stops the server at once, with all connections and held answers. It may
// be called more than once.
func (s *Server) Close() {
	s.release()
	_ = s.http.Close() // of a listener; there is nothing to save
	<-s.done
}

// Connections is how many connections clients have opened so far.
func (s *Server) Connections() int { return int(s.accepted.Load()) }

// OpenConnections is how many of them are open now.
func (s *Server) OpenConnections() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.open)
}

// BucketHost is the host by which the bucket is known in COS. A client that
// sends it in place of the address finds this bucket too.
func (s *Server) BucketHost() string {
	return s.Bucket + ".cos." + s.Region + ".myqcloud.com"
}

func (s *Server) connState(c net.Conn, state http.ConnState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch state {
	case http.StateNew:
		s.accepted.Add(1)
		s.open[c] = true
	case http.StateClosed, http.StateHijacked:
		delete(s.open, c)
	case http.StateActive, http.StateIdle:
	}
}
