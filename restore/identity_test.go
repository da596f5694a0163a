package restore

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hyapp/walletarchive/internal/mysqldb"
	"github.com/hyapp/walletarchive/internal/mysqltest"
	"github.com/hyapp/walletarchive/internal/outbox"
	"github.com/hyapp/walletarchive/internal/scratch"
)

func TestServerName(t *testing.T) {
	mariadb := map[string]string{"hostname": "db1", "port": "3306", "server_id": "1", "datadir": "/d/", "socket": "/s", "server_uid": "u="}
	for _, name := range []string{"hostname", "port", "server_id", "datadir", "socket", "server_uid"} {
		other := map[string]string{name: "x"}
		for n, v := range mariadb {
			if n != name {
				other[n] = v
			}
		}
		if serverName(other) == serverName(mariadb) {
			t.Errorf("two servers that differ in %s are both %q", name, serverName(mariadb))
		}
	}
	if got, want := serverName(mariadb), "db1:3306#1 /d/ /s u="; got != want {
		t.Errorf("serverName = %q, want %q", got, want)
	}
	mysql := map[string]string{"server_uuid": "uuid", "hostname": "db1", "port": "3306", "server_id": "1", "datadir": "/d/", "socket": "/s"}
	moved := map[string]string{"server_uuid": "uuid", "hostname": "db2", "port": "3307", "server_id": "2", "datadir": "/e/", "socket": "/t"}
	if a, b := serverName(mysql), serverName(moved); a != "uuid" || a != b {
		t.Errorf("serverName of a server with a server_uuid = %q and %q", a, b)
	}
}

// privateMariaDB starts a server of this machine that listens on a socket only, and
// returns the DSN of an empty wallet_outbox in a database called wallet.
func privateMariaDB(t *testing.T) string {
	t.Helper()
	s, err := scratch.Start(t.Context(), scratch.Options{Mode: scratch.ModeLocal, Binary: "mariadbd"})
	if errors.Is(err, scratch.ErrNotInstalled) {
		mysqltest.Missing(t, mysqltest.MariaDB, err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	mustExec(t, openDSN(t, s.DSN("")), "CREATE DATABASE wallet CHARACTER SET utf8mb4")
	mustExec(t, openDSN(t, s.DSN("wallet")), outbox.Schema(outbox.DefaultTable, ""))
	return s.DSN("wallet")
}

func openDSN(t *testing.T, dsn string) *sql.DB {
	t.Helper()
	db, err := mysqldb.Open(t.Context(), dsn, mysqldb.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

// restart shuts the server of db down and starts it again in the same place.
func restart(t *testing.T, db *sql.DB, dsn string) *sql.DB {
	t.Helper()
	var data, tmp, socket, pidFile string
	err := db.QueryRowContext(t.Context(), "SELECT @@datadir, @@tmpdir, @@socket, @@pid_file").Scan(&data, &tmp, &socket, &pidFile)
	if err != nil {
		t.Fatal(err)
	}
	mustExec(t, db, "SHUTDOWN")
	db.Close()
	patience := time.Now().Add(30 * time.Second)
	for _, err := os.Stat(pidFile); err == nil && time.Now().Before(patience); _, err = os.Stat(pidFile) {
		time.Sleep(20 * time.Millisecond)
	}
	binary, err := exec.LookPath("mariadbd")
	if err != nil {
		binary = "/usr/sbin/mariadbd"
	}
	cmd := exec.Command(binary, "--no-defaults", "--datadir="+data, "--tmpdir="+tmp, "--socket="+socket, "--pid-file="+pidFile, "--skip-networking",
		"--user=root", "--max-allowed-packet=256M", "--character-set-server=utf8mb4")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	for {
		db, err := mysqldb.Open(t.Context(), dsn, mysqldb.Options{})
		if err == nil {
			t.Cleanup(func() { db.Close() })
			return db
		}
		if time.Now().After(patience) {
			t.Fatalf("the server does not come back: %v", err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// Two servers of one machine, which listen on sockets only, are two: neither the
// receipt nor the plan of one is taken by the other, and both are by the same one
// after a restart.
func TestServersOfOneMachine(t *testing.T) {
	ctx := t.Context()
	dsn := privateMariaDB(t)
	one, two := openDSN(t, dsn), openDSN(t, privateMariaDB(t))
	identify := func(db *sql.DB) TargetState {
		t.Helper()
		target, err := DescribeTarget(ctx, db, outbox.DefaultTable)
		if err != nil {
			t.Fatal(err)
		}
		return target
	}
	was, other := identify(one), identify(two)
	if was.Same(other.TargetIdentity) || was.Database != other.Database {
		t.Errorf("two servers are the same: %s and %s", was, other)
	}
	if changes := was.Changes(other); len(changes) != 1 || !strings.HasPrefix(changes[0], "the server was ") {
		t.Errorf("a plan of one server has the changes %q on the other", changes)
	}
	path := filepath.Join(t.TempDir(), "receipt")
	v := open(t, records(5), nil)
	journaled(t, one, v, openJournal(t, one, journalOptions(t, one, path)), testOptions(t))
	if _, err := Undo(ctx, two, readReceipt(t, path), UndoOptions{}); !errors.Is(err, ErrOtherTarget) {
		t.Errorf("the undo on the other server = %v, want ErrOtherTarget", err)
	}
	// A server that never had the rows is none on which they were taken back.
	for _, dry := range []bool{true, false} {
		r, err := Undo(ctx, two, readReceipt(t, path), UndoOptions{AnyServer: true, DryRun: dry})
		if err != nil || r.Gone != 0 || r.LeftCount != 5 || r.Left[0].Why != notHere {
			t.Errorf("the undo on any server (dry run %t): %+v, %v", dry, r, err)
		}
	}

	one = restart(t, one, dsn)
	if now := identify(one); !was.Same(now.TargetIdentity) || was.Changes(now) != nil {
		t.Errorf("after a restart: was %s, is %s, changes %q", was, now, was.Changes(now))
	}
	if r, err := Undo(ctx, one, readReceipt(t, path), UndoOptions{}); err != nil || r.Removed != 5 {
		t.Errorf("the undo after a restart removed %d of 5 rows, %v", r.Removed, err)
	}
}
