package restore

import (
	"slices"
	"strings"
	"testing"

	"github.com/hyapp/walletarchive/internal/mysqltest"
)

func TestDescribeTarget(t *testing.T) {
	mysqltest.Each(t, func(t *testing.T, s mysqltest.Server) {
		db := newTarget(t, s)
		describe := func() TargetState {
			t.Helper()
			state, err := DescribeTarget(t.Context(), db, "wallet_outbox")
			if err != nil {
				t.Fatal(err)
			}
			return state
		}
		last := describe()
		if last.Server == "" || last.DefinitionSHA256.IsZero() || !strings.Contains(last.Settings["sql_mode"], "STRICT_ALL_TABLES") ||
			last.Settings["time_zone"] != "+00:00" || last.Settings["character_set_connection"] != "utf8mb4" {
			t.Errorf("state %+v", last)
		}
		// What rows do to a table is no change of it; what its owner does is.
		mustExec(t, db, "ALTER TABLE wallet_outbox ADD n BIGINT NOT NULL AUTO_INCREMENT UNIQUE")
		last = describe()
		insert := "INSERT INTO wallet_outbox SELECT 'a', 'e', 't', 'x', 'c', 1, 'COIN', 0, 0, '{}', 'delivered', '', NULL, 0, NULL, NULL, 1, 1, 7"
		mustExec(t, db, insert)
		if changes := last.Changes(describe()); changes != nil {
			t.Errorf("a row is a change: %q", changes)
		}
		for _, statement := range []string{
			"ALTER TABLE wallet_outbox MODIFY worker_id VARCHAR(200) NOT NULL",
			"ALTER TABLE wallet_outbox ADD INDEX ix (user_id)",
			"ALTER TABLE wallet_outbox ADD CONSTRAINT ck CHECK (user_id > -5)",
			"CREATE TRIGGER tr AFTER INSERT ON wallet_outbox FOR EACH ROW SET @x = 1",
			"DROP TRIGGER tr",
			"ALTER TABLE wallet_outbox COMMENT 'x'",
		} {
			mustExec(t, db, statement)
			now := describe()
			if changes := last.Changes(now); len(changes) != 1 || !strings.Contains(changes[0], "definition") {
				t.Errorf("%s: changes %q", statement, changes)
			}
			last = now
		}
		mustExec(t, db, "CREATE TRIGGER tr AFTER INSERT ON wallet_outbox FOR EACH ROW SET @x = 1")
		last = describe()
		mustExec(t, db, "DROP TRIGGER tr")
		mustExec(t, db, "CREATE TRIGGER tr AFTER INSERT ON wallet_outbox FOR EACH ROW SET @x = 2")
		if changes := last.Changes(describe()); len(changes) != 1 {
			t.Errorf("another body of a trigger: changes %q", changes)
		}
		if state, err := DescribeTarget(t.Context(), db, "nowhere"); err != nil || !state.DefinitionSHA256.IsZero() {
			t.Errorf("no such table: %+v, error %v", state, err)
		}
	})
}

func TestTargetChanges(t *testing.T) {
	was := TargetState{
		TargetIdentity: TargetIdentity{Server: "a", Version: "1", Database: "d", Table: "t"},
		Settings:       map[string]string{"sql_mode": "STRICT", "gone": "x"},
	}
	now := TargetState{
		TargetIdentity: TargetIdentity{Server: "b", Version: "2", Database: "e", Table: "u"},
		Settings:       map[string]string{"sql_mode": "", "new": "y"},
	}
	now.DefinitionSHA256[0] = 1
	want := []string{
		`the server was "a" and is "b"`, `the server's version was "1" and is "2"`, `the database was "d" and is "e"`, `the table was "t" and is "u"`,
		"the definition of the table or of its triggers is another one", `gone was "x" and is ""`, `new was "" and is "y"`, `sql_mode was "STRICT" and is ""`,
	}
	if got := was.Changes(now); !slices.Equal(got, want) {
		t.Errorf("changes %q, want %q", got, want)
	}
	if got := was.Changes(was); got != nil {
		t.Errorf("changes %q", got)
	}
}
