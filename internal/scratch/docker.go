package scratch

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/containerd/errdefs"
	"github.com/go-sql-driver/mysql"
	"github.com/moby/moby/api/pkg/authconfig"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"
	"github.com/testcontainers/testcontainers-go"
	tclog "github.com/testcontainers/testcontainers-go/log"
)

// createTimeout bounds making and starting a container whose image is there.
const createTimeout = 2 * time.Minute

var sqlPort = network.MustParsePort("3306/tcp")

// quiet silences testcontainers-go, which otherwise describes the engine and
// each container on stderr. Its default logger is one for the whole process.
var quiet = sync.OnceFunc(func() { tclog.SetDefault(tclog.NewNoopLogger()) })

// docker is a server in a container of that name.
type docker struct {
	name   string
	engine *client.Client
	ctr    *testcontainers.DockerContainer // nil until made
}

// startDocker makes and starts a container with the server's port published on
// the address that reaches the engine from here, a loopback address unless this
// process runs in a container itself, and with a random password.
func startDocker(ctx context.Context, opts Options, database string) (*instance, error) {
	quiet()
	provider, err := testcontainers.NewDockerProvider(testcontainers.WithLogger(tclog.NewNoopLogger()))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoDocker, err)
	}
	defer provider.Close()
	host, err := provider.DaemonHost(ctx)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoDocker, err)
	}
	addr, err := publishAddr(host)
	if err != nil {
		return nil, err
	}
	engine, err := testcontainers.NewDockerClientWithOpts(ctx)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoDocker, err)
	}
	if err := ensureImage(ctx, engine.Client, opts); err != nil {
		_ = engine.Close() // the reason is err
		return nil, err
	}

	d := &docker{name: database, engine: engine.Client}
	in, err := d.start(ctx, opts, addr)
	if err == nil {
		return in, nil
	}
	err = withTail(ctx, fmt.Errorf("start Docker image %s: %w", opts.Image, err), d.tail)
	if d.ctr == nil && errdefs.IsConflict(err) {
		return nil, err // what has the name is not ours to remove
	}
	removeCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	if removeErr := d.remove(removeCtx); removeErr != nil {
		err = fmt.Errorf("%w; and it is left behind: %w", err, removeErr)
	}
	return nil, err
}

func (d *docker) start(ctx context.Context, opts Options, addr netip.Addr) (*instance, error) {
	password := rand.Text()
	// Not cancelled half-way: the engine would go on and make a container whose
	// id nobody was told. This takes a second or two, and ctx is heeded after.
	createCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), createTimeout)
	defer cancel()
	var err error
	d.ctr, err = testcontainers.Run(createCtx, opts.Image,
		testcontainers.WithLogger(tclog.NewNoopLogger()),
		testcontainers.WithName(d.name),
		testcontainers.WithLabels(map[string]string{ContainerLabel: d.name}),
		// The official images of MySQL and of MariaDB take this one alike.
		testcontainers.WithEnv(map[string]string{"MYSQL_ROOT_PASSWORD": password}),
		testcontainers.WithExposedPorts(sqlPort.String()),
		testcontainers.WithCmd(append(append([]string{}, tuning...), opts.ServerArgs...)...),
		testcontainers.WithHostConfigModifier(func(host *container.HostConfig) {
			host.PortBindings = network.PortMap{sqlPort: {{HostIP: addr}}}
		}),
		testcontainers.WithConfigModifier(func(config *container.Config) {
			if opts.Keep {
				// By its labels the reaper would know it for one to remove.
				maps.DeleteFunc(config.Labels, func(name, _ string) bool {
					return strings.HasPrefix(name, "org.testcontainers")
				})
			}
		}),
	)
	if err != nil {
		if _, set := os.LookupEnv("TESTCONTAINERS_RYUK_DISABLED"); !set {
			err = fmt.Errorf("%w (where the image of the reaper cannot be downloaded, set TESTCONTAINERS_RYUK_DISABLED=true)", err)
		}
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	port, err := d.ctr.MappedPort(createCtx, sqlPort.String())
	if err != nil {
		if failed := d.failure(createCtx); failed != nil {
			return nil, failed
		}
		return nil, fmt.Errorf("find the published port: %w", err)
	}
	config := mysql.NewConfig()
	config.User, config.Passwd = "root", password
	config.Net, config.Addr = "tcp", net.JoinHostPort(addr.String(), port.Port())
	return &instance{
		place:   "in Docker (image " + opts.Image + ")",
		dsn:     config.FormatDSN(),
		failure: d.failure,
		tail:    d.tail,
		kept: func(database string) string {
			return fmt.Sprintf("container %s, user root at %s with the password in its MYSQL_ROOT_PASSWORD, database %s; remove it with docker rm -f -v %[1]s",
				d.name, config.Addr, database)
		},
		remove: d.remove,
	}, nil
}

// publishAddr returns the address to publish the port on, given how
// testcontainers-go reaches the engine. Never all addresses of the machine.
func publishAddr(host string) (netip.Addr, error) {
	if host == "localhost" {
		return netip.AddrFrom4([4]byte{127, 0, 0, 1}), nil
	}
	addr, err := netip.ParseAddr(host)
	if err != nil || addr.IsUnspecified() {
		return netip.Addr{}, fmt.Errorf("%w on this machine: it is at %s; give a server with mode dsn", ErrNoDocker, host)
	}
	return addr, nil
}

// ensureImage downloads the image unless the engine has it. It tries once:
// where there is no registry the retries of testcontainers-go take a quarter of
// an hour.
func ensureImage(ctx context.Context, engine *client.Client, opts Options) error {
	_, err := engine.ImageInspect(ctx, opts.Image)
	if err == nil {
		return nil
	}
	if !errdefs.IsNotFound(err) {
		return fmt.Errorf("inspect Docker image %s: %w", opts.Image, err)
	}
	if opts.NoPull {
		return fmt.Errorf("%w on this machine: %s", ErrNoImage, opts.Image)
	}
	opts.Logger.Debug("download Docker image", "image", opts.Image)
	pullCtx, cancel := context.WithTimeout(ctx, pullTimeout)
	defer cancel()
	if err := pull(pullCtx, engine, opts.Image); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return fmt.Errorf("%w: pull %s: %w", ErrNoImage, opts.Image, err)
	}
	return nil
}

func pull(ctx context.Context, engine *client.Client, image string) error {
	var opts client.ImagePullOptions
	// Without credentials for the registry the image may still be public.
	if _, auth, err := testcontainers.DockerImageAuth(ctx, image); err == nil {
		if opts.RegistryAuth, err = authconfig.Encode(auth); err != nil {
			return err
		}
	}
	progress, err := engine.ImagePull(ctx, image, opts)
	if err != nil {
		return err
	}
	return errors.Join(progress.Wait(ctx), progress.Close())
}

// failure returns an error once the container has ended.
func (d *docker) failure(ctx context.Context) error {
	state, err := d.ctr.State(ctx)
	if err != nil {
		return fmt.Errorf("inspect container %s: %w", d.name, err)
	}
	if !state.Running {
		return fmt.Errorf("container %s ended: exit status %d", d.name, state.ExitCode)
	}
	return nil
}

func (d *docker) tail(ctx context.Context) string {
	if d.ctr == nil {
		return ""
	}
	logs, err := d.ctr.Logs(ctx)
	if err != nil {
		return ""
	}
	defer logs.Close()
	const limit = 1 << 20 // a server that only just started says far less
	text, err := io.ReadAll(io.LimitReader(logs, limit))
	if err != nil && len(text) == 0 {
		return ""
	}
	return lastLines(text)
}

// remove kills and removes the container and its volumes, by name: so it does
// when making it failed and nobody knows its id.
func (d *docker) remove(ctx context.Context) error {
	var terminateErr error
	if d.ctr != nil {
		terminateErr = d.ctr.Terminate(ctx, testcontainers.StopTimeout(0))
	}
	_, err := d.engine.ContainerRemove(ctx, d.name, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
	if err != nil && !errdefs.IsNotFound(err) {
		return fmt.Errorf("remove container %s: %w", d.name, errors.Join(terminateErr, err))
	}
	return d.engine.Close()
}
