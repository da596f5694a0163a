package mysqldb

import (
	"context"
	"errors"
	"maps"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/google/go-cmp/cmp"
)

func TestConfigPinsTheSession(t *testing.T) {
	want, err := config("u:p@tcp(db:3306)/d")
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name string
		dsn  string
		also map[string]string // kept from the DSN
	}{
		{name: "nothing asked"},
		{name: "sql_mode", dsn: "?sql_mode=''"},
		{name: "sql_mode in capitals", dsn: "?SQL_MODE=''"},
		{name: "sql_mode with a scope", dsn: "?@@session.sql_mode='NO_BACKSLASH_ESCAPES'"},
		{name: "sql_mode with a word", dsn: "?session sql_mode=''"},
		{name: "time_zone", dsn: "?time_zone=%27%2B08%3A00%27"},
		{name: "results in another charset", dsn: "?character_set_results=latin1&collation_connection=latin1_bin"},
		{name: "a short result", dsn: "?sql_select_limit=10"},
		{name: "charset and friends", dsn: "?charset=latin1&parseTime=true&multiStatements=true&allowAllFiles=true&clientFoundRows=true&columnsWithAlias=true&loc=Local&interpolateParams=false&maxAllowedPacket=1000"},
		{name: "another variable", dsn: "?innodb_lock_wait_timeout=3", also: map[string]string{"innodb_lock_wait_timeout": "3"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := config("u:p@tcp(db:3306)/d" + tt.dsn)
			if err != nil {
				t.Fatalf("config: %v", err)
			}
			params := maps.Clone(want.Params)
			maps.Copy(params, tt.also)
			if diff := cmp.Diff(params, got.Params); diff != "" {
				t.Errorf("session variables (-want +got):\n%s", diff)
			}
			got.Params, params = nil, nil
			w := want.Clone()
			w.Params = nil
			if got.FormatDSN() != w.FormatDSN() {
				t.Errorf("config = %s, want %s", got.FormatDSN(), w.FormatDSN())
			}
		})
	}
}

func TestConfigKeepsTheConnection(t *testing.T) {
	cfg, err := config("u:p@unix(/tmp/x.sock)/d?tls=skip-verify&timeout=3s&readTimeout=4s&compress=true")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"tls=skip-verify", "timeout=3s", "readTimeout=4s", "compress=true", "charset=utf8mb4"} {
		if !strings.Contains(cfg.FormatDSN(), want) {
			t.Errorf("config = %s, want it to hold %s", cfg.FormatDSN(), want)
		}
	}
}

func TestErrorsHideTheDSN(t *testing.T) {
	const secret = "hunter2"
	for _, dsn := range []string{
		"",
		"u:" + secret + "@tcp(db:3306)", // no slash
		"u:" + secret + "/" + secret + "@tcp(db)d",                               // slash in the password only
		"u:" + secret + "@tcp(db:3306)x/d",                                       // text after the address
		"u:p@tcp(db)/d?parseTime=" + secret,                                      // value of another type
		"u:p@tcp(db)/d?tls=" + secret,                                            // unknown configuration
		"u:p@tcp(db)/d?strict=" + secret,                                         // the driver panics
		"u:p@tcp(db)/%zz" + secret,                                               // bad escape
		"u:p@tcp(db)/d?timeout=" + secret,                                        // not a duration
		"u:p@tcp(db)/d?x=%zz" + secret,                                           // bad escape in a value
		"u:p@" + secret + "/d",                                                   // unknown network
		"u:p@tcp(db)/d?interpolateParams=1&collation=gbk_chinese_ci&x=" + secret, // unsafe collation
	} {
		db, err := Open(context.Background(), dsn, Options{})
		if err == nil {
			db.Close()
			t.Errorf("Open(%q) succeeded", dsn)
			continue
		}
		if !errors.Is(err, ErrBadDSN) {
			t.Errorf("Open(%q) = %v, want ErrBadDSN", dsn, err)
		}
		if strings.Contains(err.Error(), secret) {
			t.Errorf("Open(%q) shows the secret: %v", dsn, err)
		}
	}
}

func TestConnectErrorHidesThePassword(t *testing.T) {
	_, err := Open(context.Background(), "joe:hunter2@unix(/nonexistent/x.sock)/d", Options{})
	if err == nil {
		t.Fatal("Open succeeded without a server")
	}
	if strings.Contains(err.Error(), "hunter2") || !strings.Contains(err.Error(), "joe@/nonexistent/x.sock/d") {
		t.Errorf("Open = %v, want the place and no password", err)
	}
	if !IsConnLost(err) {
		t.Errorf("IsConnLost(%v) = false, want true", err)
	}
}

func TestRedact(t *testing.T) {
	for _, tt := range []struct{ dsn, want string }{
		{"joe:secret@tcp(db:3306)/wallet?tls=true", "joe@db/wallet"},
		{"joe:se/cr@et@tcp(db:3307)/wallet", "joe@db:3307/wallet"},
		{"joe@unix(/run/x.sock)/wallet", "joe@/run/x.sock/wallet"},
		{"tcp(db)/", "db/"},
		{"joe:secret@tcp(db:3306)", "unreadable DSN"},
	} {
		if got := Redact(tt.dsn); got != tt.want {
			t.Errorf("Redact(%q) = %q, want %q", tt.dsn, got, tt.want)
		}
	}
}

func TestWithDatabase(t *testing.T) {
	got, err := WithDatabase("u:p%40@unix(/tmp/x.sock)/old?tls=skip-verify&time_zone=%27%2B00%3A00%27", "new")
	if err != nil {
		t.Fatal(err)
	}
	a, b := got, "u:p%40@unix(/tmp/x.sock)/new?tls=skip-verify&time_zone=%27%2B00%3A00%27"
	if a != b {
		t.Errorf("WithDatabase = %q, want %q", a, b)
	}
	if name, err := Database(got); err != nil || name != "new" {
		t.Errorf("Database = %q, %v, want new", name, err)
	}
	if _, err := WithDatabase("nonsense", "new"); !errors.Is(err, ErrBadDSN) {
		t.Errorf("WithDatabase of nonsense = %v, want ErrBadDSN", err)
	}
	if HasPassword("u@tcp(x)/") || !HasPassword("u:p@tcp(x)/") {
		t.Error("HasPassword is wrong")
	}
}

func TestErrorKinds(t *testing.T) {
	wrap := func(n uint16) error { return errors.Join(errors.New("step"), &mysql.MySQLError{Number: n}) }
	for _, tt := range []struct {
		err             error
		retryable, lost bool
	}{
		{nil, false, false},
		{errors.New("other"), false, false},
		{context.Canceled, false, false},
		{context.DeadlineExceeded, false, false},
		{wrap(ErDupEntry), false, false},
		{wrap(ErLockDeadlock), true, false},
		{wrap(ErLockWaitTimeout), true, false},
		{wrap(ErServerShutdown), false, true},
		{mysql.ErrInvalidConn, false, true},
	} {
		if got := IsRetryable(tt.err); got != tt.retryable {
			t.Errorf("IsRetryable(%v) = %v", tt.err, got)
		}
		if got := IsConnLost(tt.err); got != tt.lost {
			t.Errorf("IsConnLost(%v) = %v", tt.err, got)
		}
	}
	if !IsError(wrap(ErDupEntry), ErDupEntry) || IsError(wrap(ErDupEntry), ErDataTooLong) || IsError(nil, 0) {
		t.Error("IsError is wrong")
	}
}

func TestParseVersion(t *testing.T) {
	for _, tt := range []struct {
		version             string
		major, minor, patch int
	}{
		{"9.7.4-1", 9, 7, 4},
		{"8.0.36", 8, 0, 36},
		{"10.11.19-MariaDB-0+deb12u1", 10, 11, 19},
		{"5.5.5-10.4.2-MariaDB", 10, 4, 2},
		{"8.4", 8, 4, 0},
	} {
		s, err := parseVersion(tt.version)
		if err != nil || s.Major != tt.major || s.Minor != tt.minor || s.Patch != tt.patch || s.Version != tt.version {
			t.Errorf("parseVersion(%q) = %+v, %v", tt.version, s, err)
		}
	}
	if _, err := parseVersion("vitess"); err == nil {
		t.Error("parseVersion of a word succeeded")
	}
}

func TestQuote(t *testing.T) {
	if got := QuoteName("a`b"); got != "`a``b`" {
		t.Errorf("QuoteName = %s", got)
	}
	if got, want := string(AppendString([]byte("x="), "a'b\"c\\d\ne\rf\x00g\x1ah\ti😀")), `x='a\'b"c\\d\ne\rf\0g\Zh`+"\ti😀'"; got != want {
		t.Errorf("AppendString = %s, want %s", got, want)
	}
}
