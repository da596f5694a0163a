package main

import (
	"context"
	"errors"
	"io"
	"os"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/hyapp/walletarchive/internal/objstore"
	"github.com/hyapp/walletarchive/internal/objstore/open"
)

// cvmRoleFlag asks the machine for credentials, which must be said: elsewhere
// than on a CVM that is a wait for nothing.
const (
	cvmRoleFlag = "cvm-role"
	cvmRoleEnv  = "WALLETARCHIVE_CVM_ROLE"
	// anyRole is the role that the machine has.
	anyRole = "auto"
)

// storeFlags say where the archive is and how it is reached.
func storeFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{
			Name: storeFlag, Usage: "`URL` of the archive: file:///dir or cos://bucket-appid[/prefix]?region=REGION",
		},
		&cli.StringFlag{
			Name:  cvmRoleFlag,
			Usage: "where no other credentials are set up, sign with `ROLE` of the CVM that this runs on, auto for the one it has; or $" + cvmRoleEnv,
		},
	}
}

// place is a store as the command line names it.
type place struct {
	url     string
	bucket  bool   // in COS
	cvmRole string // "" does not ask the machine for credentials
	// create makes the directory when it is not there.
	create bool
	// retention asks the store for the lock of each object, where it does not
	// say it by itself.
	retention bool
}

// needStore returns what --store names, which the command cannot do without,
// after a look at its text.
func needStore(c *cli.Context) (place, error) {
	at := place{url: c.String(storeFlag), cvmRole: c.String(cvmRoleFlag)}
	if at.url == "" {
		return at, usagef("--%s is missing", storeFlag)
	}
	if err := open.Check(at.url); err != nil {
		return at, usagef("--%s: %v", storeFlag, err)
	}
	at.bucket = open.IsBucket(at.url)
	switch {
	case !at.bucket && at.cvmRole != "":
		return at, usagef("--%s: a directory needs no credentials", cvmRoleFlag)
	case at.bucket && at.cvmRole == "":
		at.cvmRole = os.Getenv(cvmRoleEnv)
	}
	return at, nil
}

// storeOptions are how the store at a place is opened.
func (p *program) storeOptions(at place) open.Options {
	opts := p.open
	opts.Create, opts.ReadRetention, opts.Logger = at.create, at.retention, p.log
	if at.cvmRole != "" {
		opts.CredentialOptions.CVM = true
		if at.cvmRole != anyRole {
			opts.CredentialOptions.CVMRole = at.cvmRole
		}
	}
	return opts
}

// archive is a store and the prefix under which its batches live.
type archive struct {
	objstore.Store
	prefix string // "" for the root
}

// close releases what the store holds of this machine.
func (a archive) close() {
	if c, ok := a.Store.(io.Closer); ok {
		_ = c.Close() // nothing is written through it
	}
}

// openArchive opens the store at a place. What cannot be used as it is
// configured is a usage error, credentials among it. The caller closes the
// archive.
func (p *program) openArchive(ctx context.Context, at place) (archive, error) {
	s, prefix, err := open.Open(ctx, at.url, p.storeOptions(at))
	if err == nil {
		err = p.needCredentials(ctx, s)
	}
	if errors.Is(err, objstore.ErrConfig) {
		return archive{}, usagef("--%s: %v", storeFlag, err)
	}
	if err != nil {
		return archive{}, err
	}
	return archive{Store: s, prefix: prefix}, nil
}

// signer is a store that signs with credentials.
type signer interface {
	Credentials(context.Context) (expires time.Time, err error)
	CredentialSource() string
}

// needCredentials fetches the credentials of a store, if it has any, so that a
// missing pair is known before the work begins.
func (p *program) needCredentials(ctx context.Context, s objstore.Store) error {
	signs, ok := s.(signer)
	if !ok {
		return nil
	}
	if _, err := signs.Credentials(ctx); err != nil {
		return err
	}
	p.log.Debug("credentials", "store", s.URL(), "source", signs.CredentialSource())
	return nil
}
