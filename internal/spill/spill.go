// Package spill answers two questions about a batch of any size in memory of a
// fixed size: is every event_id unique, and are the rows exactly the members of
// the receipt.
//
// A [Set] keeps entries in memory until they fill its budget, sorts them and
// writes them to a temporary file as a run; [Compare] merges the runs of two sets
// side by side. A set that stays within its budget never touches the disk.
//
// The order is that of a 64-bit hash of the event_id, keyed anew in every process,
// since comparing numbers is several times as fast as comparing strings and a
// hostile batch cannot aim at a key that it does not know. Nothing rests on the
// hash: entries of equal hash are ordered and matched by the event_id itself, so
// every answer is exact.
package spill

import (
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"os"
	"slices"
)

// DefaultMemoryBytes holds about 200,000 entries whose event_id is a UUID.
const DefaultMemoryBytes = 16 << 20

// maxMemoryBytes keeps positions in the arena within 32 bits.
const maxMemoryBytes = 1 << 30

// Options of a [Set].
type Options struct {
	// MemoryBytes bounds what the entries take in memory before they go to the
	// disk. Zero means [DefaultMemoryBytes]; more than 1 GiB counts as 1 GiB. One
	// event_id that is longer by itself is still taken. Reading a file back takes
	// at most half as much, but 4 KiB for each MemoryBytes of entries at the least.
	MemoryBytes int
	// Expect is about how many entries will come, so that memory is taken once.
	// It limits nothing and may come from an untrusted manifest. Zero means unknown.
	Expect int64
}

// Entry is one row of a batch, or one member of a receipt.
type Entry struct {
	EventID     string
	UpdatedAtMS int64 // Unix milliseconds
	// Line says where the entry stands in its batch or list, counted from 1. Give
	// each entry of a set another Line: findings are named in the order of Line.
	Line int64
}

// ErrTooLong is returned by [Set.Add] for an event_id of more than 1 GiB.
var ErrTooLong = errors.New("event_id is longer than 1 GiB")

// ErrCorrupt is wrapped by the error of [Compare] when the temporary file does
// not give back what was written to it.
var ErrCorrupt = errors.New("temporary file does not hold what was written to it")

// seed keys the hash of every set of this process, so that any two can be compared.
var seed = maphash.MakeSeed()

// Set collects entries; the order in which they come does not matter and an
// event_id may come more than once. It is not safe for concurrent use. Make one
// with [New] and end it with [Set.Close].
type Set struct {
	dir     string
	budget  int
	longest int // bytes of an event_id
	hash    func(string) uint64
	create  func(dir string) (file, error)

	n     int64
	mem   arena
	file  file // nil until the first run is written
	size  int64
	runs  []run
	wrote error // the first error of writing a run, returned from then on
}

// file is what a set asks of its temporary file.
type file interface {
	io.Writer
	io.ReaderAt
	io.Closer
}

// New returns an empty set that puts its temporary file, if it needs one, into
// dir, or into [os.TempDir] when dir is "". Only the user can read the file, and
// it has no name while it is in use where the system allows that.
func New(dir string, opts Options) *Set {
	budget := min(opts.MemoryBytes, maxMemoryBytes)
	if budget <= 0 {
		budget = DefaultMemoryBytes
	}
	return &Set{
		dir: dir, budget: budget, longest: maxMemoryBytes, create: createTemp,
		hash: func(s string) uint64 { return maphash.String(seed, s) },
		mem:  newArena(budget, opts.Expect),
	}
}

// Len returns how many entries were added.
func (s *Set) Len() int64 { return s.n }

// Add adds e. The error is that of writing to the temporary file (no space, say);
// the set is of no use after it and says so again from every call. [ErrTooLong]
// leaves the set as it was.
func (s *Set) Add(e Entry) error {
	switch {
	case s.wrote != nil:
		return s.wrote
	case len(e.EventID) > s.longest:
		return ErrTooLong
	}
	if !s.mem.add(s.hash(e.EventID), e) {
		if err := s.spill(); err != nil {
			return err
		}
		s.mem.add(s.hash(e.EventID), e) // an empty arena takes any entry
	}
	s.n++
	return nil
}

// Close removes the temporary file. The set must not be used afterwards, except
// that Close may be called again.
func (s *Set) Close() error {
	f := s.file
	s.file, s.runs, s.mem = nil, nil, arena{}
	s.wrote = os.ErrClosed
	if f == nil {
		return nil
	}
	return f.Close()
}

// spill writes what is in memory to the temporary file as one sorted run.
func (s *Set) spill() error {
	if len(s.mem.entries) == 0 {
		return s.wrote
	}
	if s.file == nil {
		f, err := s.create(s.dir)
		if err != nil {
			s.wrote = fmt.Errorf("create temporary file for event_ids: %w", err)
			return s.wrote
		}
		s.file = f
	}
	s.mem.sort()
	r, err := writeRun(s.file, s.size, &s.mem)
	if err != nil {
		s.wrote = fmt.Errorf("write event_ids to temporary file: %w", err)
		return s.wrote
	}
	s.runs = append(s.runs, r)
	s.size += r.size
	s.mem.reset()
	return nil
}

// sources returns the sorted runs of s, to be read once, front to back.
func (s *Set) sources() ([]source, error) {
	if s.wrote != nil {
		return nil, s.wrote
	}
	if len(s.runs) == 0 {
		s.mem.sort()
		return []source{&memorySource{arena: &s.mem}}, nil
	}
	// The memory of the last run is given up for the buffers that read all of them.
	if err := s.spill(); err != nil {
		return nil, err
	}
	s.mem = newArena(s.budget, 0)
	buffer := min(max(s.budget/2/len(s.runs), 4<<10), 256<<10)
	var all []source
	for _, r := range s.runs {
		all = append(all, r.open(s.file, buffer))
	}
	return slices.Clip(all), nil
}

// tempFile removes itself: at once where a file without a name can be used,
// when it is closed elsewhere.
type tempFile struct {
	*os.File
	named bool
}

func createTemp(dir string) (file, error) {
	f, err := os.CreateTemp(dir, "walletarchive-ids-*")
	if err != nil {
		return nil, err
	}
	return &tempFile{File: f, named: os.Remove(f.Name()) != nil}, nil
}

// Close closes the file and removes its name if it still has one.
func (f *tempFile) Close() error {
	err := f.File.Close()
	if f.named {
		err = errors.Join(err, os.Remove(f.Name()))
	}
	return err
}
