package scratch

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/hyapp/walletarchive/internal/mysqldb"
)

const (
	versionTimeout = 20 * time.Second // for mysqld --version
	// maxSocketPath is what sun_path holds without its NUL on the BSDs; Linux
	// takes four bytes more.
	maxSocketPath = 103
	tailBytes     = 2048
)

// serverDirs are searched after PATH, which often lacks them for an account
// that is not root.
var serverDirs = []string{
	"/usr/local/sbin", "/usr/sbin", "/sbin", "/usr/libexec", "/usr/local/libexec", "/usr/local/mysql/bin",
}

// binary is a server program.
type binary struct {
	path   string
	flavor mysqldb.Flavor
}

// findServer returns the server program of the given name or path, or when it
// is empty, the first MySQL server of this machine, else the first MariaDB
// server. Debian's MariaDB has a mysqld, too, so each is asked what it is.
func findServer(ctx context.Context, name string) (binary, error) {
	names := []string{name}
	if name == "" {
		names = []string{"mysqld", "mariadbd"}
	}
	var found []binary
	var broken error
	for _, name := range names {
		path, ok := lookPath(name)
		if !ok {
			continue
		}
		flavor, err := askFlavor(ctx, path)
		if err != nil {
			broken = errors.Join(broken, err)
			continue
		}
		found = append(found, binary{path: path, flavor: flavor})
	}
	for _, flavor := range []mysqldb.Flavor{mysqldb.MySQL, mysqldb.MariaDB} {
		if i := slices.IndexFunc(found, func(b binary) bool { return b.flavor == flavor }); i >= 0 {
			return found[i], nil
		}
	}
	if broken != nil {
		return binary{}, broken
	}
	return binary{}, fmt.Errorf("%w: looked for %s in PATH, %s (Debian: apt-get install mariadb-server-core mariadb-client-core)",
		ErrNotInstalled, strings.Join(names, " and "), strings.Join(serverDirs, ", "))
}

func lookPath(name string) (string, bool) {
	if path, err := exec.LookPath(name); err == nil {
		if abs, err := filepath.Abs(path); err == nil {
			return abs, true
		}
	}
	if strings.ContainsRune(name, filepath.Separator) {
		return "", false
	}
	for _, dir := range serverDirs {
		if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return path, true
		}
	}
	return "", false
}

func askFlavor(ctx context.Context, path string) (mysqldb.Flavor, error) {
	ctx, cancel := context.WithTimeout(ctx, versionTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, "--no-defaults", "--version")
	cmd.Env = childEnv()
	cmd.WaitDelay = time.Second
	out, err := cmd.CombinedOutput()
	if err != nil {
		return 0, fmt.Errorf("run %s --version: %w: %s", path, err, lastLines(out))
	}
	switch {
	case bytes.Contains(out, []byte("MariaDB")):
		return mysqldb.MariaDB, nil
	case bytes.Contains(out, []byte("Ver ")):
		return mysqldb.MySQL, nil
	default:
		return 0, fmt.Errorf("run %s --version: not the answer of a MySQL or MariaDB server: %s", path, lastLines(out))
	}
}

// local is a server in a private folder of this machine.
type local struct {
	bin       binary
	dir       string // 0700; data, temporary files and log, and mostly the socket
	socketDir string // dir, or a folder of its own where dir's path is too long
	log       *os.File
	keep      bool
	proc      *process // nil until the server itself was started
}

// startLocal makes the folder, fills the data directory and starts the server,
// which listens on a socket in the folder and on nothing else: whoever may
// enter the folder is root in the server.
func startLocal(ctx context.Context, opts Options, bin binary) (*instance, error) {
	l := &local{bin: bin, keep: opts.Keep}
	err := l.start(ctx, opts)
	if err == nil {
		return l.instance(), nil
	}
	err = withTail(ctx, fmt.Errorf("start %s: %w", bin.path, err), l.tail)
	removeCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	if removeErr := l.remove(removeCtx); removeErr != nil {
		err = fmt.Errorf("%w; and it is left behind: %w", err, removeErr)
	}
	return nil, err
}

func (l *local) start(ctx context.Context, opts Options) error {
	var err error
	if l.dir, err = os.MkdirTemp(opts.TempDir, "walletarchive-scratch-"); err != nil {
		return err
	}
	if l.dir, err = filepath.Abs(l.dir); err != nil {
		return err
	}
	l.socketDir = l.dir
	if len(l.socket()) > maxSocketPath {
		if l.socketDir, err = os.MkdirTemp("/tmp", "walletarchive-"); err != nil {
			return err
		}
	}
	if err := os.Mkdir(l.path("tmp"), 0o700); err != nil {
		return err
	}
	if l.log, err = os.OpenFile(l.path("server.log"), os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600); err != nil {
		return err
	}
	initCtx, cancel := context.WithTimeoutCause(ctx, opts.StartTimeout,
		fmt.Errorf("not done within %s", opts.StartTimeout))
	defer cancel()
	if err := l.initialize(initCtx); err != nil {
		return fmt.Errorf("fill its data directory: %w", err)
	}
	// The installer's advice is of no use to whoever reads why the server failed.
	if err := l.log.Truncate(0); err != nil {
		return err
	}
	cmd := exec.Command(l.bin.path, append(l.serverArgs(), opts.ServerArgs...)...)
	l.proc, err = l.run(cmd)
	return err
}

func (l *local) path(name string) string { return filepath.Join(l.dir, name) }
func (l *local) socket() string          { return filepath.Join(l.socketDir, "sql.sock") }

// commonArgs begin every command line; --no-defaults has to be the very first.
func (l *local) commonArgs() []string {
	args := []string{"--no-defaults", "--datadir=" + l.path("data"), "--tmpdir=" + l.path("tmp")}
	if os.Geteuid() == 0 {
		args = append(args, "--user=root") // both refuse to run as root unasked
	}
	return args
}

// initialize fills the data directory with an account root that has no password.
func (l *local) initialize(ctx context.Context) error {
	cmd := exec.Command(l.bin.path, append(l.commonArgs(), "--initialize-insecure")...)
	if l.bin.flavor == mysqldb.MariaDB {
		script, err := l.installScript()
		if err != nil {
			return err
		}
		cmd = exec.Command(script, append(l.commonArgs(),
			"--auth-root-authentication-method=normal", "--skip-test-db", "--skip-name-resolve")...)
	}
	proc, err := l.run(cmd)
	if err != nil {
		return err
	}
	select {
	case <-proc.done:
		return proc.err
	case <-ctx.Done():
		proc.kill()
		<-proc.done
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return context.Cause(ctx)
		}
		return ctx.Err()
	}
}

// installScript finds mariadb-install-db, near the server first.
func (l *local) installScript() (string, error) {
	near := filepath.Dir(l.bin.path)
	for _, name := range []string{"mariadb-install-db", "mysql_install_db"} {
		for _, dir := range []string{near, filepath.Join(near, "../bin"), filepath.Join(near, "../scripts")} {
			if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
				return path, nil
			}
		}
		if path, ok := lookPath(name); ok {
			return path, nil
		}
	}
	return "", errors.New("mariadb-install-db is not installed beside the server")
}

func (l *local) serverArgs() []string {
	args := append(l.commonArgs(), "--socket="+l.socket(), "--pid-file="+l.path("server.pid"), "--skip-networking")
	args = append(args, tuning...)
	if l.bin.flavor == mysqldb.MySQL {
		// Without the second, MySQL wants a folder to exist that only its package makes.
		args = append(args, "--mysqlx=OFF", "--secure-file-priv=NULL")
	}
	return args
}

// tuning is for a server whose data nobody needs after a power cut. It changes
// no answer of the server. Large packets let any row of a source in.
var tuning = []string{
	"--skip-log-bin", "--innodb-flush-log-at-trx-commit=0", "--innodb-doublewrite=OFF", "--innodb-fast-shutdown=2",
	"--performance-schema=OFF", "--character-set-server=utf8mb4", "--max-allowed-packet=256M",
}

func (l *local) instance() *instance {
	config := mysql.NewConfig()
	config.User, config.Net, config.Addr = "root", "unix", l.socket()
	return &instance{
		place: "as a local process",
		dsn:   config.FormatDSN(),
		failure: func(context.Context) error {
			select {
			case <-l.proc.done:
				return fmt.Errorf("%s ended: %w", l.bin.path, cmp.Or(l.proc.err, errors.New("exit status 0")))
			default:
				return nil
			}
		},
		tail: l.tail,
		kept: func(database string) string {
			how := fmt.Sprintf("process %d, user root without a password on socket %s, database %s; remove it with kill %[1]d and rm -r %[4]s",
				l.proc.cmd.Process.Pid, l.socket(), database, l.dir)
			if l.socketDir != l.dir {
				how += " " + l.socketDir
			}
			return how
		},
		remove: l.remove,
	}
}

// remove stops the server and removes its folders.
func (l *local) remove(ctx context.Context) error {
	if l.proc != nil {
		if err := l.proc.stop(ctx); err != nil {
			return fmt.Errorf("stop %s: %w", l.bin.path, err)
		}
	}
	if l.log != nil {
		_ = l.log.Close() // nothing reads it any more
		l.log = nil
	}
	for _, dir := range []string{l.socketDir, l.dir} {
		if dir == "" {
			continue
		}
		if err := os.RemoveAll(dir); err != nil {
			return err
		}
	}
	return nil
}

// tail returns the last lines that the server or its installer wrote, and what
// they may mean.
func (l *local) tail(context.Context) string {
	if l.log == nil {
		return ""
	}
	info, err := l.log.Stat()
	if err != nil {
		return ""
	}
	from := max(0, info.Size()-2*tailBytes)
	text, err := io.ReadAll(io.NewSectionReader(l.log, from, 2*tailBytes))
	if err != nil {
		return ""
	}
	tail := lastLines(text)
	const profile = "/etc/apparmor.d/usr.sbin.mysqld"
	if _, err := os.Stat(profile); err == nil && strings.Contains(tail, "Permission denied") {
		tail += "\n(AppArmor may keep mysqld out of " + l.dir + ": see " + profile + ")"
	}
	return tail
}

// lastLines returns the end of b, whole lines where they are not too long.
func lastLines(b []byte) string {
	b = bytes.TrimSpace(b)
	if len(b) > tailBytes {
		b = b[len(b)-tailBytes:]
		if end := bytes.IndexByte(b, '\n'); end >= 0 {
			b = b[end+1:]
		}
	}
	return string(b)
}

// run starts cmd in the server's folder, with its output in the server's log.
func (l *local) run(cmd *exec.Cmd) (*process, error) {
	cmd.Env = childEnv()
	cmd.Dir = l.dir
	cmd.Stdout, cmd.Stderr = l.log, l.log
	return startProcess(cmd, !l.keep)
}
