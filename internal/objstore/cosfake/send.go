package cosfake

import (
	"net"
	"net/http"
	"strconv"
)

// send writes ans, with all that faults do to it.
func (f *Fake) send(w http.ResponseWriter, r *request, ans *answer) {
	ctx := r.Context()
	f.spoil(r, ans)
	if ft := f.faults.take(SlowHeaders, r, nil); ft != nil && !f.wait(ctx, ft) {
		panic(http.ErrAbortHandler)
	}
	if f.faults.take(LoseAnswer, r, func(*Fault) bool { return ans.status < 300 }) != nil {
		panic(http.ErrAbortHandler)
	}
	for name, values := range ans.header {
		w.Header()[name] = values
	}
	if r.Method != http.MethodHead && ans.status != http.StatusNoContent && ans.status != http.StatusNotModified {
		w.Header().Set("Content-Length", strconv.Itoa(len(ans.body)))
	}
	f.log.update(r.entry, func(e *Request) { e.Status = ans.status })
	w.WriteHeader(ans.status)
	if !ans.hasObject(r) {
		write(w, ans.body)
		return
	}
	if ft := f.faults.take(CutBody, r, ans.longerThan); ft != nil {
		write(w, ans.body[:ft.At])
		flush(w)
		panic(http.ErrAbortHandler)
	}
	if ft := f.faults.take(StallBody, r, ans.longerThan); ft != nil {
		write(w, ans.body[:ft.At])
		flush(w)
		if !f.wait(ctx, ft) {
			panic(http.ErrAbortHandler)
		}
		ans.body = ans.body[ft.At:]
	}
	if ft := f.faults.take(SlowBody, r, ans.longerThan); ft != nil {
		for len(ans.body) > 0 {
			flush(w)
			if !f.wait(ctx, ft) {
				panic(http.ErrAbortHandler)
			}
			n := min(slowPiece, len(ans.body))
			write(w, ans.body[:n])
			ans.body = ans.body[n:]
		}
		return
	}
	write(w, ans.body)
}

// write sends body. A client that went away is nothing to report here.
func write(w http.ResponseWriter, body []byte) { _, _ = w.Write(body) }

// flush sends what is buffered; a writer that cannot (in a recorder) keeps it.
func flush(w http.ResponseWriter) { _ = http.NewResponseController(w).Flush() }

// reset takes the connection and ends it with a TCP reset.
func (f *Fake) reset(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // the close below ends it either way
	}
	_ = conn.Close()
}
