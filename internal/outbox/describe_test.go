package outbox

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hyapp/walletarchive/internal/mysqldb"
	"github.com/hyapp/walletarchive/internal/mysqltest"
	"github.com/hyapp/walletarchive/manifest"
)

func settings() mysqldb.Settings {
	return mysqldb.Settings{SQLMode: []string{"STRICT_ALL_TABLES"}, MaxAllowedPacket: 1 << 24}
}

func codes(ps []Problem) []string {
	var all []string
	for _, p := range ps {
		s := string(p.Code)
		if p.Column != "" {
			s = p.Column + " " + s
		}
		if p.Fatal {
			s += "!"
		}
		all = append(all, s)
	}
	slices.Sort(all)
	return all
}

func TestOwnSchemaHasNoProblems(t *testing.T) {
	mysqltest.Each(t, func(t *testing.T, s mysqltest.Server) {
		for _, collation := range []string{"", "utf8mb4_general_ci"} {
			_, tab := newTable(t, s, collation)
			if ps := tab.CheckSource(); ps != nil {
				t.Errorf("CheckSource = %v, want none", ps)
			}
			var needs Needs
			r := record(1)
			needs.Add(&r)
			want := []string(nil)
			if s.Name == mysqltest.MySQL {
				want = []string{"payload json_rendered_by_server"}
			}
			collation = cmpOr(collation, DefaultCollation)
			if diff := cmp.Diff(want, codes(tab.CheckTarget(&needs, settings(), collation))); diff != "" {
				t.Errorf("CheckTarget (-want +got):\n%s", diff)
			}
			if got := tab.EventIDCollation(); got != collation {
				t.Errorf("EventIDCollation = %s, want %s", got, collation)
			}
			if diff := cmp.Diff(keyColumns, tab.PrimaryKey()); diff != "" {
				t.Errorf("PrimaryKey (-want +got):\n%s", diff)
			}
			if !tab.TriggersVisible || tab.Engine != "InnoDB" || tab.Partitioned || tab.Server.Flavor != s.Flavor() {
				t.Errorf("Describe = %+v", tab)
			}
		}
	})
}

func cmpOr(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

func TestDescribeWithoutATable(t *testing.T) {
	mysqltest.Each(t, func(t *testing.T, s mysqltest.Server) {
		db, _ := s.NewDB(t)
		if _, err := Describe(t.Context(), db, DefaultTable); !errors.Is(err, ErrNoTable) {
			t.Errorf("Describe = %v, want ErrNoTable", err)
		}
	})
}

// Each statement changes one thing; the problems that it makes are all that
// there are.
func TestProblems(t *testing.T) {
	const column = "ALTER TABLE wallet_outbox "
	tests := []struct {
		name       string
		statements []string
		source     []string
		target     []string
		flavor     string // "" for both
	}{
		{"column missing", []string{column + "DROP COLUMN command_id"}, []string{"command_id missing_column!"}, []string{"command_id missing_column!"}, ""},
		{"column renamed", []string{column + "CHANGE command_id cmd VARCHAR(64) NOT NULL"},
			[]string{"cmd extra_column", "command_id missing_column!"}, []string{"cmd extra_column!", "command_id missing_column!"}, ""},
		{"letters of a name", []string{column + "CHANGE command_id Command_ID VARCHAR(64) NOT NULL"}, nil, nil, ""},
		{"extra column", []string{column + "ADD note VARCHAR(10)"}, []string{"note extra_column"}, []string{"note extra_column"}, ""},
		{"extra column with a default", []string{column + "ADD note VARCHAR(10) NOT NULL DEFAULT ''"}, []string{"note extra_column"}, []string{"note extra_column"}, ""},
		{"extra column with a computed default", []string{column + "ADD note VARCHAR(40) NOT NULL DEFAULT (CONCAT('a', 'b'))"}, []string{"note extra_column"}, []string{"note extra_column"}, ""},
		{"extra column without a default", []string{column + "ADD note VARCHAR(10) NOT NULL"}, []string{"note extra_column"}, []string{"note extra_column!"}, ""},
		{"extra column that counts", []string{column + "ADD n BIGINT NOT NULL AUTO_INCREMENT UNIQUE"}, []string{"n extra_column"}, []string{"n extra_column", "other_unique_key"}, ""},
		{"extra generated column", []string{column + "ADD n BIGINT AS (user_id + 1) STORED"}, []string{"n extra_column"}, nil, ""},
		{"generated column", []string{column + "DROP COLUMN retry_count", column + "ADD retry_count BIGINT AS (user_id + 1) VIRTUAL"}, nil, []string{"retry_count generated_column!"}, ""},
		{"float", []string{column + "MODIFY available_delta DOUBLE NOT NULL"}, []string{"available_delta wrong_type!"}, []string{"available_delta wrong_type!"}, ""},
		{"decimal with a fraction", []string{column + "MODIFY available_delta DECIMAL(30,2) NOT NULL"}, []string{"available_delta wrong_type!"}, []string{"available_delta wrong_type!"}, ""},
		{"decimal", []string{column + "MODIFY available_delta DECIMAL(19,0) NOT NULL"}, nil, nil, ""},
		{"decimal too narrow", []string{column + "MODIFY available_delta DECIMAL(1,0) NOT NULL"}, nil, []string{"available_delta too_narrow!"}, ""},
		{"time", []string{column + "MODIFY created_at_ms DATETIME NOT NULL"}, []string{"created_at_ms wrong_type!"}, []string{"created_at_ms wrong_type!"}, ""},
		{"number for a text", []string{column + "MODIFY worker_id BIGINT NOT NULL"}, []string{"worker_id wrong_type!"}, []string{"worker_id wrong_type!"}, ""},
		{"int too narrow", []string{column + "MODIFY updated_at_ms INT NOT NULL"}, nil, []string{"updated_at_ms too_narrow!"}, ""},
		{"unsigned", []string{column + "MODIFY frozen_delta BIGINT UNSIGNED NOT NULL"}, nil, []string{"frozen_delta too_narrow!"}, ""},
		{"unsigned that fits", []string{column + "MODIFY user_id INT UNSIGNED NOT NULL"}, nil, nil, ""},
		{"varchar too narrow", []string{column + "MODIFY command_id VARCHAR(10) NOT NULL"}, nil, []string{"command_id too_narrow!"}, ""},
		{"text too narrow", []string{column + "MODIFY command_id TINYTEXT CHARACTER SET utf8mb4 NOT NULL", column + "MODIFY payload TINYTEXT NOT NULL"}, nil, []string{"payload too_narrow!"}, ""},
		{"bytes too narrow", []string{column + "MODIFY command_id VARBINARY(10) NOT NULL"}, nil, []string{"command_id too_narrow!"}, ""},
		{"fixed bytes", []string{column + "MODIFY command_id BINARY(100) NOT NULL"}, nil, []string{"command_id wrong_type!"}, ""},
		{"latin1", []string{column + "MODIFY worker_id VARCHAR(128) CHARACTER SET latin1 NOT NULL"}, nil, []string{"worker_id charset_too_small!"}, ""},
		{"latin1 that suffices", []string{column + "MODIFY event_type VARCHAR(128) CHARACTER SET latin1 NOT NULL"}, nil, nil, ""},
		{"utf8mb3", []string{column + "MODIFY worker_id VARCHAR(128) CHARACTER SET utf8 NOT NULL"}, nil, []string{"worker_id charset_too_small!"}, ""},
		{"a charset of which nothing is known", []string{column + "MODIFY worker_id VARCHAR(128) CHARACTER SET gbk NOT NULL"}, nil, []string{"worker_id charset_too_small"}, ""},
		{"char", []string{column + "MODIFY transaction_id CHAR(100) NOT NULL"}, nil, []string{"transaction_id trailing_space_lost!"}, ""},
		{"enum", []string{column + "MODIFY status ENUM('pending','delivered') NOT NULL"}, nil, []string{"status wrong_type"}, ""},
		{"no NULL", []string{column + "MODIFY last_error TEXT NOT NULL"}, nil, []string{"last_error not_nullable!"}, ""},
		{"NULL allowed", []string{column + "MODIFY worker_id VARCHAR(128) NULL"}, nil, nil, ""},
		{"payload as text", []string{column + "MODIFY payload LONGTEXT NOT NULL"}, nil, nil, ""},
		{"no index", []string{column + "DROP INDEX idx_wallet_outbox_retention"}, []string{"no_retention_index!"}, nil, ""},
		{"index by another name", []string{column + "RENAME INDEX idx_wallet_outbox_retention TO other"}, nil, nil, ""},
		{"longer index", []string{column + "DROP INDEX idx_wallet_outbox_retention, ADD INDEX idx_wallet_outbox_retention (app_code, status, updated_at_ms, event_id, user_id)"}, nil, nil, ""},
		{"index in another order", []string{column + "DROP INDEX idx_wallet_outbox_retention, ADD INDEX idx_wallet_outbox_retention (app_code, updated_at_ms, status, event_id)"}, []string{"no_retention_index!"}, nil, ""},
		{"index without event_id", []string{column + "DROP INDEX idx_wallet_outbox_retention, ADD INDEX idx_wallet_outbox_retention (app_code, status, updated_at_ms)"}, []string{"no_retention_index!"}, nil, ""},
		{"index over a part of event_id", []string{column + "DROP INDEX idx_wallet_outbox_retention, ADD INDEX idx_wallet_outbox_retention (app_code, status, updated_at_ms, event_id(5))"}, []string{"no_retention_index!"}, nil, ""},
		{"descending index", []string{column + "DROP INDEX idx_wallet_outbox_retention, ADD INDEX idx_wallet_outbox_retention (app_code, status, updated_at_ms DESC, event_id)"}, []string{"no_retention_index!"}, nil, ""},
		{"invisible index", []string{column + "ALTER INDEX idx_wallet_outbox_retention INVISIBLE"}, []string{"no_retention_index!"}, nil, mysqltest.MySQL},
		{"ignored index", []string{column + "ALTER INDEX idx_wallet_outbox_retention IGNORED"}, []string{"no_retention_index!"}, nil, mysqltest.MariaDB},
		{"no key", []string{column + "DROP PRIMARY KEY"}, []string{"no_key!"}, []string{"no_key!"}, ""},
		{"no key but an index", []string{column + "DROP PRIMARY KEY, ADD INDEX k (app_code, event_id)"}, []string{"no_key!"}, []string{"no_key!"}, ""},
		{"wider key", []string{column + "DROP PRIMARY KEY, ADD PRIMARY KEY (app_code, event_id, user_id)"}, []string{"no_key!"}, []string{"no_key!"}, ""},
		{"another primary key", []string{column + "DROP PRIMARY KEY, ADD COLUMN n BIGINT AUTO_INCREMENT PRIMARY KEY, ADD UNIQUE KEY k (app_code, event_id)"},
			[]string{"n extra_column", "other_unique_key"}, []string{"n extra_column", "other_unique_key"}, ""},
		{"another unique key", []string{column + "ADD UNIQUE KEY k (transaction_id)"}, nil, []string{"other_unique_key"}, ""},
		{"another collation", []string{column + "MODIFY event_id VARCHAR(128) CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_ci NOT NULL"}, nil, []string{"event_id other_collation"}, ""},
		{"trigger", []string{"CREATE TRIGGER tr AFTER INSERT ON wallet_outbox FOR EACH ROW SET @x = 1"}, nil, []string{"trigger!"}, ""},
		{"trigger before", []string{"CREATE TRIGGER tr BEFORE INSERT ON wallet_outbox FOR EACH ROW SET NEW.user_id = 1"}, nil, []string{"trigger!"}, ""},
		{"trigger on something else", []string{"CREATE TRIGGER tr AFTER DELETE ON wallet_outbox FOR EACH ROW SET @x = 1"}, nil, nil, ""},
		{"foreign key", []string{"CREATE TABLE u (id BIGINT PRIMARY KEY)", column + "ADD FOREIGN KEY (user_id) REFERENCES u (id)"}, nil, []string{"foreign_key"}, ""},
		{"check", []string{column + "ADD CONSTRAINT positive CHECK (user_id > 0)"}, nil, []string{"check_constraint"}, ""},
		{"engine", []string{column + "ENGINE=MyISAM"}, nil, []string{"not_transactional!"}, ""},
		{"partitions", []string{column + "PARTITION BY KEY (app_code, event_id) PARTITIONS 4"}, nil, nil, ""},
		{"auto update", []string{column + "ADD changed TIMESTAMP NULL ON UPDATE CURRENT_TIMESTAMP"}, []string{"changed extra_column"}, []string{"changed auto_update"}, ""},
		{"view", []string{"RENAME TABLE wallet_outbox TO t", "CREATE VIEW wallet_outbox AS SELECT * FROM t"}, []string{"no_key!", "no_retention_index!"}, []string{"not_a_table!"}, ""},
	}
	mysqltest.Each(t, func(t *testing.T, s mysqltest.Server) {
		db, _ := s.NewDB(t)
		for _, tt := range tests {
			if tt.flavor != "" && tt.flavor != s.Name {
				continue
			}
			t.Run(tt.name, func(t *testing.T) {
				recreate(t, db)
				for _, statement := range tt.statements {
					mustExec(t, db, statement)
				}
				tab := describe(t, db, DefaultTable)
				if diff := cmp.Diff(tt.source, codes(tab.CheckSource())); diff != "" {
					t.Errorf("CheckSource (-want +got):\n%s", diff)
				}
				var needs Needs
				r := record(5)
				r.WorkerID, r.EventType, r.TransactionID = "x😀", "é€", "tx "
				r.PayloadJSON = `"` + strings.Repeat("x", 300) + `"`
				needs.Add(&r)
				got := slices.DeleteFunc(codes(tab.CheckTarget(&needs, settings(), DefaultCollation)), func(c string) bool {
					return strings.HasPrefix(c, "payload json_rendered")
				})
				if len(got) == 0 {
					got = nil
				}
				if diff := cmp.Diff(tt.target, got); diff != "" {
					t.Errorf("CheckTarget (-want +got):\n%s", diff)
				}
				for _, p := range append(tab.CheckSource(), tab.CheckTarget(&needs, settings(), "")...) {
					if p.Detail == "" || strings.HasSuffix(p.Detail, ".") || strings.Contains(p.Detail, "%!") {
						t.Errorf("problem %s reads %q", p.Code, p)
					}
				}
			})
		}
	})
}

func TestCheckTargetServer(t *testing.T) {
	tab := &Table{Kind: "VIEW", Name: "t"}
	r := record(1)
	var needs Needs
	needs.Add(&r)
	for _, tt := range []struct {
		name   string
		change func(*mysqldb.Settings)
		want   []string
	}{
		{"strict", func(*mysqldb.Settings) {}, []string{"not_a_table!"}},
		{"not strict", func(s *mysqldb.Settings) { s.SQLMode = []string{"ANSI"} }, []string{"not_a_table!", "sql_mode_not_strict!"}},
		{"small packet", func(s *mysqldb.Settings) { s.MaxAllowedPacket = 200 }, []string{"max_allowed_packet_too_small!", "not_a_table!"}},
		{"read only", func(s *mysqldb.Settings) { s.ReadOnly = true }, []string{"not_a_table!", "server_read_only"}},
	} {
		s := settings()
		tt.change(&s)
		if diff := cmp.Diff(tt.want, codes(tab.CheckTarget(&needs, s, ""))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}

func TestNumberRange(t *testing.T) {
	for _, tt := range []struct {
		c      Column
		lo, hi string
	}{
		{Column{DataType: "tinyint"}, "-128", "127"},
		{Column{DataType: "tinyint", Unsigned: true}, "0", "255"},
		{Column{DataType: "mediumint"}, "-8388608", "8388607"},
		{Column{DataType: "bigint"}, "-9223372036854775808", "9223372036854775807"},
		{Column{DataType: "bigint", Unsigned: true}, "0", "18446744073709551615"},
		{Column{DataType: "decimal", Precision: 3}, "-999", "999"},
		{Column{DataType: "decimal", Precision: 3, Unsigned: true}, "0", "999"},
	} {
		if lo, hi := numberRange(tt.c); lo.String() != tt.lo || hi.String() != tt.hi {
			t.Errorf("numberRange(%+v) = %s, %s, want %s, %s", tt.c, lo, hi, tt.lo, tt.hi)
		}
	}
}

func TestNeeds(t *testing.T) {
	var n Needs
	for _, change := range []func(*manifest.Record){
		func(r *manifest.Record) { r.WorkerID, r.UserID, r.LockUntilMS = "éé", -5, nil },
		func(r *manifest.Record) { r.WorkerID, r.UserID, r.LockUntilMS = "abc", 7, ptr(int64(math.MaxInt64)) },
		func(r *manifest.Record) { r.WorkerID, r.UserID, r.EventType = "日 ", 0, "😀" },
	} {
		r := record(1)
		change(&r)
		n.Add(&r)
	}
	if n.Rows != 3 {
		t.Errorf("Rows = %d, want 3", n.Rows)
	}
	for name, want := range map[string]ColumnNeeds{
		"worker_id":        {MaxChars: 3, MaxBytes: 4, Repertoire: BMP, TrailingSpace: true},
		"event_type":       {MaxChars: 15, MaxBytes: 15, Repertoire: Supplementary},
		"user_id":          {Min: -5, Max: 7, seen: true},
		"lock_until_ms":    {Min: math.MaxInt64, Max: math.MaxInt64, Null: true, seen: true},
		"next_retry_at_ms": {Null: true},
		"last_error":       {Null: true},
	} {
		if got := n.column(name); got != want {
			t.Errorf("needs of %s = %+v, want %+v", name, got, want)
		}
	}
	for r, want := range map[rune]Repertoire{'a': ASCII, 0x7f: ASCII, 0x80: BMP, 0x9f: BMP, 0xa0: Latin1, 'ÿ': Latin1, '€': Latin1, 'Ž': Latin1, 'Ā': BMP, '日': BMP, 0xffff: BMP, '😀': Supplementary} {
		if got := repertoire(r); got != want {
			t.Errorf("repertoire(%q) = %v, want %v", r, got, want)
		}
	}
}

// SchemaFor makes room for what the usual columns do not hold.
func TestSchemaFor(t *testing.T) {
	mysqltest.Each(t, func(t *testing.T, s mysqltest.Server) {
		r := record(1)
		r.EventID, r.AppCode, r.Status = strings.Repeat("é", 500), strings.Repeat("a", 42), strings.Repeat("s", 100)
		r.TransactionID, r.CommandID, r.WorkerID = strings.Repeat("t", 1000), strings.Repeat("c", 5000), strings.Repeat("w", 129)
		r.EventType, r.AssetType, r.LastError = strings.Repeat("😀", 1024), strings.Repeat("x", 33), ptr(strings.Repeat("e", 70000))
		r.RetryCount = math.MaxInt64
		var needs Needs
		needs.Add(&r)
		db, _ := s.NewDB(t)
		mustExec(t, db, SchemaFor("t", "", &needs))
		tab := describe(t, db, "t")
		if bad := Fatal(tab.CheckTarget(&needs, settings(), "")); bad != nil {
			t.Fatalf("CheckTarget = %v", bad)
		}
		if bad := tab.CheckSource(); bad != nil {
			t.Fatalf("CheckSource = %v", bad)
		}
		if err := write(t, db, tab, WriterOptions{}, []manifest.Record{r}); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]manifest.Record{r}, collect(t, ReadAll(context.Background(), db, tab, "", CursorOrder))); diff != "" {
			t.Errorf("read back (-want +got):\n%s", diff)
		}
	})
}

func TestComparesByBytes(t *testing.T) {
	mysqltest.Each(t, func(t *testing.T, s mysqltest.Server) {
		db, _ := s.NewDB(t)
		known := 0
		for _, collation := range []string{"utf8mb4_bin", "utf8mb4_0900_bin", "utf8mb4_nopad_bin", "utf8mb4_general_ci", "binary"} {
			var tab, space bool
			expression := "CONVERT('a' USING utf8mb4) COLLATE " + collation + " < CONVERT('a\t' USING utf8mb4), CONVERT('a' USING utf8mb4) COLLATE " + collation + " <> CONVERT('a ' USING utf8mb4)"
			if collation == "binary" {
				expression = "CAST('a' AS BINARY) < CAST('a\t' AS BINARY), CAST('a' AS BINARY) <> CAST('a ' AS BINARY)"
			}
			err := db.QueryRowContext(t.Context(), "SELECT "+expression).Scan(&tab, &space)
			if mysqldb.IsError(err, mysqldb.ErUnknownCollation) {
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			known++
			if got := ComparesByBytes(collation); got != (tab && space) {
				t.Errorf("ComparesByBytes(%s) = %v, but a < a\\t is %v and a <> a+space is %v", collation, got, tab, space)
			}
		}
		if known < 4 {
			t.Errorf("the server knows %d of the collations, want 4", known)
		}
	})
}

func TestTriggersHidden(t *testing.T) {
	mysqltest.Each(t, func(t *testing.T, s mysqltest.Server) {
		db, dsn := s.NewDB(t)
		mustExec(t, db, Schema(DefaultTable, ""))
		mustExec(t, db, "CREATE TRIGGER tr BEFORE INSERT ON wallet_outbox FOR EACH ROW SET NEW.user_id = 1")
		name, err := mysqldb.Database(dsn)
		if err != nil {
			t.Fatal(err)
		}
		user := strings.TrimPrefix(name, "walletarchive_") // a name has 32 characters at most
		mustExec(t, db, "CREATE USER '"+user+"'@'%' IDENTIFIED BY 'secret'")
		t.Cleanup(func() { mustExec(t, db, "DROP USER '"+user+"'@'%'") })
		mustExec(t, db, "GRANT SELECT, INSERT ON "+name+".* TO '"+user+"'@'%'")
		without := []string{"triggers_hidden"}
		if s.Name == mysqltest.MariaDB {
			without = []string{"trigger!"} // 10.11 hides no more than the body
		}
		for _, tt := range []struct {
			grant string
			want  []string
		}{
			{"", without},
			{"GRANT TRIGGER ON " + name + ".wallet_outbox TO '" + user + "'@'%'", []string{"trigger!"}},
		} {
			if tt.grant != "" {
				mustExec(t, db, tt.grant)
			}
			plain, err := mysqldb.Open(t.Context(), user+":secret@"+dsn[strings.LastIndex(dsn, "@")+1:], mysqldb.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer plain.Close()
			var needs Needs
			got := slices.DeleteFunc(codes(describe(t, plain, DefaultTable).CheckTarget(&needs, settings(), "")), func(c string) bool {
				return strings.HasPrefix(c, "payload json_rendered")
			})
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("CheckTarget with %q (-want +got):\n%s", tt.grant, diff)
			}
		}
	})
}

func TestFatal(t *testing.T) {
	ps := []Problem{{Code: NoKey, Detail: "a", Fatal: true}, {Code: OtherKey, Detail: "b"}, {Column: "c", Code: TooNarrow, Detail: "d", Fatal: true}}
	got := Fatal(ps)
	if len(got) != 2 || got[0].String() != "a" || got[1].String() != "column c: d" {
		t.Errorf("Fatal = %v", got)
	}
}
