package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hyapp/walletarchive/internal/mysqltest"
	"github.com/hyapp/walletarchive/internal/objstore/check"
	"github.com/hyapp/walletarchive/internal/objstore/cosfake"
)

// policies returns the actions of each section of docs/COS.md that has JSON in
// it, without "name/cos:". Those of a whole policy have to be well formed.
func policies(t *testing.T) map[string][]string {
	t.Helper()
	b, err := os.ReadFile(filepath.FromSlash("../../docs/COS.md"))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string][]string{}
	for _, m := range regexp.MustCompile("(?s)\n### ([^\n]*)\n(.*?)```json\n(.*?)```").FindAllStringSubmatch(string(b), -1) {
		var doc struct {
			Version   string
			Statement []struct {
				Effect           string
				Action, Resource []string
			}
		}
		var actions []string
		if err := json.Unmarshal([]byte(m[3]), &actions); err != nil {
			if err := json.Unmarshal([]byte(m[3]), &doc); err != nil {
				t.Fatalf("%s: %v", m[1], err)
			}
			for _, s := range doc.Statement {
				if doc.Version != "2.0" || s.Effect != "allow" || len(s.Resource) != 1 || !strings.HasPrefix(s.Resource[0], "qcs::cos:") {
					t.Errorf("%s: %+v is no policy", m[1], doc)
				}
				actions = append(actions, s.Action...)
			}
		}
		for _, a := range actions {
			name, ok := strings.CutPrefix(a, "name/cos:")
			if !ok {
				t.Errorf("%s: action %q", m[1], a)
			}
			all[m[1]] = append(all[m[1]], name)
		}
	}
	return all
}

// actionsOf are the actions that COS asks for an operation: a copy is a PUT of
// what is read.
func actionsOf(op cosfake.Op) []string {
	if op == cosfake.PutObjectCopy {
		return []string{string(cosfake.PutObject), string(cosfake.GetObject)}
	}
	return []string{string(op)}
}

// TestPoliciesAreEnoughAndNoMore runs each command with just the permissions that
// docs/COS.md grants, and wants each of them to be used.
func TestPoliciesAreEnoughAndNoMore(t *testing.T) {
	granted := policies(t)
	a := newArchive(t, 2, 5)
	s := mysqltest.Get(t, mysqltest.MariaDB)
	receipts := []string{"--receipt", a.receipts}
	verify := func(more ...string) func(*testing.T, *bucket) {
		return func(t *testing.T, b *bucket) {
			b.runs(t, exitOK, append([]string{"verify", "--store", b.url}, more...)...)
		}
	}
	export := func(more ...string) func(*testing.T, *bucket) {
		return func(t *testing.T, b *bucket) {
			args := append([]string{"export", "--app", "wallet", "--store", b.url, "--older-than", "24h", "--tag", "k=v", "--sse", "cos"}, more...)
			fillSource(t, s, 20, "wallet")
			// What an interrupted run left is looked at and locked.
			stopped := b.Inject(cosfake.Fault{Kind: cosfake.ResetConnection, Op: cosfake.PutObject, Match: endsWith("_SUCCESS")})
			b.runs(t, exitUnfinished, args[:11]...)
			stopped.Remove()
			b.runs(t, exitOK, args...)
		}
	}
	for _, test := range []struct {
		name     string
		sections []string
		options  cosfake.Options
		work     func(*testing.T, *bucket)
	}{
		{"export", []string{"export"}, cosfake.Options{}, export()},
		{"export to a bucket with versions", []string{"export"}, cosfake.Options{Versioning: "Enabled"}, export("--storage-class", "ARCHIVE")},
		{"export with a lock", []string{"export", "export with --retain-days or --retain-until"}, cosfake.Options{ObjectLock: true},
			export("--storage-class", "ARCHIVE", "--retain-days", "3")},
		{"verify head", []string{"verify --level head, with a ledger or receipts"}, cosfake.Options{}, verify(append(receipts, "--level", "head")...)},
		{"verify rows", []string{"verify, restore, drill, with a ledger or receipts"}, cosfake.Options{}, verify(receipts...)},
		{"restore", []string{"verify, restore, drill, with a ledger or receipts"}, cosfake.Options{}, func(t *testing.T, b *bucket) {
			fillSource(t, s, 1, "other")
			t.Setenv("WALLETARCHIVE_TARGET_DSN", os.Getenv("WALLETARCHIVE_SOURCE_DSN"))
			t.Setenv("WALLETARCHIVE_STATE_DIR", t.TempDir())
			b.runs(t, exitOK, append([]string{"restore", "--dry-run", "--store", b.url}, receipts...)...)
		}},
		{"drill", []string{"verify, restore, drill, with a ledger or receipts"}, cosfake.Options{}, func(t *testing.T, b *bucket) {
			t.Setenv("WALLETARCHIVE_SCRATCH", "dsn:"+s.DSN(""))
			b.runs(t, exitOK, append([]string{"drill", "--store", b.url}, receipts...)...)
		}},
		{"verify --discover", []string{"verify without either: BATCH_ID or --discover"}, cosfake.Options{}, verify("--discover")},
		{"verify BATCH_ID", []string{"verify without either: BATCH_ID or --discover"}, cosfake.Options{}, verify("--app", "wallet", a.id(0))},
		{"retention", []string{"verify --level head, with a ledger or receipts", "--require-retention"}, cosfake.Options{}, func(t *testing.T, b *bucket) {
			b.runs(t, exitArchive, append([]string{"verify", "--store", b.url, "--level", "head", "--require-retention", "3"}, receipts...)...)
		}},
		{"thaw", []string{"verify, restore, drill, with a ledger or receipts", "--thaw"}, cosfake.Options{}, func(t *testing.T, b *bucket) {
			b.SetStorageClass(bucketPrefix+"/"+a.list[0].DataObjectKey, "ARCHIVE")
			verify(append(receipts, "--thaw", "bulk", "--thaw-wait", "13h")...)(t, b)
		}},
		{"store check", []string{"store check"}, cosfake.Options{}, func(t *testing.T, b *bucket) {
			b.runs(t, exitOK, "store", "check", "--store", b.url)
			for _, e := range b.Requests() {
				if e.Key != "" && !strings.HasPrefix(e.Key, bucketPrefix+"/"+check.ProbeFolder+"/") {
					t.Errorf("store check touches %s", e.Key)
				}
			}
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var want []string
			for _, section := range test.sections {
				if len(granted[section]) == 0 {
					t.Fatalf("docs/COS.md has no section %q with actions", section)
				}
				want = append(want, granted[section]...)
			}
			b := newBucket(t, test.options)
			b.upload(t, a, plain)
			b.Inject(cosfake.Fault{Kind: cosfake.AccessDenied, Match: func(op cosfake.Op, _ string, _ *http.Request) bool {
				return slices.ContainsFunc(actionsOf(op), func(action string) bool { return !slices.Contains(want, action) })
			}})
			test.work(t, b)
			used := map[string]bool{}
			for _, e := range b.Requests() {
				for _, action := range actionsOf(e.Op) {
					used[action] = true
				}
			}
			if diff := cmp.Diff(sortedUnique(want), slices.Sorted(maps.Keys(used))); diff != "" {
				t.Errorf("actions that docs/COS.md grants and that are used (-granted +used):\n%s", diff)
			}
		})
	}
	if len(granted) != 8 {
		t.Errorf("%d sections of docs/COS.md have actions, the test knows 8: %s", len(granted), fmt.Sprint(slices.Sorted(maps.Keys(granted))))
	}
}

func sortedUnique(list []string) []string { return slices.Compact(slices.Sorted(slices.Values(list))) }
