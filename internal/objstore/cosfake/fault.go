package cosfake

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"
)

// Kind is a way in which the bucket fails its users.
type Kind string

// The kinds of [Fault]. What needs no fault because it is a state of the bucket
// has a method: [Fake.SetClockSkew], [Fake.Expire], [Fake.SetVersioning],
// [Fake.SetListLag], [Fake.Damage], and cold storage by class and [Fake.Advance].
const (
	// WrongCRC answers with another x-cos-hash-crc64ecma than it should.
	WrongCRC Kind = "wrong_crc"
	// MissingCRC answers without x-cos-hash-crc64ecma.
	MissingCRC Kind = "missing_crc"
	// FlipByte changes the byte at offset At of the object in the body of a GET.
	FlipByte Kind = "flip_byte"
	// FlipByteIn changes the byte at offset At of a request's body on its way
	// in, before Content-MD5 is checked.
	FlipByteIn Kind = "flip_byte_in"
	// CutBody closes the connection after At bytes of the body of a GET.
	CutBody Kind = "cut_body"
	// ShortAnswer ends the body of a GET after At bytes, and says with
	// Content-Length and Content-Range that this is all there is.
	ShortAnswer Kind = "short_answer"
	// LoseAnswer does what was asked and closes the connection without a word.
	// It takes only what would have been a success.
	LoseAnswer Kind = "lose_answer"
	// FileAlreadyExists is 409 without having stored anything.
	FileAlreadyExists Kind = "file_already_exists"
	// PathConflict is 409 without having stored anything.
	PathConflict Kind = "path_conflict"
	// Unavailable is 503 ServiceUnavailable.
	Unavailable Kind = "unavailable"
	// SlowDown is 503 SlowDown.
	SlowDown Kind = "slow_down"
	// AccessDenied is 403, as for an account that may not do this.
	AccessDenied Kind = "access_denied"
	// Fail is the refusal in Status, Code and Message.
	Fail Kind = "fail"
	// SlowHeaders does what was asked and holds the whole answer back for Delay.
	SlowHeaders Kind = "slow_headers"
	// SlowBody sends the body in pieces of 1 KiB with Delay before each.
	SlowBody Kind = "slow_body"
	// StallBody sends At bytes of the body, waits for Delay, and sends the rest.
	StallBody Kind = "stall_body"
	// ResetConnection sends a TCP reset before the request is read.
	ResetConnection Kind = "reset_connection"
)

// slowPiece is how much SlowBody sends at once, in bytes.
const slowPiece = 1 << 10

// Fault says what goes wrong, for which requests and how often. It never counts
// a request that it cannot harm, such as one whose body is too short for At.
type Fault struct {
	Kind Kind
	// Op and Key narrow the requests; "" is any.
	Op  Op
	Key string
	// Match narrows them further; nil is any. It is asked last, one request at a
	// time, and must not call the Fake.
	Match func(op Op, key string, r *http.Request) bool
	// Skip lets that many matching requests pass first.
	Skip int
	// Times is how many requests are harmed after that; 0 is all.
	Times int
	// At is a number of bytes, by kind.
	At int64
	// Delay is how long an answer is held, by kind. Until, when it is not nil,
	// is waited for as well; both end early when the client goes away.
	Delay time.Duration
	Until <-chan struct{}
	// Status, Code and Message are those of Fail.
	Status        int
	Code, Message string
}

// Injected is a fault that is switched on.
type Injected struct {
	fault Fault
	list  *faults
	seen  int
	hits  int
	first chan struct{}
}

// Hits is how many requests the fault has harmed.
func (i *Injected) Hits() int {
	i.list.mu.Lock()
	defer i.list.mu.Unlock()
	return i.hits
}

// Hit is closed when the fault harms its first request.
func (i *Injected) Hit() <-chan struct{} { return i.first }

// Remove switches the fault off.
func (i *Injected) Remove() {
	i.list.mu.Lock()
	defer i.list.mu.Unlock()
	i.list.all = slices.DeleteFunc(i.list.all, func(other *Injected) bool { return other == i })
}

// faults are those that are switched on.
type faults struct {
	mu  sync.Mutex
	all []*Injected
}

// Inject switches a fault on, after those that are on already. Of one kind the
// first that matches harms a request, of different kinds all.
func (f *Fake) Inject(fault Fault) *Injected {
	i := &Injected{fault: fault, list: &f.faults, first: make(chan struct{})}
	f.faults.mu.Lock()
	defer f.faults.mu.Unlock()
	f.faults.all = append(f.faults.all, i)
	return i
}

// ClearFaults switches all faults off.
func (f *Fake) ClearFaults() {
	f.faults.mu.Lock()
	defer f.faults.mu.Unlock()
	f.faults.all = nil
}

// take returns the fault of this kind that harms r, and counts it; nil for
// none. applies tells whether it can; nil is yes.
func (fs *faults) take(kind Kind, r *request, applies func(*Fault) bool) *Fault {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	for _, i := range fs.all {
		ft := &i.fault
		switch {
		case ft.Kind != kind, ft.Op != "" && ft.Op != r.op, ft.Key != "" && ft.Key != r.key,
			ft.Times > 0 && i.hits >= ft.Times, applies != nil && !applies(ft),
			ft.Match != nil && !ft.Match(r.op, r.key, r.Request):
			continue
		}
		if i.seen++; i.seen <= ft.Skip {
			continue
		}
		if i.hits++; i.hits == 1 {
			close(i.first)
		}
		return ft
	}
	return nil
}

// injectedError returns the refusal that a fault wants, nil for none.
func (f *Fake) injectedError(r *request) error {
	for _, e := range []struct {
		kind Kind
		err  *apiError
	}{
		{AccessDenied, denied("Access Denied.")},
		{FileAlreadyExists, fail(http.StatusConflict, "FileAlreadyExists", "the object is there and may not be overwritten")},
		{PathConflict, fail(http.StatusConflict, "PathConflict", "the object is being written")},
		{Unavailable, fail(http.StatusServiceUnavailable, "ServiceUnavailable", "the service is not available")},
		{SlowDown, fail(http.StatusServiceUnavailable, "SlowDown", "reduce the rate of requests")},
	} {
		if f.faults.take(e.kind, r, nil) != nil {
			return e.err
		}
	}
	if ft := f.faults.take(Fail, r, nil); ft != nil {
		return fail(ft.Status, ft.Code, ft.Message)
	}
	return nil
}

// wait holds an answer back as ft says. It returns false when the client is
// gone or the server closes.
func (f *Fake) wait(ctx context.Context, ft *Fault) bool {
	timer := time.NewTimer(ft.Delay)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return false
	case <-f.closing:
		return false
	}
	if ft.Until == nil {
		return true
	}
	select {
	case <-ft.Until:
		return true
	case <-ctx.Done():
	case <-f.closing:
	}
	return false
}

// spoil applies the faults that change an answer, without touching the data
// that the bucket holds.
func (f *Fake) spoil(r *request, ans *answer) {
	hasCRC := func(*Fault) bool { return ans.header.Get(hdrCRC) != "" }
	if f.faults.take(MissingCRC, r, hasCRC) != nil {
		ans.header.Del(hdrCRC)
	}
	if f.faults.take(WrongCRC, r, hasCRC) != nil {
		n, _ := strconv.ParseUint(ans.header.Get(hdrCRC), 10, 64) // written by describe
		ans.header.Set(hdrCRC, strconv.FormatUint(n^1, 10))
	}
	if !ans.hasObject(r) {
		return
	}
	inBody := func(ft *Fault) bool { return ft.At >= ans.offset && ft.At < ans.offset+int64(len(ans.body)) }
	if ft := f.faults.take(FlipByte, r, inBody); ft != nil {
		ans.body = slices.Clone(ans.body)
		ans.body[ft.At-ans.offset] ^= 1
	}
	if ft := f.faults.take(ShortAnswer, r, ans.longerThan); ft != nil {
		if from := ans.offset; ans.status == http.StatusPartialContent {
			ans.header.Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, max(from, from+ft.At-1), from+ft.At))
		}
		ans.body = ans.body[:ft.At]
	}
}

// hasObject tells whether the body is that of an object.
func (ans *answer) hasObject(r *request) bool {
	return r.op == GetObject && (ans.status == http.StatusOK || ans.status == http.StatusPartialContent)
}

func (ans *answer) longerThan(ft *Fault) bool { return ft.At < int64(len(ans.body)) }
