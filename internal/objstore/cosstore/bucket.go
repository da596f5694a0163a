package cosstore

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/tencentyun/cos-go-sdk-v5"

	"github.com/hyapp/walletarchive/internal/objstore"
	"github.com/hyapp/walletarchive/manifest"
)

// Versioning is whether a bucket keeps versions.
type Versioning string

// The three states; a bucket never goes back to the first.
const (
	Unversioned Versioning = ""
	Enabled     Versioning = "Enabled"
	Suspended   Versioning = "Suspended"
)

// Versioning asks the bucket once and remembers the answer: how an overwrite
// is kept out depends on it, so nothing is written where it may not be asked.
func (s *Store) Versioning(ctx context.Context) (Versioning, error) {
	const op = "get versioning"
	if err := s.asking.lock(ctx); err != nil {
		return "", fmt.Errorf("%s: %w", op, err)
	}
	defer s.asking.unlock()
	if s.versioning != nil {
		return *s.versioning, nil
	}
	var v Versioning
	err := s.do(ctx, op, "", func() error {
		res, _, err := s.client.Bucket.GetVersioning(ctx)
		if err != nil {
			return err
		}
		v = Versioning(res.Status)
		if v != Unversioned && v != Enabled && v != Suspended {
			return &Error{Op: op, Err: fmt.Errorf("unknown state %q", res.Status)}
		}
		return nil
	})
	if err != nil {
		return "", err
	}
	s.bucketSeen.Store(true)
	s.versioning = &v
	return v, nil
}

// Bucket is what a bucket says of itself.
type Bucket struct {
	Region string    // "" when not said
	Date   time.Time // COS's clock, to the second; zero when not said
	Asked  time.Time // this machine's clock, half way of the request
}

// Bucket asks for the bucket itself.
func (s *Store) Bucket(ctx context.Context) (Bucket, error) {
	var b Bucket
	err := s.do(ctx, "head bucket", "", func() error {
		start := s.cfg.Now()
		resp, err := s.client.Bucket.Head(ctx)
		if err != nil {
			if r := answer(err); r != nil && r.Response.StatusCode == http.StatusNotFound {
				return s.noBucket(r.Response.Header)
			}
			return s.explainBucket(ctx, err)
		}
		b.Asked = start.Add(s.cfg.Now().Sub(start) / 2)
		b.Region = resp.Header.Get("X-Cos-Bucket-Region")
		b.Date, _ = http.ParseTime(resp.Header.Get("Date")) // zero is "not said"
		return nil
	})
	return b, err
}

func (s *Store) noBucket(h http.Header) error {
	e := &Error{Op: "head bucket", Status: http.StatusNotFound, Code: "NoSuchBucket",
		RequestID: h.Get("X-Cos-Request-Id"), Err: objstore.ErrConfig}
	e.Remedy = s.remedy(e, h)
	return e
}

// explainBucket learns the code of a refused HEAD from a request whose answer
// has a body.
func (s *Store) explainBucket(ctx context.Context, err error) error {
	resp := answer(err)
	if resp == nil || resp.Response.StatusCode != http.StatusForbidden {
		return err
	}
	_, _, getErr := s.client.Bucket.GetVersioning(ctx)
	if more := answer(getErr); more != nil && more.Code != "" && more.Response.StatusCode == http.StatusForbidden {
		return more
	}
	return err
}

// ObjectLock is how a bucket locks new objects.
type ObjectLock struct {
	Enabled bool
	// Days is how long every new object is locked by default; 0 locks only
	// those that ask for it.
	Days int
}

// ObjectLock asks for the bucket's object lock. A bucket that never had one is
// the zero value.
func (s *Store) ObjectLock(ctx context.Context) (ObjectLock, error) {
	var lock ObjectLock
	err := s.do(ctx, "get object lock", "", func() error {
		res, _, err := s.client.Bucket.GetObjectLockConfiguration(ctx)
		if r := answer(err); r != nil && r.Response.StatusCode == http.StatusNotFound && r.Code != "NoSuchBucket" {
			return nil
		}
		if err != nil {
			return err
		}
		lock.Enabled = res.ObjectLockEnabled == "Enabled"
		if lock.Enabled && res.Rule != nil {
			lock.Days = res.Rule.Days
		}
		return nil
	})
	return lock, err
}

// retention asks for the lock of one object; zero when it has none.
func (s *Store) retention(ctx context.Context, key string) (time.Time, error) {
	const op = "get retention"
	var until time.Time
	err := s.do(ctx, op, key, func() error {
		res, _, err := s.client.Object.GetRetention(ctx, key, nil)
		if r := answer(err); r != nil && r.Response.StatusCode == http.StatusNotFound && r.Code != "NoSuchBucket" && r.Code != "NoSuchKey" {
			return nil // neither the object nor the bucket has a lock
		}
		if err != nil {
			return err
		}
		if res.RetainUntilDate == "" || !lockHolds(res.Mode) {
			return nil
		}
		if until, err = time.Parse(time.RFC3339, res.RetainUntilDate); err != nil {
			return &Error{Op: op, Key: key, Err: err}
		}
		return nil
	})
	return until, err
}

// Retain locks an object. The SDK's call takes no version: on a bucket with
// versions, one that is not the latest cannot be locked.
func (s *Store) Retain(ctx context.Context, key, versionID string, until time.Time) error {
	const op = "lock object"
	if err := manifest.CheckKey(key); err != nil {
		return fmt.Errorf("%s: %w", op, err)
	}
	info, err := s.Head(ctx, key, "")
	switch {
	case err != nil:
		return err
	case versionID != "" && info.VersionID != versionID:
		return &Error{Op: op, Key: key, Err: fmt.Errorf("version %s is not the latest any more, %s is", versionID, info.VersionID)}
	case !info.RetainUntil.Before(until):
		return nil
	}
	return s.do(ctx, op, key, func() error {
		_, err := s.client.Object.PutRetention(ctx, key, &cos.ObjectPutRetentionOptions{RetainUntilDate: lockTime(until), Mode: lockMode})
		return err
	})
}

// lockMode is the only one that COS has.
const lockMode = "COMPLIANCE"

// lockTime is a time as COS reads it, rounded up to a second: the lock is never
// shorter than was asked.
func lockTime(t time.Time) string {
	return t.Add(time.Second - 1).UTC().Truncate(time.Second).Format("2006-01-02T15:04:05.000Z")
}
