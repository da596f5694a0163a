package mysqltest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/hyapp/walletarchive/internal/mysqldb"
	"github.com/hyapp/walletarchive/internal/scratch"
)

// The servers that tests run on.
const (
	MySQL   = "mysql"
	MariaDB = "mariadb"
)

// The environment of the tests. A server whose DSN is set is used as it is; it
// has to let its account create databases, and LOAD DATA LOCAL be used.
const (
	EnvRequire    = "WALLETARCHIVE_TEST_REQUIRE"     // names, with commas between them
	EnvMySQLDSN   = "WALLETARCHIVE_TEST_MYSQL_DSN"   // else Docker
	EnvMySQLImage = "WALLETARCHIVE_TEST_MYSQL_IMAGE" // DefaultMySQLImage when empty
	EnvMariaDBDSN = "WALLETARCHIVE_TEST_MARIADB_DSN" // else mariadbd as a process
)

// DefaultMySQLImage is what scripts/build-mysql-image.sh builds.
const DefaultMySQLImage = "walletarchive-mysql:9.7"

// ErrMissing is returned by Start when this machine has no such server.
var ErrMissing = errors.New("missing")

// Names returns the names of the servers that tests run on.
func Names() []string { return []string{MySQL, MariaDB} }

// EnvDSN returns the name of the environment variable with the DSN of a server.
func EnvDSN(name string) string {
	if name == MySQL {
		return EnvMySQLDSN
	}
	return EnvMariaDBDSN
}

// serverArgs suit many short tests at once.
var serverArgs = []string{"--local-infile=1", "--max-connections=500"}

// Start returns a server of that name, which the caller closes. Where the
// environment has a DSN for it, the server is only a database on that one. The
// error is ErrMissing when there is none to be had here.
func Start(ctx context.Context, name string) (*scratch.Server, error) {
	opts := scratch.Options{ServerArgs: serverArgs}
	flavor := mysqldb.MySQL
	switch name {
	case MySQL:
		opts.Mode, opts.NoPull = scratch.ModeDocker, true
		opts.Image = cmp.Or(os.Getenv(EnvMySQLImage), DefaultMySQLImage)
	case MariaDB:
		opts.Mode, opts.Binary = scratch.ModeLocal, "mariadbd"
		flavor = mysqldb.MariaDB
	default:
		return nil, fmt.Errorf("no server is called %q", name)
	}
	if dsn := os.Getenv(EnvDSN(name)); dsn != "" {
		opts.Mode = scratch.ModeDSN + dsn
	}
	s, err := scratch.Start(ctx, opts)
	for _, missing := range []error{scratch.ErrNotInstalled, scratch.ErrNoDocker, scratch.ErrNoImage} {
		if errors.Is(err, missing) {
			return nil, fmt.Errorf("%w: %w", ErrMissing, err)
		}
	}
	if err != nil {
		return nil, err
	}
	if s.Identity.Flavor != flavor {
		// Checks for one flavor must not pass for want of the other.
		return nil, errors.Join(fmt.Errorf("%s is not a %s", s.Describe(), name), s.Close(ctx))
	}
	return s, nil
}

// bucket in the environment requires a real bucket, which is no server of this
// package: internal/objstore/open asks for it.
const bucket = "cos"

// Required returns the names of the servers that the environment requires. The
// error is for a name that is none, and would otherwise require nothing.
func Required() ([]string, error) {
	names := strings.FieldsFunc(os.Getenv(EnvRequire), func(r rune) bool { return r == ',' || r == ' ' })
	for _, name := range names {
		if !slices.Contains(Names(), name) && name != bucket {
			return nil, fmt.Errorf("%s requires %q: want some of %s", EnvRequire, name, strings.Join(append(Names(), bucket), ","))
		}
	}
	return names, nil
}
