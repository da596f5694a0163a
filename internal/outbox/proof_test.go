package outbox

import (
	"slices"
	"strings"
	"testing"

	"github.com/hyapp/walletarchive/internal/mysqldb"
	"github.com/hyapp/walletarchive/internal/mysqltest"
	"github.com/hyapp/walletarchive/manifest"
)

// provenTable is a wallet_outbox of MariaDB about which there is no doubt, and the
// needs and settings that belong to it.
func provenTable() (Table, Needs, mysqldb.Settings) {
	t := Table{
		Name: "wallet_outbox", Kind: "BASE TABLE", Engine: "InnoDB", TriggersVisible: true,
		Checks: []Check{{Name: "payload", Clause: "json_valid(`payload`)"}},
		Indexes: []Index{
			{Name: "PRIMARY", Unique: true, Type: "BTREE", Usable: true, Columns: []IndexColumn{{Name: "app_code"}, {Name: "event_id"}}},
			{Name: RetentionIndex, Type: "BTREE", Usable: true, Columns: []IndexColumn{{Name: "app_code"}, {Name: "status"}, {Name: "updated_at_ms"}, {Name: "event_id"}}},
		},
		Server: mysqldb.Server{Version: "10.11.14-MariaDB-0+deb12u2", Flavor: mysqldb.MariaDB, Major: 10, Minor: 11, Patch: 14},
	}
	for _, f := range fields {
		c := Column{Name: f.name, Nullable: f.nullable()}
		switch {
		case f.kind == integer:
			c.DataType, c.ColumnType, c.Precision = "bigint", "bigint(20)", 19
		case f.kind == document || f.nullable():
			c.DataType, c.ColumnType, c.Charset, c.Collation, c.MaxChars, c.MaxBytes = "longtext", "longtext", "utf8mb4", "utf8mb4_bin", 1<<32-1, 1<<32-1
		default:
			c.DataType, c.ColumnType, c.Charset, c.Collation, c.MaxChars, c.MaxBytes = "varchar", "varchar(64)", "utf8mb4", "utf8mb4_bin", 64, 256
		}
		t.Columns = append(t.Columns, c)
	}
	var n Needs
	n.Add(&manifest.Record{
		AppCode: "a", EventID: "e", EventType: "t", TransactionID: "x", CommandID: "c", UserID: 70000, AssetType: "COIN",
		AvailableDelta: -1, PayloadJSON: `{"text": "` + strings.Repeat("é", 200) + `"}`, Status: manifest.StatusDelivered, WorkerID: "w ",
	})
	return t, n, mysqldb.Settings{SQLMode: slices.Clone(knownModes), Charset: "utf8mb4"}
}

// Each edit takes away one thing that the proof rests on, and so is a doubt by
// itself.
func TestDoubts(t *testing.T) {
	column := func(t *Table, name string) *Column {
		return &t.Columns[slices.IndexFunc(t.Columns, func(c Column) bool { return c.Name == name })]
	}
	type target struct {
		*Table
		needs *Needs
		s     *mysqldb.Settings
	}
	need := func(x target, name string) *ColumnNeeds {
		return &x.needs.Columns[slices.Index(manifest.Columns[:], name)]
	}
	mysql := func(x target) {
		x.Server, x.Checks = mysqldb.Server{Version: "9.7.4-1", Major: 9, Minor: 7, Patch: 4}, nil
		c := column(x.Table, "payload")
		c.DataType, c.ColumnType, c.Charset, c.Collation = "json", "json", "", ""
	}
	for _, tc := range []struct {
		name    string
		edit    func(x target)
		carries bool
		want    string // of the one doubt; "" for none
	}{
		{"nothing", func(target) {}, false, ""},
		{"MySQL whose payloads carry", mysql, true, ""},
		{"MySQL that says nothing of payloads", mysql, false, "parses JSON"},
		{"JSON that MariaDB would call so", func(x target) {
			c := column(x.Table, "payload")
			c.DataType, c.ColumnType = "json", "json"
		}, true, "type json"},
		{"JSON where the archive has text", func(x target) {
			mysql(x)
			*column(x.Table, "worker_id") = Column{Name: "worker_id", DataType: "json", ColumnType: "json"}
		}, true, "worker_id is of type json"},
		{"another server", func(x target) { x.Server.Version = "8.0.11-TiDB-v7.5.0" }, false, "version"},
		{"a version of no shape", func(x target) { x.Server.Version = "10.11" }, false, "version"},
		{"sql_mode not strict", func(x target) { x.s.SQLMode = []string{"STRICT_TRANS_TABLES"} }, false, "not strict"},
		{"another sql_mode", func(x target) { x.s.SQLMode = append(x.s.SQLMode, "PAD_CHAR_TO_FULL_LENGTH") }, false, "PAD_CHAR"},
		{"charset of the session", func(x target) { x.s.Charset = "latin1" }, false, "charset is latin1"},
		{"kind", func(x target) { x.Kind = "SYSTEM VERSIONED" }, false, "SYSTEM VERSIONED"},
		{"engine", func(x target) { x.Engine = "RocksDB" }, false, "RocksDB"},
		{"partitions", func(x target) { x.Partitioned = true }, false, "partitioned"},
		{"trigger", func(x target) { x.Triggers = []Trigger{{"tr", "AFTER", "UPDATE"}} }, false, "trigger tr"},
		{"triggers not seen", func(x target) { x.TriggersVisible = false }, false, "see triggers"},
		{"foreign key", func(x target) { x.ForeignKeys = []string{"fk"} }, false, "foreign key fk"},
		{"constraint", func(x target) { x.Checks = append(x.Checks, Check{"ck", "user_id > 0"}) }, false, "constraint ck"},
		{"constraint beside JSON", func(x target) { x.Checks[0].Clause += " and user_id > 0" }, false, "constraint payload"},
		{"unique key", func(x target) {
			x.Indexes = append(x.Indexes, Index{Name: "uk", Unique: true, Type: "BTREE", Usable: true, Columns: []IndexColumn{{Name: "command_id"}}})
		}, false, "unique key uk"},
		{"unique key that is wider", func(x target) {
			x.Indexes = append(x.Indexes, Index{Name: "uk", Unique: true, Type: "BTREE", Columns: []IndexColumn{{Name: "app_code"}, {Name: "event_id"}, {Name: "status"}}})
		}, false, "unique key uk"},
		{"key that is no primary key", func(x target) { x.Indexes[0].Name = "uk" }, false, "unique key uk"},
		{"no key", func(x target) { x.Indexes = x.Indexes[1:] }, false, "primary key is not"},
		{"index over an expression", func(x target) { x.Indexes[1].Columns[1].Name = "" }, false, "expression"},
		{"key over a prefix", func(x target) { x.Indexes[0].Columns[1].PrefixOnly = true }, false, "beginning of event_id"},
		{"index of another type", func(x target) { x.Indexes[1].Type = "FULLTEXT" }, false, "FULLTEXT"},
		{"collation of event_id", func(x target) { column(x.Table, "event_id").Collation = "utf8mb4_general_ci" }, false, "utf8mb4_general_ci of event_id"},
		{"collation of app_code", func(x target) { column(x.Table, "app_code").Collation = "utf8mb4_uca1400_ai_ci" }, false, "of app_code"},
		{"space at the end of an event_id", func(x target) { need(x, "event_id").TrailingSpace = true }, false, "spaces"},
		{"the same where bytes are compared", func(x target) {
			need(x, "event_id").TrailingSpace = true
			column(x.Table, "event_id").Collation = "utf8mb4_nopad_bin"
		}, false, ""},
		{"collation of another column", func(x target) { column(x.Table, "command_id").Collation = "utf8mb4_general_ci" }, false, ""},
		{"column of others", func(x target) { x.Columns = append(x.Columns, Column{Name: "note", HasDefault: true, Nullable: true}) }, false, "note is none"},
		{"missing column", func(x target) { x.Columns = x.Columns[:17] }, false, "updated_at_ms is missing"},
		{"generated column", func(x target) { column(x.Table, "user_id").Generated = true }, false, "user_id is more"},
		{"column that changes by itself", func(x target) { column(x.Table, "user_id").Extra = "auto_increment" }, false, "auto_increment"},
		{"no NULL", func(x target) { column(x.Table, "last_error").Nullable = false }, false, "no NULL"},
		{"narrow number", func(x target) {
			c := column(x.Table, "user_id")
			c.DataType, c.ColumnType = "smallint", "smallint(6)"
		}, false, "70000"},
		{"unsigned number", func(x target) {
			c := column(x.Table, "available_delta")
			c.ColumnType, c.Unsigned = "bigint(20) unsigned", true
		}, false, "-1"},
		{"ZEROFILL", func(x target) { column(x.Table, "user_id").ColumnType = "bigint(20) unsigned zerofill" }, false, "zerofill"},
		{"DECIMAL", func(x target) {
			c := column(x.Table, "user_id")
			c.DataType, c.ColumnType = "decimal", "decimal(20,0)"
		}, false, "decimal"},
		{"text in the place of a number", func(x target) {
			c := column(x.Table, "user_id")
			c.DataType, c.ColumnType, c.Charset = "varchar", "varchar(64)", "utf8mb4"
		}, false, "varchar(64)"},
		{"number in the place of a text", func(x target) {
			c := column(x.Table, "worker_id")
			c.DataType, c.ColumnType, c.Charset = "bigint", "bigint(20)", ""
		}, false, "bigint(20)"},
		{"CHAR", func(x target) {
			c := column(x.Table, "worker_id")
			c.DataType, c.ColumnType = "char", "char(64)"
		}, false, "char(64)"},
		{"ENUM", func(x target) {
			c := column(x.Table, "status")
			c.DataType, c.ColumnType = "enum", "enum('delivered')"
		}, false, "enum"},
		{"bytes", func(x target) {
			c := column(x.Table, "worker_id")
			c.DataType, c.ColumnType, c.Charset, c.Collation = "varbinary", "varbinary(64)", "", ""
		}, false, "varbinary"},
		{"compressed column", func(x target) { column(x.Table, "worker_id").ColumnType = "varchar(64) /*M!100301 COMPRESSED*/" }, false, "COMPRESSED"},
		{"charset of a column", func(x target) { column(x.Table, "worker_id").Charset = "utf8mb3" }, false, "utf8mb3"},
		{"narrow text", func(x target) { column(x.Table, "worker_id").MaxChars = 1 }, false, "worker_id is narrower"},
		{"narrow bytes", func(x target) {
			c := column(x.Table, "payload")
			c.DataType, c.ColumnType, c.MaxChars, c.MaxBytes = "tinytext", "tinytext", 255, 255
		}, false, "payload is narrower"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			table, needs, settings := provenTable()
			tc.edit(target{&table, &needs, &settings})
			got := table.Doubts(&needs, settings, tc.carries)
			switch {
			case tc.want == "" && len(got) == 0:
			case tc.want != "" && len(got) > 0 && strings.Contains(strings.Join(got, "; "), tc.want):
				if len(got) > 1 && !slices.Contains([]string{"no key", "key that is no primary key"}, tc.name) {
					t.Errorf("%d doubts, so that one would be missed by this test: %q", len(got), got)
				}
			default:
				t.Errorf("doubts %q, want %q", got, tc.want)
			}
		})
	}
}

func TestKnownVersions(t *testing.T) {
	for _, v := range []string{
		"9.7.4", "9.7.4-1", "8.0.36-0ubuntu0.22.04.1", "5.7.44-log", "8.0.35-27", "8.4.0-debug", "10.11.14-MariaDB-0+deb12u2", "10.6.16-MariaDB-log",
		"11.4.2-MariaDB-ubu2404", "10.6.16-MariaDB-1:10.6.16+maria~ubu2204-log",
	} {
		if !knownVersion.MatchString(strings.ToLower(v)) {
			t.Errorf("%s is not known", v)
		}
	}
	for _, v := range []string{"", "8.0", "8.0.11-TiDB-v7.5.0", "5.7.25-OceanBase-v4.2.1", "8.0.30-Vitess", "9.7.4-1-fork"} {
		if knownVersion.MatchString(strings.ToLower(v)) {
			t.Errorf("%s is known", v)
		}
	}
}

// The table of Schema, as a real server describes it, leaves no doubt.
func TestDoubtsOfSchema(t *testing.T) {
	mysqltest.Each(t, func(t *testing.T, s mysqltest.Server) {
		db, _ := s.NewDB(t)
		_, needs, _ := provenTable()
		if _, err := db.ExecContext(t.Context(), Schema(DefaultTable, "")); err != nil {
			t.Fatal(err)
		}
		table, err := Describe(t.Context(), db, DefaultTable)
		if err != nil {
			t.Fatal(err)
		}
		settings, err := mysqldb.ReadSettings(t.Context(), db)
		if err != nil {
			t.Fatal(err)
		}
		if got := table.Doubts(&needs, settings, true); len(got) > 0 {
			t.Errorf("doubts %q", got)
		}
		if got := table.Doubts(&needs, settings, false); (len(got) == 0) != table.Server.KeepsJSONText() {
			t.Errorf("doubts %q when nothing is known of the payloads", got)
		}
	})
}
