package main

import (
	"fmt"
	"io"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"github.com/go-sql-driver/mysql"
	"github.com/urfave/cli/v2"
)

// maxSecretBytes bounds a secret file; a DSN is far shorter.
const maxSecretBytes = 64 << 10

// dsnVariable returns the environment variable of a DSN flag:
// WALLETARCHIVE_SOURCE_DSN for "source-dsn".
func dsnVariable(flag string) string {
	return "WALLETARCHIVE_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// dsn returns the DSN that the flag names, the file of its -file flag, the
// environment variable or the file that the variable with _FILE names, in this
// order; "" when there is none. It checks that the DSN can be read and hides it
// in everything that is printed from now on. Errors are usage errors and never
// hold a part of the DSN.
func (p *program) dsn(c *cli.Context, flag string) (string, error) {
	value, from, err := p.secret(c, flag)
	if err != nil || value == "" {
		return "", err
	}
	variable := ""
	if c.IsSet(flag) {
		variable = dsnVariable(flag)
	}
	if err := p.checkDSN(value, from, variable); err != nil {
		return "", err
	}
	return value, nil
}

// checkDSN refuses a DSN that cannot be read and hides it from now on. from says
// where it was given. variable is where a password would be safer, "" when it is
// safe as it is.
func (p *program) checkDSN(value, from, variable string) error {
	p.redact.hide(value)
	cfg, err := mysql.ParseDSN(value)
	if err != nil {
		// The driver's error may quote a part of the DSN.
		return usagef("%s is not a DSN like user:password@tcp(host:3306)/database", from)
	}
	p.redact.hide(cfg.Passwd)
	if cfg.Passwd != "" && variable != "" {
		p.log.Warn("a password in a flag is visible to every user of this machine; use the environment or a file",
			"flag", from, "variable", variable)
	}
	return nil
}

// secret returns the value and what it came from.
func (p *program) secret(c *cli.Context, flag string) (value, from string, err error) {
	fileFlag, variable := flag+"-file", dsnVariable(flag)
	switch {
	case c.IsSet(flag) && c.IsSet(fileFlag):
		return "", "", usagef("--%s and --%s: give one", flag, fileFlag)
	case c.IsSet(flag):
		return c.String(flag), "--" + flag, nil
	case c.IsSet(fileFlag):
		value, err = p.secretFile(c.String(fileFlag))
		return value, "the file of --" + fileFlag, err
	}
	path := os.Getenv(variable + "_FILE")
	value = os.Getenv(variable)
	switch {
	case value != "" && path != "":
		return "", "", usagef("%s and %s_FILE: set one", variable, variable)
	case path != "":
		value, err = p.secretFile(path)
		return value, "the file of " + variable + "_FILE", err
	}
	return value, variable, nil
}

// secretFile reads a secret of one line. A file that every user may read draws
// a warning.
func (p *program) secretFile(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", usagef("secret file: %v", err)
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o004 != 0 {
		p.log.Warn("a secret file is readable by every user of this machine", "path", path, "mode", info.Mode().Perm().String())
	}
	data, err := io.ReadAll(io.LimitReader(f, maxSecretBytes+1))
	if err != nil {
		return "", usagef("secret file: %v", err)
	}
	text := strings.TrimSuffix(strings.TrimSuffix(string(data), "\n"), "\r")
	switch {
	case len(data) > maxSecretBytes:
		return "", usagef("secret file %s is larger than %d bytes", path, maxSecretBytes)
	case text == "":
		return "", usagef("secret file %s is empty", path)
	case strings.ContainsAny(text, "\n\r\x00"):
		return "", usagef("secret file %s has more than one line", path)
	}
	return text, nil
}

// needDSN is dsn for a command that cannot do without.
func (p *program) needDSN(c *cli.Context, flag string) (string, error) {
	value, err := p.dsn(c, flag)
	if err == nil && value == "" {
		err = usagef("--%s is missing; set it, --%s-file or %s", flag, flag, dsnVariable(flag))
	}
	return value, err
}

// credentials matches what may be a password in an argument: from the first
// colon to the last at sign.
var credentials = regexp.MustCompile(`(?s):.*@`)

// maskArgument returns an argument as it may be quoted in a message.
func maskArgument(s string) string { return credentials.ReplaceAllString(s, ":***@") }

// minHidden is the length in bytes from which a secret is hidden wherever it
// appears. Hiding a shorter one would tear holes into unrelated words.
const minHidden = 4

// redactor replaces secrets in text that is on its way to stderr. It is the
// second line of defence: messages are written not to hold any.
type redactor struct {
	mu      sync.Mutex
	secrets []string // longest forms first, so that a DSN goes before its password
}

// hide adds a secret, also as it looks when it is quoted.
func (r *redactor) hide(secret string) {
	if len(secret) < minHidden {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.secrets = append(r.secrets, secret)
	if q := strconv.Quote(secret); q[1:len(q)-1] != secret {
		r.secrets = append(r.secrets, q[1:len(q)-1])
	}
}

func (r *redactor) clean(text string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.secrets {
		text = strings.ReplaceAll(text, s, "***")
	}
	return text
}

// writer returns a writer that cleans each Write before it goes to w.
func (r *redactor) writer(w io.Writer) io.Writer { return redactingWriter{r, w} }

type redactingWriter struct {
	r *redactor
	w io.Writer
}

func (w redactingWriter) Write(b []byte) (int, error) {
	if _, err := io.WriteString(w.w, w.r.clean(string(b))); err != nil {
		return 0, fmt.Errorf("write to stderr: %w", err)
	}
	return len(b), nil
}
