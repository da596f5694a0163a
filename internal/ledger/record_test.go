package ledger

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/hyapp/walletarchive/internal/mysqldb"
	"github.com/hyapp/walletarchive/internal/mysqltest"
	"github.com/hyapp/walletarchive/manifest"
)

func TestRecord(t *testing.T) {
	mysqltest.Each(t, func(t *testing.T, s mysqltest.Server) {
		l, db := newLedger(t, s)
		l.window = chunkRows + 10
		var batches []batch
		for name, rows := range map[string]int{"one": 1, "chunk": chunkRows, "chunk and one": chunkRows + 1, "`'\"\\é😀%_": 3, "three": 2*chunkRows + 7} {
			batches = append(batches, newBatch(t, "game é", name, rows))
		}
		for _, b := range batches {
			mustRecord(t, l, b)
		}
		checkHolds(t, db, batches...)
		// Again, as it is, in another order, and by a later run: a success each time,
		// and the first recording stays.
		for _, b := range batches {
			shuffled := b
			shuffled.members = slices.Clone(b.members)
			slices.Reverse(shuffled.members)
			for _, again := range []batch{b, shuffled, b.at(b.receipt.VerifiedAtMS + 5), shuffled.at(b.receipt.VerifiedAtMS - 5)} {
				existed, err := l.Record(t.Context(), again.receipt, each(again.members))
				if err != nil || !existed {
					t.Errorf("Record again = %v, %v, want true, nil", existed, err)
				}
			}
		}
		checkHolds(t, db, batches...)
	})
}

// TestRecordWhereTheFastReadDoesNotServe has tables without the key that it uses,
// and event_ids that the collation orders otherwise than their bytes.
func TestRecordWhereTheFastReadDoesNotServe(t *testing.T) {
	mysqltest.Each(t, func(t *testing.T, s mysqltest.Server) {
		l, db := newLedger(t, s)
		b := newBatch(t, "game", "b", 6)
		// By the collation, the end of a string counts as a space.
		for i, id := range []string{"x", "x\x01", "x\x01\x01", "x!"} {
			b.members[i+1].EventID = id
		}
		mustRecord(t, l, b)
		checkHolds(t, db, b)

		exec(t, db, "ALTER TABLE "+MembersTable+" DROP KEY "+batchKey)
		if err := l.CheckTables(t.Context()); err != nil {
			t.Fatal(err)
		}
		c := newBatch(t, "game", "c", 3*chunkRows+1)
		mustRecord(t, l, c)
		checkHolds(t, db, b, c)
	})
}

// TestRecordRefuses holds every rule of docs/FORMAT.md "Ledger": each fault is
// refused with its error, and the ledger holds what it held before.
func TestRecordRefuses(t *testing.T) {
	failed := errors.New("members cannot be read")
	// Every case starts with batch old in the ledger and spoils a batch of its own.
	tests := []struct {
		name   string
		spoil  func(b *batch, old batch)
		want   error
		column string // of the MemberError or ConflictError
	}{
		{"missing field", func(b *batch, _ batch) { b.receipt.GzipSHA256 = manifest.Hash{} }, manifest.ErrBadReceipt, ""},
		{"no state", func(b *batch, _ batch) { b.receipt.State = "" }, manifest.ErrBadReceipt, ""},
		{"app_code of 43 characters", func(b *batch, _ batch) { b.receipt.AppCode = strings.Repeat("é", 43) }, manifest.ErrBadReceipt, ""},

		{"no members", func(b *batch, _ batch) { b.members = nil }, manifest.ErrBadReceipt, "row_count"},
		{"fewer members than rows", func(b *batch, _ batch) { b.members = slices.Delete(b.members, 7, 8) }, manifest.ErrBadReceipt, "row_count"},
		{"more members than rows", func(b *batch, _ batch) {
			b.members = append(b.members, b.receipt.Member("more", b.receipt.LastUpdatedAtMS))
		}, manifest.ErrBadReceipt, "row_count"},
		{"duplicate member in a window", func(b *batch, _ batch) { b.members[5] = b.members[4] }, manifest.ErrBadReceipt, "event_id"},
		{"duplicate member in another window", func(b *batch, _ batch) { b.members[chunkRows+105] = b.members[4] }, manifest.ErrBadReceipt, "event_id"},
		{"duplicate member in the last window", func(b *batch, _ batch) { b.members[2*chunkRows+1] = b.members[3] }, manifest.ErrBadReceipt, "event_id"},
		{"first cursor is no member", func(b *batch, _ batch) { b.members[0].EventID = "other" }, manifest.ErrBadReceipt, "first_event_id"},
		{"last cursor is no member", func(b *batch, _ batch) { b.members[len(b.members)-1].UpdatedAtMS-- }, manifest.ErrBadReceipt, "last_event_id"},
		{"member of another app", func(b *batch, _ batch) { b.members[3].AppCode = "Game" }, manifest.ErrBadReceipt, "app_code"},
		{"member of another receipt", func(b *batch, old batch) { b.members[3].BatchID = old.receipt.BatchID }, manifest.ErrBadReceipt, "batch_id"},
		{"member of another manifest", func(b *batch, old batch) { b.members[3].ManifestSHA256 = old.receipt.ManifestSHA256 }, manifest.ErrBadReceipt, "manifest_sha256"},
		{"member verified at another time", func(b *batch, _ batch) { b.members[3].ReceiptVerifiedAtMS++ }, manifest.ErrBadReceipt, "receipt_verified_at_ms"},
		{"member before the first cursor", func(b *batch, _ batch) { b.members[3].UpdatedAtMS = baseMS - 1 }, manifest.ErrBadReceipt, "updated_at_ms"},
		{"member after the last cursor", func(b *batch, _ batch) { b.members[3].UpdatedAtMS = b.receipt.LastUpdatedAtMS + 1 }, manifest.ErrBadReceipt, "updated_at_ms"},
		{"member without event_id", func(b *batch, _ batch) { b.members[3].EventID = "" }, manifest.ErrBadReceipt, "event_id"},
		{"member that is not UTF-8", func(b *batch, _ batch) { b.members[3].EventID = "\xff" }, manifest.ErrBadReceipt, "event_id"},

		{"member that another batch holds", func(b *batch, old batch) { b.members[3].EventID = old.members[1].EventID }, ErrConflict, "batch_id"},
		{"member that another batch holds, in the last chunk", func(b *batch, old batch) { b.members[2*chunkRows+1].EventID = old.members[0].EventID }, ErrConflict, "batch_id"},
		{"member that another batch holds but for a trailing space", func(b *batch, old batch) { b.members[3].EventID = old.members[1].EventID + " " }, ErrConflict, "event_id"},
		{"members that differ in a trailing space", func(b *batch, _ batch) { b.members[3].EventID = b.members[4].EventID + " " }, ErrConflict, "event_id"},
		{"members that differ in a trailing space, in another window", func(b *batch, _ batch) { b.members[chunkRows+103].EventID = b.members[4].EventID + " " }, ErrConflict, "event_id"},

		{"recorded with another row_count", func(b *batch, old batch) { *b = old; b.receipt.RowCount++ }, ErrConflict, "row_count"},
		{"recorded with another total", func(b *batch, old batch) { *b = old; b.receipt.FrozenDeltaTotal.Add(1) }, ErrConflict, "frozen_delta_total"},
		{"recorded with another checksum", func(b *batch, old batch) { *b = old; b.receipt.DataCRC64++ }, ErrConflict, "data_crc64"},
		{"recorded with another manifest", func(b *batch, old batch) { *b = old; b.receipt.ManifestSHA256[0] ^= 1 }, ErrConflict, "manifest_sha256"},
		{"recorded with another key", func(b *batch, old batch) {
			*b = old
			for _, key := range []*string{&b.receipt.DataObjectKey, &b.receipt.ManifestObjectKey, &b.receipt.SuccessObjectKey} {
				*key = "elsewhere/" + *key
			}
		}, ErrConflict, "data_object_key"},
		{"recorded with another member", func(b *batch, old batch) {
			*b = old
			b.members = slices.Clone(old.members)
			b.members[1].EventID = "other"
		}, ErrConflict, "event_id"},
		{"recorded with another time of a member", func(b *batch, old batch) {
			*b = old
			b.members = slices.Clone(old.members)
			b.members[1].UpdatedAtMS++
		}, ErrConflict, "updated_at_ms"},
		{"again with fewer members", func(b *batch, old batch) { *b = old; b.members = old.members[:2] }, manifest.ErrBadReceipt, "row_count"},
		{"again with a duplicate member", func(b *batch, old batch) {
			*b = old
			b.members = []manifest.Member{old.members[0], old.members[2], old.members[2]}
		}, manifest.ErrBadReceipt, "event_id"},
		{"again with members of another time", func(b *batch, old batch) { *b = old; b.members = old.at(1).members }, manifest.ErrBadReceipt, "receipt_verified_at_ms"},
	}
	mysqltest.Each(t, func(t *testing.T, s mysqltest.Server) {
		l, db := newLedger(t, s)
		l.window = chunkRows + 100
		old := newBatch(t, "game", "old", 3)
		mustRecord(t, l, old)
		refused := func(t *testing.T, b batch, want error, column string) {
			t.Helper()
			existed, err := l.Record(t.Context(), b.receipt, each(b.members))
			if existed || !errors.Is(err, want) {
				t.Errorf("Record = %v, %v, want false, %v", existed, err, want)
			}
			var me *MemberError
			var ce *ConflictError
			got := ""
			switch {
			case errors.As(err, &me):
				got = me.Column
			case errors.As(err, &ce):
				got = ce.Column
			}
			if got != column {
				t.Errorf("Record = %v, which names column %q, want %q", err, got, column)
			}
		}
		for _, tt := range tests {
			t.Run(tt.name, func(t *testing.T) {
				b := newBatch(t, "game", "new", 2*chunkRows+3)
				tt.spoil(&b, old)
				refused(t, b, tt.want, tt.column)
				checkHolds(t, db, old)
			})
		}
		t.Run("members that fail", func(t *testing.T) {
			b := newBatch(t, "game", "new", 2*chunkRows)
			members := func(yield func(manifest.Member, error) bool) {
				for m := range each(b.members[:chunkRows+1]) {
					if !yield(m, nil) {
						return
					}
				}
				yield(manifest.Member{}, failed)
			}
			for _, r := range []manifest.Receipt{b.receipt, old.receipt} {
				if r.BatchID == old.receipt.BatchID {
					members = func(yield func(manifest.Member, error) bool) { yield(manifest.Member{}, failed) }
				}
				if existed, err := l.Record(t.Context(), r, members); existed || !errors.Is(err, failed) {
					t.Errorf("Record = %v, %v, want %v", existed, err, failed)
				}
			}
			checkHolds(t, db, old)
		})
		t.Run("members without a receipt", func(t *testing.T) {
			gone := newBatch(t, "game", "gone", 2)
			mustRecord(t, l, gone)
			exec(t, db, "DELETE FROM "+ReceiptsTable+" WHERE batch_id = ?", string(gone.receipt.BatchID))
			refused(t, gone, ErrConflict, "batch_id")
			if receipts, members := snapshot(t, db); len(receipts) != 1 || len(members) != 5 {
				t.Errorf("%d receipts and %d members, want 1 and 5", len(receipts), len(members))
			}
			exec(t, db, "DELETE FROM "+MembersTable+" WHERE batch_id = ?", string(gone.receipt.BatchID))
		})
		t.Run("receipt without members", func(t *testing.T) {
			older := newBatch(t, "game", "older", 2)
			mustRecord(t, l, older)
			exec(t, db, "DELETE FROM "+MembersTable+" WHERE batch_id = ?", string(older.receipt.BatchID))
			if n, err := l.MemberCount(t.Context(), "game", older.receipt.BatchID); n != 0 || err != nil {
				t.Errorf("MemberCount = %d, %v, want 0", n, err)
			}
			refused(t, older, ErrConflict, "members")
			older.members = nil
			checkHolds(t, db, old, older)
		})
		t.Run("recorded members of another manifest", func(t *testing.T) {
			b := newBatch(t, "game", "tampered", 2)
			mustRecord(t, l, b)
			exec(t, db, "UPDATE "+MembersTable+" SET receipt_verified_at_ms = 1 WHERE event_id = ?", b.members[1].EventID)
			refused(t, b, ErrConflict, "manifest_sha256 and receipt_verified_at_ms")
		})
	})
}

// TestRecordReadsBack has a trigger change what is written, as no strict session
// can prevent.
func TestRecordReadsBack(t *testing.T) {
	tests := []struct{ name, table, set string }{
		{"receipt", ReceiptsTable, "NEW.row_count = NEW.row_count + 1"},
		{"receipt's time", ReceiptsTable, "NEW.verified_at_ms = NEW.verified_at_ms + 1"},
		{"receipt's key", ReceiptsTable, "NEW.batch_id = REVERSE(NEW.batch_id)"},
		{"member", MembersTable, "NEW.updated_at_ms = NEW.updated_at_ms + 1"},
		{"member's batch", MembersTable, "NEW.batch_id = REVERSE(NEW.batch_id)"},
		{"member's key", MembersTable, "NEW.event_id = CONCAT(NEW.event_id, 'x')"},
	}
	mysqltest.Each(t, func(t *testing.T, s mysqltest.Server) {
		l, db := newLedger(t, s)
		for _, tt := range tests {
			t.Run(tt.name, func(t *testing.T) {
				exec(t, db, "CREATE TRIGGER spoil BEFORE INSERT ON "+tt.table+" FOR EACH ROW SET "+tt.set)
				defer exec(t, db, "DROP TRIGGER spoil")
				b := newBatch(t, "game", "b", 5)
				if existed, err := l.Record(t.Context(), b.receipt, each(b.members)); existed || !errors.Is(err, ErrReadBack) {
					t.Errorf("Record = %v, %v, want %v", existed, err, ErrReadBack)
				}
				checkHolds(t, db)
			})
		}
	})
}

func TestRecordWithAForeignUniqueKey(t *testing.T) {
	mysqltest.Each(t, func(t *testing.T, s mysqltest.Server) {
		l, db := newLedger(t, s)
		exec(t, db, "CREATE UNIQUE INDEX u ON "+ReceiptsTable+" (verified_at_ms)")
		a, b := newBatch(t, "game", "a", 1), newBatch(t, "game", "b", 1)
		mustRecord(t, l, a)
		if existed, err := l.Record(t.Context(), b.receipt, each(b.members)); existed || !mysqldb.IsError(err, mysqldb.ErDupEntry) {
			t.Errorf("Record = %v, %v, want error %d", existed, err, mysqldb.ErDupEntry)
		}
		checkHolds(t, db, a)
	})
}

// TestRecordAtOnce has several runs record the same batch: one writes it, the
// others find it.
func TestRecordAtOnce(t *testing.T) {
	mysqltest.Each(t, func(t *testing.T, s mysqltest.Server) {
		l, db := newLedger(t, s)
		b := newBatch(t, "game", "b", chunkRows+1)
		type result struct {
			existed bool
			err     error
		}
		results := make(chan result)
		const runs = 4
		for range runs {
			go func() {
				existed, err := l.Record(t.Context(), b.receipt, each(b.members))
				results <- result{existed, err}
			}()
		}
		wrote := 0
		for range runs {
			r := <-results
			if r.err != nil {
				t.Error(r.err)
			} else if !r.existed {
				wrote++
			}
		}
		if wrote != 1 {
			t.Errorf("%d runs say that they wrote the batch, want 1", wrote)
		}
		checkHolds(t, db, b)
	})
}

func TestCheckTables(t *testing.T) {
	tests := []struct {
		name  string
		spoil []string
		want  []string // parts of the problems, in order
	}{
		{name: "as created"},
		{
			"absent", []string{"DROP TABLE " + ReceiptsTable, "DROP TABLE " + MembersTable},
			[]string{ReceiptsTable + " does not exist", MembersTable + " does not exist"},
		},
		{"no column", []string{"ALTER TABLE " + ReceiptsTable + " DROP COLUMN success_crc64"}, []string{"has no column success_crc64"}},
		{
			"no key", []string{"ALTER TABLE " + MembersTable + " DROP PRIMARY KEY"},
			[]string{"has the primary key (), not (app_code, event_id)"},
		},
		{
			"key that lets an event be a member twice", []string{"ALTER TABLE " + MembersTable + " DROP PRIMARY KEY, ADD PRIMARY KEY (app_code, event_id, batch_id)"},
			[]string{"has the primary key (app_code, event_id, batch_id)"},
		},
		{
			"key of a prefix", []string{"ALTER TABLE " + MembersTable + " DROP PRIMARY KEY, ADD PRIMARY KEY (app_code, event_id(20))"},
			[]string{"has the primary key (app_code, event_id(20))"},
		},
		{
			"collation that takes letters for equal", []string{"ALTER TABLE " + MembersTable + " MODIFY event_id VARCHAR(255) COLLATE utf8mb4_unicode_ci NOT NULL"},
			[]string{"compares event_id by utf8mb4_unicode_ci, not by bytes"},
		},
		{
			"no transactions", []string{"ALTER TABLE " + ReceiptsTable + " ENGINE=MyISAM"},
			[]string{"has an engine without transactions"},
		},
		{name: "bytes instead of characters", spoil: []string{"ALTER TABLE " + MembersTable + " MODIFY event_id VARBINARY(1020) NOT NULL"}},
		{name: "further columns and keys", spoil: []string{"ALTER TABLE " + ReceiptsTable + " ADD COLUMN note TEXT, ADD KEY (created_at_ms)"}},
	}
	mysqltest.Each(t, func(t *testing.T, s mysqltest.Server) {
		for _, tt := range tests {
			t.Run(tt.name, func(t *testing.T) {
				_, db := newLedger(t, s)
				for _, q := range tt.spoil {
					if strings.Contains(q, "MyISAM") { // its keys are shorter
						exec(t, db, "ALTER TABLE "+ReceiptsTable+" DROP KEY idx_wallet_outbox_archive_cursor, ROW_FORMAT=DEFAULT")
					}
					exec(t, db, q)
				}
				l := New(db)
				err := l.CheckTables(t.Context())
				if tt.want == nil {
					if err != nil {
						t.Errorf("CheckTables = %v", err)
					}
					b := newBatch(t, "game", "b", 3)
					mustRecord(t, l, b)
					checkHolds(t, db, b)
					return
				}
				var se *SchemaError
				if !errors.As(err, &se) || !errors.Is(err, ErrSchema) || len(se.Problems) != len(tt.want) {
					t.Fatalf("CheckTables = %v, want %q", err, tt.want)
				}
				for i, want := range tt.want {
					if !strings.Contains(se.Problems[i], want) {
						t.Errorf("problem %q, want %q in it", se.Problems[i], want)
					}
				}
				b := newBatch(t, "game", "b", 1)
				if _, err := l.Record(t.Context(), b.receipt, each(b.members)); !errors.Is(err, ErrSchema) {
					t.Errorf("Record = %v, want %v", err, ErrSchema)
				}
				if _, _, err := l.LatestCursor(t.Context(), "game"); !errors.Is(err, ErrSchema) {
					t.Errorf("LatestCursor = %v, want %v", err, ErrSchema)
				}
			})
		}
	})
}

// TestSchemaIsWhatCreateTablesRuns also runs the statements as a person would.
func TestSchemaIsWhatCreateTablesRuns(t *testing.T) {
	mysqltest.Each(t, func(t *testing.T, s mysqltest.Server) {
		db, _ := s.NewDB(t)
		statements := strings.Split(strings.TrimSuffix(Schema(), ";\n"), ";\n\n")
		if len(statements) != 2 {
			t.Fatalf("Schema has %d statements, want 2", len(statements))
		}
		for _, q := range statements {
			exec(t, db, q)
		}
		l := New(db)
		b := newBatch(t, "game", "b", 1)
		mustRecord(t, l, b)
		for range 2 { // whatever is there stays
			if err := l.CreateTables(t.Context()); err != nil {
				t.Error(err)
			}
		}
		checkHolds(t, db, b)
	})
}
