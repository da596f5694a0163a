package scratch_test

import (
	"cmp"
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	"github.com/go-sql-driver/mysql"
	"github.com/moby/moby/client"
	"github.com/testcontainers/testcontainers-go"

	"github.com/hyapp/walletarchive/internal/mysqltest"
	"github.com/hyapp/walletarchive/internal/scratch"
)

func image() string { return cmp.Or(os.Getenv(mysqltest.EnvMySQLImage), mysqltest.DefaultMySQLImage) }

func docker() scratch.Options {
	return scratch.Options{Mode: scratch.ModeDocker, Image: image(), NoPull: true}
}

// inspect returns the container that has the name of a server's database.
func inspect(t *testing.T, name string) (client.ContainerInspectResult, error) {
	t.Helper()
	engine, err := testcontainers.NewDockerClientWithOpts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer engine.Close()
	return engine.ContainerInspect(t.Context(), name, client.ContainerInspectOptions{})
}

func containerIsGone(t *testing.T, name string) {
	t.Helper()
	if _, err := inspect(t, name); !errdefs.IsNotFound(err) {
		t.Errorf("inspect container %s = %v, want that it is gone", name, err)
	}
}

func TestDocker(t *testing.T) {
	opts := docker()
	checkLog := logInto(t, &opts)
	opts.ServerArgs = []string{"--innodb-buffer-pool-size=32M"}
	s := mustStart(t, mysqltest.MySQL, opts)
	checkUsable(t, s)
	if got := ask(t, s.DSN(""), "SELECT @@innodb_buffer_pool_size"); got != "33554432" {
		t.Errorf("buffer pool has %s bytes, want 32 MiB", got)
	}
	config, err := mysql.ParseDSN(s.DSN(""))
	if err != nil || len(config.Passwd) < 20 {
		t.Errorf("the password has %d characters (%v), want a random one", len(config.Passwd), err)
	}
	container, err := inspect(t, s.Database)
	if err != nil {
		t.Fatal(err)
	}
	if got := container.Container.Config.Labels[scratch.ContainerLabel]; got != s.Database {
		t.Errorf("label %s = %q, want %q", scratch.ContainerLabel, got, s.Database)
	}
	for port, bindings := range container.Container.NetworkSettings.Ports {
		for _, binding := range bindings {
			if binding.HostIP.IsUnspecified() {
				t.Errorf("port %s is published on %s, want one address only", port, binding.HostIP)
			}
		}
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	for range 2 {
		if err := s.Close(cancelled); err != nil {
			t.Errorf("Close: %v", err)
		}
		containerIsGone(t, s.Database)
	}
	checkLog(config.Passwd)
}

func TestDockerCloseAfterSomebodyElseRemovedIt(t *testing.T) {
	s := mustStart(t, mysqltest.MySQL, docker())
	engine, err := testcontainers.NewDockerClientWithOpts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer engine.Close()
	if _, err := engine.ContainerRemove(t.Context(), s.Database, client.ContainerRemoveOptions{Force: true}); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Errorf("Close: %v", err)
	}
}

func TestDockerFailures(t *testing.T) {
	skipWithout(t, mysqltest.MySQL, startAndClose(t, docker()))
	const name = scratch.DatabasePrefix + "0123456789abcdef"
	t.Run("no image", func(t *testing.T) {
		opts := docker()
		opts.Image = "walletarchive-no-such-image:0"
		if _, err := scratch.StartNamed(t.Context(), opts, name); !errors.Is(err, scratch.ErrNoImage) {
			t.Errorf("Start = %v, want ErrNoImage", err)
		}
		containerIsGone(t, name)
	})
	t.Run("flag", func(t *testing.T) {
		opts := docker()
		opts.ServerArgs = []string{"--no-such-flag"}
		_, err := scratch.StartNamed(t.Context(), opts, name)
		if err == nil || !strings.Contains(err.Error(), "unknown option '--no-such-flag'") {
			t.Errorf("Start = %v, want the server's own words", err)
		}
		containerIsGone(t, name)
	})
	t.Run("no time", func(t *testing.T) {
		opts := docker()
		opts.StartTimeout = time.Millisecond
		_, err := scratch.StartNamed(t.Context(), opts, name)
		if err == nil || !strings.Contains(err.Error(), "not ready within 1ms") {
			t.Errorf("Start = %v, want that it was not ready", err)
		}
		containerIsGone(t, name)
	})
	for _, after := range []time.Duration{100 * time.Millisecond, 400 * time.Millisecond} {
		t.Run("cancelled after "+after.String(), func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), after)
			defer cancel()
			s, err := scratch.StartNamed(ctx, docker(), name)
			if err == nil {
				err = s.Close(t.Context())
				t.Skipf("the server was up within %s; closed: %v", after, err)
			}
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("Start = %v, want context.DeadlineExceeded", err)
			}
			containerIsGone(t, name)
		})
	}
	t.Run("name is taken", func(t *testing.T) {
		s, err := scratch.StartNamed(t.Context(), docker(), name)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close(t.Context())
		if _, err := scratch.StartNamed(t.Context(), docker(), name); err == nil {
			t.Error("second Start with one name = nil, want an error")
		}
		checkServes(t, s)
	})
}

func startAndClose(t *testing.T, opts scratch.Options) error {
	t.Helper()
	s, err := scratch.Start(t.Context(), opts)
	if err != nil {
		return err
	}
	return s.Close(t.Context())
}

func TestKeepDocker(t *testing.T) {
	opts := docker()
	opts.Keep = true
	s := mustStart(t, mysqltest.MySQL, opts)
	t.Cleanup(func() {
		engine, err := testcontainers.NewDockerClientWithOpts(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		defer engine.Close()
		_, err = engine.ContainerRemove(context.Background(), s.Database, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
		if err != nil {
			t.Error(err)
		}
	})
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	checkUsable(t, s)
	if !strings.Contains(s.Kept, "docker rm -f -v "+s.Database) {
		t.Errorf("Kept = %q, want how to remove %s", s.Kept, s.Database)
	}
	container, err := inspect(t, s.Database)
	if err != nil {
		t.Fatal(err)
	}
	for label := range container.Container.Config.Labels {
		if strings.HasPrefix(label, "org.testcontainers") {
			t.Errorf("label %s would have the reaper remove what is to be kept", label)
		}
	}
}

func TestPublishAddr(t *testing.T) {
	for _, test := range []struct{ host, want string }{
		{"localhost", "127.0.0.1"},
		{"127.0.0.1", "127.0.0.1"},
		{"172.17.0.1", "172.17.0.1"}, // from within a container
		{"::1", "::1"},
		{"0.0.0.0", ""},
		{"docker.example.com", ""},
		{"", ""},
	} {
		t.Run(test.host, func(t *testing.T) {
			addr, err := scratch.PublishAddr(test.host)
			if test.want == "" {
				if !errors.Is(err, scratch.ErrNoDocker) {
					t.Errorf("publishAddr(%q) = %v, %v, want ErrNoDocker", test.host, addr, err)
				}
				return
			}
			if err != nil || addr.String() != test.want {
				t.Errorf("publishAddr(%q) = %v, %v, want %s", test.host, addr, err, test.want)
			}
		})
	}
}
