package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/hyapp/walletarchive/export"
	"github.com/hyapp/walletarchive/internal/objstore"
	"github.com/hyapp/walletarchive/internal/objstore/open"
	"github.com/hyapp/walletarchive/internal/report"
)

const (
	storageClassFlag = "storage-class"
	sseFlag          = "sse"
	tagFlag          = "tag"
	retainUntilFlag  = "retain-until"
	retainDaysFlag   = "retain-days"
)

// maxLockDays is the longest object lock of COS (Tencent's document 436/55294).
const maxLockDays = 36500

// putFlags say how objects are kept.
func putFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: storageClassFlag, DefaultText: "STANDARD", Usage: "storage `CLASS` of the data objects, STANDARD_IA or ARCHIVE for example; a cold one is set after the receipt, manifest and marker stay STANDARD"},
		&cli.StringFlag{Name: sseFlag, DefaultText: "as the bucket has it", Usage: "encrypt objects in the store: `HOW` is cos or kms:KEY_ID"},
		&cli.StringSliceFlag{Name: tagFlag, KeepSpace: true, Usage: "tag objects with `KEY=VALUE`; may be given several times"},
		&cli.StringFlag{Name: retainUntilFlag, Usage: "lock all three objects until `TIME`: 2030-01-31 or 2030-01-31T08:00:00Z. Nobody can end a lock early"},
		&cli.IntFlag{Name: retainDaysFlag, DefaultText: "no lock", Usage: "lock all three objects for `DAYS` from now"},
	}
}

// putOptions reads putFlags for the store at a place, whose kind must be able to
// do what is asked. Nothing is contacted.
func putOptions(c *cli.Context, at place, now time.Time) (o export.PutOptions, err error) {
	o.SSE, o.DataStorageClass = c.String(sseFlag), c.String(storageClassFlag)
	for _, tag := range c.StringSlice(tagFlag) {
		key, value, ok := strings.Cut(tag, "=")
		if !ok || key == "" {
			return o, usagef("--%s %q is not KEY=VALUE", tagFlag, tag)
		}
		if _, twice := o.Tags[key]; twice {
			return o, usagef("--%s %s is given twice", tagFlag, key)
		}
		if o.Tags == nil {
			o.Tags = map[string]string{}
		}
		o.Tags[key] = value
	}
	if o.RetainUntil, err = retainUntil(c, now); err != nil {
		return o, err
	}
	err = open.CheckPut(at.url, objstore.PutOptions{StorageClass: o.DataStorageClass, SSE: o.SSE, Tags: o.Tags, RetainUntil: o.RetainUntil})
	if err != nil {
		return o, usagef("--%s: %v", storeFlag, err)
	}
	return o, nil
}

// retainUntil returns when the lock that is asked for ends, to the second, which
// is what COS keeps; zero for no lock.
func retainUntil(c *cli.Context, now time.Time) (time.Time, error) {
	now = now.Add(time.Second - 1).Truncate(time.Second)
	until, err := timeOf(c, retainUntilFlag)
	days := c.Int(retainDaysFlag)
	latest := now.AddDate(0, 0, maxLockDays)
	switch {
	case err != nil:
		return time.Time{}, err
	case c.IsSet(retainDaysFlag) && !until.IsZero():
		return time.Time{}, usagef("--%s and --%s: give one", retainUntilFlag, retainDaysFlag)
	case c.IsSet(retainDaysFlag) && (days < 1 || days > maxLockDays):
		return time.Time{}, usagef("--%s is %d, want 1 to %d", retainDaysFlag, days, maxLockDays)
	case c.IsSet(retainDaysFlag):
		return now.AddDate(0, 0, days), nil
	case !until.IsZero() && !until.After(now):
		return time.Time{}, usagef("--%s %s is past", retainUntilFlag, c.String(retainUntilFlag))
	case until.After(latest):
		return time.Time{}, usagef("--%s is over %d days ahead", retainUntilFlag, maxLockDays)
	}
	return until, nil
}

// keptText says for people how the objects of an export are kept, "" when in no
// special way.
func keptText(o export.PutOptions) string {
	var parts []string
	if !o.RetainUntil.IsZero() {
		parts = append(parts, "locked until "+o.RetainUntil.UTC().Format(time.RFC3339))
	}
	if o.DataStorageClass != "" {
		parts = append(parts, "data in "+o.DataStorageClass)
	}
	if o.SSE != "" {
		parts = append(parts, "encrypted by "+o.SSE)
	}
	if n := len(o.Tags); n > 0 {
		parts = append(parts, fmt.Sprintf("with %s", report.Plural(int64(n), "tag")))
	}
	return strings.Join(parts, ", ")
}
