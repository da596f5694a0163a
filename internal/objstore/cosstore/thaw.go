package cosstore

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/tencentyun/cos-go-sdk-v5"

	"github.com/hyapp/walletarchive/internal/objstore"
	"github.com/hyapp/walletarchive/manifest"
)

// thawPause keeps requests below 100 a second, the service's limit (Tencent's
// document 436/12633).
const thawPause = 11 * time.Millisecond

// thawTiers are COS's names. DEEP_ARCHIVE knows no Expedited.
var thawTiers = map[string]string{"expedited": "Expedited", "standard": "Standard", "bulk": "Bulk"}

// ThawTime returns how long COS takes to make a readable copy, by storage class
// and tier (Tencent's document 436/30933); ok is false when the class has no
// such tier or is not cold.
func ThawTime(class, tier string) (least, most time.Duration, ok bool) {
	r, ok := thawTimes[strings.TrimPrefix(class, "MAZ_")][tier]
	return r[0], r[1], ok
}

var thawTimes = map[string]map[string][2]time.Duration{
	"ARCHIVE": {
		"expedited": {time.Minute, 5 * time.Minute},
		"standard":  {3 * time.Hour, 5 * time.Hour},
		"bulk":      {5 * time.Hour, 12 * time.Hour},
	},
	"DEEP_ARCHIVE": {
		"standard": {12 * time.Hour, 24 * time.Hour},
		"bulk":     {24 * time.Hour, 48 * time.Hour},
	},
}

// Thaw asks COS for a readable copy. Requests of all goroutines together stay
// below the rate that COS takes.
func (s *Store) Thaw(ctx context.Context, key, versionID string, days int, tier string) error {
	const op = "thaw object"
	if err := manifest.CheckKey(key); err != nil {
		return fmt.Errorf("%s: %w", op, err)
	}
	name, ok := thawTiers[tier]
	if !ok {
		return &Error{Op: op, Key: key, Err: fmt.Errorf("tier %q is not expedited, standard or bulk: %w", tier, objstore.ErrConfig)}
	}
	if days < 1 {
		return &Error{Op: op, Key: key, Err: fmt.Errorf("%d days, at least 1: %w", days, objstore.ErrConfig)}
	}
	return s.do(ctx, op, key, func() error {
		if err := s.thawTurn(ctx); err != nil {
			return err
		}
		_, err := s.client.Object.PostRestore(ctx, key, &cos.ObjectRestoreOptions{
			Days: days, Tier: &cos.CASJobParameters{Tier: name},
		}, ids(versionID)...)
		if err == nil {
			return nil
		}
		e := s.wrap(ctx, op, key, err)
		switch {
		case e.Status == http.StatusConflict && (e.Code == "RestoreAlreadyInProgress" || e.Code == ""):
			return nil
		case e.Status == http.StatusMethodNotAllowed && (e.Code == "RestoreNonArchiveObject" || e.Code == ""):
			return nil
		case e.Status == http.StatusBadRequest && tier == "expedited":
			e.Remedy = "DEEP_ARCHIVE objects have no expedited thaw: use standard or bulk"
		case errors.Is(e, objstore.ErrNotExist) && e.Remedy == "":
			e.Remedy = "there is nothing to thaw under this key"
		}
		return e
	})
}

// thawTurn waits until the next request may go out.
func (s *Store) thawTurn(ctx context.Context) error {
	if err := s.thawing.lock(ctx); err != nil {
		return err
	}
	now := s.cfg.Now()
	at := s.nextAsk
	if at.Before(now) {
		at = now
	}
	s.nextAsk = at.Add(thawPause)
	s.thawing.unlock()
	if wait := at.Sub(now); wait > 0 {
		return s.cfg.Sleep(ctx, wait)
	}
	return nil
}
