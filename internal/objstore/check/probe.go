package check

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/hyapp/walletarchive/internal/clock"
	"github.com/hyapp/walletarchive/internal/objstore"
	"github.com/hyapp/walletarchive/manifest"
)

// probe adds the lines of what is done with an object.
func (r *run) probe(ctx context.Context, prefix string) {
	if r.locked > 0 {
		r.why = fmt.Sprintf("a probe object would be locked for %d days and could not be deleted", r.locked)
		return
	}
	r.why = "there is no probe object"
	r.key = manifest.JoinPrefix(prefix, ProbeFolder+"/"+rand.Text())
	r.body = newProbe()
	// A PUT that failed may still have stored something.
	defer r.delete(ctx)
	if !r.put(ctx) {
		return
	}
	r.writeOnce(ctx)
	r.head(ctx)
	r.get(ctx)
	r.list(ctx)
}

func (r *run) put(ctx context.Context) bool {
	body, size, sum := digestReader(r.body)
	info, _, err := r.store.Put(ctx, r.key, body, size, sum, objstore.PutOptions{ContentType: "text/plain"})
	if err != nil {
		r.fail(Put, err, "nothing can be exported to this store")
		return false
	}
	r.info = info
	detail := fmt.Sprintf("%d bytes as %s", size, r.key)
	if info.VersionID != "" {
		detail += ", version " + info.VersionID
	}
	r.pass(Put, "%s", detail)
	return true
}

// writeOnce tries to put other bytes under the key.
func (r *run) writeOnce(ctx context.Context) {
	body, size, sum := digestReader(newProbe())
	info, _, err := r.store.Put(ctx, r.key, body, size, sum, objstore.PutOptions{ContentType: "text/plain"})
	switch {
	case errors.Is(err, objstore.ErrExist):
		r.pass(WriteOnce, "other bytes under the same key were refused")
	case err != nil:
		r.fail(WriteOnce, err, "")
	default:
		r.add(WriteOnce, Fail, "other bytes could be written under the same key", "do not use this store for an archive; tell us about it")
		if info.VersionID != r.info.VersionID {
			_ = r.store.Delete(ctx, r.key, info.VersionID) // the line is bad enough
		}
	}
}

func (r *run) head(ctx context.Context) {
	info, err := r.store.Head(ctx, r.key, r.info.VersionID)
	if err != nil {
		r.fail(Head, err, "")
		return
	}
	want := manifest.SumCRC64(r.body)
	switch {
	case info.Size != int64(len(r.body)):
		r.add(Head, Fail, fmt.Sprintf("it says %d bytes, %d were written", info.Size, len(r.body)), altered)
	case info.CRC64 == nil:
		r.add(Head, Fail, "it names no CRC64", "something between here and the store takes away the header x-cos-hash-crc64ecma; verify --level head cannot work")
	case *info.CRC64 != want:
		r.add(Head, Fail, fmt.Sprintf("it says CRC64 %v, written was %v", info.CRC64, want), "")
	default:
		r.pass(Head, "length and CRC64 are those of what was written")
	}
}

func (r *run) get(ctx context.Context) {
	b, err := r.read(ctx)
	switch {
	case err != nil:
		r.fail(Get, err, "")
	case !bytes.Equal(b, r.body):
		r.add(Get, Fail, "other bytes came back than were written", altered)
	default:
		r.pass(Get, "the bytes are those that were written")
	}
}

func (r *run) read(ctx context.Context) ([]byte, error) {
	body, _, err := r.store.Get(ctx, r.key, r.info.VersionID)
	if err != nil {
		return nil, err
	}
	b, err := io.ReadAll(io.LimitReader(body, int64(len(r.body))+1))
	return b, errors.Join(err, body.Close())
}

// A list may lag; these are its tries and the pause between them.
const (
	listTries = 5
	listPause = time.Second
)

func (r *run) list(ctx context.Context) {
	for try := range listTries {
		if try > 0 && r.sleep(ctx) != nil {
			break
		}
		for info, err := range r.store.List(ctx, r.key) {
			if err != nil {
				r.fail(List, err, "")
				return
			}
			if info.Key == r.key {
				r.pass(List, "the object is listed")
				return
			}
		}
	}
	r.add(List, NotTried, "the list works, but does not show the object yet", "lists lag; nothing but verify --discover depends on them")
}

func (r *run) sleep(ctx context.Context) error {
	if r.opts.Sleep != nil {
		return r.opts.Sleep(ctx, listPause)
	}
	return clock.Sleep(ctx, listPause)
}

// delete removes the probe object, also when the run is cancelled.
func (r *run) delete(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanUpTime)
	defer cancel()
	if r.found[Put].Status != Pass {
		// The line is about an object that was put, but a PUT that failed may
		// have stored it.
		if info, err := r.store.Head(ctx, r.key, ""); err == nil {
			_ = r.store.Delete(ctx, r.key, info.VersionID) // Put's line says enough
		}
		return
	}
	err := r.store.Delete(ctx, r.key, r.info.VersionID)
	if err != nil {
		r.fail(Delete, err, "")
		l := r.found[Delete]
		l.Detail = fmt.Sprintf("%s stays there: %s", r.key, l.Detail)
		l.Remedy += "; exports, verification and restores never delete"
		r.found[Delete] = l
		return
	}
	switch _, err := r.store.Head(ctx, r.key, r.info.VersionID); {
	case errors.Is(err, objstore.ErrNotExist):
		r.pass(Delete, "the probe object is gone")
	case err != nil:
		r.fail(Delete, err, "")
	default:
		r.add(Delete, Fail, r.key+" is still there after it was deleted", "delete it by hand")
	}
}
