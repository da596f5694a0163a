package drill

import (
	"context"
	"database/sql"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/hyapp/walletarchive/internal/batchtest"
	"github.com/hyapp/walletarchive/internal/mysqldb"
	"github.com/hyapp/walletarchive/internal/mysqltest"
	"github.com/hyapp/walletarchive/internal/objstore"
	"github.com/hyapp/walletarchive/internal/outbox"
	"github.com/hyapp/walletarchive/manifest"
	"github.com/hyapp/walletarchive/verify"
)

// noData is a store that does not hand out data objects.
type noData struct{ batchtest.Store }

var errNoData = errors.New("the store is out of order")

func (s noData) Get(ctx context.Context, key, version string) (io.ReadCloser, objstore.Info, error) {
	if strings.HasSuffix(key, manifest.DataName) {
		return nil, objstore.Info{}, errNoData
	}
	return s.Store.Get(ctx, key, version)
}

func oneRow(yield func(*manifest.Record) bool) {
	yield(&manifest.Record{
		AppCode: app, EventID: "e", Status: manifest.StatusDelivered, PayloadJSON: "{}",
		CreatedAtMS: 1_700_000_000_000, UpdatedAtMS: 1_700_000_000_000,
	})
}

// TestRunKeepsWhatWasProvenWrongBeforeAnError: what verify found stands,
// although the data object could then not be read.
func TestRunKeepsWhatWasProvenWrongBeforeAnError(t *testing.T) {
	never := func(context.Context) (Scratch, error) {
		t.Error("a scratch server was started for a batch that is not whole")
		return Scratch{}, errNoData
	}
	for _, tampered := range []bool{true, false} {
		b := batchtest.Pack(t, app, oneRow, nil)
		if tampered {
			key := b.Location.ManifestKey()
			b.Store[key] = append(b.Store[key], '\n')
		}
		r, err := Run(t.Context(), noData{b.Store}, []verify.Target{target(b)}, never, Options{})
		if !errors.Is(err, errNoData) {
			t.Errorf("tampered %t: Run: %v, want the error of the store", tampered, err)
		}
		if found := len(r.Batches) == 1 && r.Batches[0].Verify.Failed(); found != tampered {
			t.Errorf("tampered %t: the report has the faults: %t; batches %+v", tampered, found, r.Batches)
		}
	}
}

// TestRunKeepsItsVerdictWhenTheTableStays: a table that cannot be dropped says
// nothing about the batch; the database goes with the scratch server.
func TestRunKeepsItsVerdictWhenTheTableStays(t *testing.T) {
	mysqltest.Each(t, func(t *testing.T, s mysqltest.Server) {
		batch := exported(t, source(t, s, "utf8mb4_bin", 50, 100*time.Millisecond), outbox.DefaultTable)
		for name, differs := range map[string]bool{"proven": false, "failed": true} {
			t.Run(name, func(t *testing.T) {
				b := drillOne(t, batch, scratchOn(t, s), Options{afterRestore: func(ctx context.Context, db *sql.DB, table string) error {
					q := mysqldb.QuoteName(table)
					statements := []string{
						"CREATE TABLE child LIKE " + q,
						"ALTER TABLE child ADD FOREIGN KEY (app_code, event_id) REFERENCES " + q + " (app_code, event_id)",
					}
					if differs {
						statements = append(statements, "UPDATE "+q+" SET user_id = user_id + 1")
					}
					for _, st := range statements {
						if _, err := db.ExecContext(ctx, st); err != nil {
							return err
						}
					}
					return nil
				}})
				if b.Differs() != differs || b.Proven() == differs {
					t.Errorf("the drill is proven = %t, differs = %t, want differs = %t", b.Proven(), b.Differs(), differs)
				}
				if !strings.Contains(strings.Join(b.Notes, "\n"), "could not be dropped") {
					t.Errorf("no note tells that the table stays: %q", b.Notes)
				}
			})
		}
	})
}
