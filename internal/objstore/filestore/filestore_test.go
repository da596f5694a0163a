package filestore

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hyapp/walletarchive/internal/objstore"
	"github.com/hyapp/walletarchive/internal/objstore/storetest"
	"github.com/hyapp/walletarchive/manifest"
)

func openTemp(t *testing.T) (*Store, string) {
	t.Helper()
	dir := t.TempDir()
	s, err := Open(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s, dir
}

func TestContract(t *testing.T) {
	storetest.Run(t, func(t *testing.T) objstore.Store {
		s, dir := openTemp(t)
		t.Cleanup(func() { noTemps(t, dir) })
		return s
	}, storetest.Features{Folders: true, NoCRCOnGet: true})
}

func noTemps(t *testing.T, dir string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(p string, e fs.DirEntry, err error) error {
		if err == nil && isTemp(e.Name()) {
			t.Errorf("left behind: %s", p)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

func put(t *testing.T, s *Store, key, body string) (objstore.Info, bool, error) {
	t.Helper()
	return s.Put(t.Context(), key, strings.NewReader(body), int64(len(body)), manifest.SumHash([]byte(body)), objstore.PutOptions{})
}

func TestOpen(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{file, filepath.Join(dir, "absent")} {
		if _, err := Open(name, Options{}); !errors.Is(err, objstore.ErrConfig) {
			t.Errorf("Open(%s) = %v, want ErrConfig", name, err)
		}
	}
	deep := filepath.Join(dir, "new", "deep", "er")
	s, err := Open(deep, Options{Create: true})
	if err != nil {
		t.Fatal(err)
	}
	if want := "file://" + deep; s.URL() != want {
		t.Errorf("URL() = %q, want %q", s.URL(), want)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, err := Open(filepath.Join(file, "below"), Options{Create: true}); err == nil {
		t.Error("Open made a directory below a file")
	}
}

// A link may not lead a key out of the directory; one that stays inside is
// followed.
func TestLinks(t *testing.T) {
	s, dir := openTemp(t)
	outside := t.TempDir()
	secret := filepath.Join(outside, "secret")
	if err := os.WriteFile(secret, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	for link, to := range map[string]string{
		"folder": outside, "object": secret, "dangling": filepath.Join(outside, "new"), "up": "..", "inside": "real",
	} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	for _, key := range []string{"folder/secret", "folder/new", "object", "dangling", "up/x"} {
		if info, err := s.Head(t.Context(), key, ""); err == nil {
			t.Errorf("Head(%q) = %+v over a link that leads out", key, info)
		}
		if _, _, err := s.Get(t.Context(), key, ""); err == nil {
			t.Errorf("Get(%q) succeeded over a link that leads out", key)
		}
		if _, _, err := put(t, s, key, "new"); err == nil {
			t.Errorf("Put(%q) succeeded over a link that leads out", key)
		}
	}
	if err := s.Delete(t.Context(), "folder/secret", ""); err == nil {
		t.Error("Delete over a link that leads out succeeded")
	}
	entries, err := os.ReadDir(outside)
	if err != nil || len(entries) != 1 {
		t.Errorf("outside holds %v, %v, want the one file", entries, err)
	}
	if got, err := os.ReadFile(secret); err != nil || string(got) != "secret" {
		t.Errorf("the file outside holds %q, %v", got, err)
	}

	if _, _, err := put(t, s, "real/object", "inside"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Head(t.Context(), "inside/object", ""); err != nil {
		t.Errorf("Head over a link that stays inside: %v", err)
	}
	var listed []string
	for info, err := range s.List(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		listed = append(listed, info.Key)
	}
	if !slices.Equal(listed, []string{"real/object"}) {
		t.Errorf("List = %q, want the object once and no link", listed)
	}
}

func TestHeadSeesAFlippedBit(t *testing.T) {
	s, dir := openTemp(t)
	info, _, err := put(t, s, "a/object", "some bytes")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "a", "object"), []byte("some cytes"), 0o600); err != nil {
		t.Fatal(err)
	}
	after, err := s.Head(t.Context(), "a/object", "")
	if err != nil {
		t.Fatal(err)
	}
	if *after.CRC64 == *info.CRC64 {
		t.Error("Head names the checksum that Put saw, not that of the file")
	}
	if _, _, err := put(t, s, "a/object", "some bytes"); !errors.Is(err, objstore.ErrExist) {
		t.Errorf("Put over damaged bytes = %v, want ErrExist", err)
	}
}

func TestBodyChecksItsLength(t *testing.T) {
	for name, size := range map[string]int64{"cut": 500_000, "grown": 1_500_000} {
		t.Run(name, func(t *testing.T) {
			s, dir := openTemp(t)
			body := strings.Repeat("x", 1_000_000)
			if _, _, err := put(t, s, "object", body); err != nil {
				t.Fatal(err)
			}
			r, _, err := s.Get(t.Context(), "object", "")
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			if err := os.Truncate(filepath.Join(dir, "object"), size); err != nil {
				t.Fatal(err)
			}
			_, err = io.Copy(io.Discard, r)
			var corrupt *objstore.CorruptError
			if err == nil || (name == "cut") != (errors.As(err, &corrupt) && corrupt.Kind == objstore.ShortBody) {
				t.Errorf("reading = %v", err)
			}
		})
	}
}

func TestTempFilesAreNoObjects(t *testing.T) {
	s, dir := openTemp(t)
	name := tempPrefix + "LEFTBEHIND" + tempSuffix
	if err := os.WriteFile(filepath.Join(dir, name), []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	for info, err := range s.List(t.Context(), "") {
		t.Errorf("List yields %+v, %v", info, err)
	}
	for _, key := range []string{name, name + "/below", "above/" + name} {
		if _, _, err := put(t, s, key, "x"); !errors.Is(err, manifest.ErrBadKey) {
			t.Errorf("Put(%q) = %v, want ErrBadKey", key, err)
		}
		if _, _, err := s.Get(t.Context(), key, ""); !errors.Is(err, manifest.ErrBadKey) {
			t.Errorf("Get(%q) = %v, want ErrBadKey", key, err)
		}
	}
}

func TestWhatADirectoryCannotDo(t *testing.T) {
	s, _ := openTemp(t)
	for name, opts := range map[string]objstore.PutOptions{
		"lock":  {RetainUntil: time.Now().Add(time.Hour)},
		"class": {StorageClass: "ARCHIVE"},
		"sse":   {SSE: "cos"},
		"tags":  {Tags: map[string]string{"a": "b"}},
	} {
		_, _, err := s.Put(t.Context(), "key", strings.NewReader(""), 0, manifest.SumHash(nil), opts)
		if !errors.Is(err, objstore.ErrConfig) {
			t.Errorf("%s: Put = %v, want ErrConfig", name, err)
		}
	}
	if _, err := s.Head(t.Context(), "key", "v1"); !errors.Is(err, objstore.ErrConfig) {
		t.Errorf("Head of a version = %v, want ErrConfig", err)
	}
	if _, _, err := s.Put(t.Context(), "key", strings.NewReader(""), 0, manifest.SumHash(nil), objstore.PutOptions{StorageClass: "STANDARD"}); err != nil {
		t.Errorf("Put in class STANDARD: %v", err)
	}
}

func TestSpecialFilesAreNoObjects(t *testing.T) {
	s, dir := openTemp(t)
	if err := syscall.Mkfifo(filepath.Join(dir, "fifo"), 0o600); err != nil {
		t.Skip(err)
	}
	if _, _, err := s.Get(t.Context(), "fifo", ""); !errors.Is(err, objstore.ErrNotExist) {
		t.Errorf("Get of a FIFO = %v, want ErrNotExist", err)
	}
	if _, _, err := put(t, s, "fifo", "x"); !errors.Is(err, objstore.ErrExist) {
		t.Errorf("Put over a FIFO = %v, want ErrExist", err)
	}
}

// The way to publish on file systems without hard links is as strict.
func TestRenameNeverReplaces(t *testing.T) {
	s, dir := openTemp(t)
	for name, body := range map[string]string{"folder/temp": "new", "folder/temp2": "newer"} {
		if _, _, err := put(t, s, name, body); err != nil {
			t.Fatal(err)
		}
	}
	err := s.rename("folder/temp", "folder/object")
	if errors.Is(err, objstore.ErrConfig) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := s.rename("folder/temp2", "folder/object"); !errors.Is(err, fs.ErrExist) {
		t.Errorf("rename over an object = %v, want fs.ErrExist", err)
	}
	if got, err := os.ReadFile(filepath.Join(dir, "folder", "object")); err != nil || !bytes.Equal(got, []byte("new")) {
		t.Errorf("the object holds %q, %v", got, err)
	}
}

// Delete takes empty folders away while Put makes them.
func TestDeleteBesidePut(t *testing.T) {
	s, _ := openTemp(t)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 200 {
			if err := s.Delete(t.Context(), "deep/folder/probe", ""); err != nil {
				t.Error(err)
			}
		}
	}()
	for range 200 {
		// Its folder may go between its name and its sync; that is said.
		if _, _, err := put(t, s, "deep/folder/probe", "x"); err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Error(err)
		}
	}
	<-done
}
