package spill

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
)

// run is a sorted section of the temporary file: for each entry eight bytes of
// hash, the size of the record as a varint, and the record.
type run struct {
	start, size int64 // bytes
	entries     int
	crc         uint32 // CRC-32C of the section
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// writeRun appends the sorted entries of a to w, whose length is start.
func writeRun(w io.Writer, start int64, a *arena) (run, error) {
	r := run{start: start, entries: len(a.entries)}
	out := bufio.NewWriterSize(w, 128<<10)
	var head [8 + binary.MaxVarintLen64]byte
	for _, e := range a.entries {
		rec := a.bytesOf(e)
		binary.LittleEndian.PutUint64(head[:], e.hash)
		h := binary.AppendUvarint(head[:8], uint64(len(rec)))
		r.crc = crc32.Update(crc32.Update(r.crc, castagnoli, h), castagnoli, rec)
		r.size += int64(len(h) + len(rec))
		_, _ = out.Write(h) // a bufio.Writer keeps its first error for Flush
		_, _ = out.Write(rec)
	}
	return r, out.Flush()
}

// source gives the records of one run in order.
type source interface {
	// next reads a record into r, or returns io.EOF after the last one. The record's
	// name is valid until the call after.
	next(r *record) error
}

// memorySource reads a sorted arena.
type memorySource struct {
	arena *arena
	i     int
	sum   byte // keeps the compiler from leaving touch out
}

// touchAhead is how many records are brought into the cache at once.
const touchAhead = 64

func (s *memorySource) next(r *record) error {
	if s.i == len(s.arena.entries) {
		return io.EOF
	}
	if s.i%touchAhead == 0 {
		s.sum += s.arena.touch(s.arena.entries[s.i:min(s.i+touchAhead, len(s.arena.entries))])
	}
	e := s.arena.entries[s.i]
	s.i++
	r.decode(e.hash, s.arena.bytesOf(e)) // written by add: always whole
	return nil
}

// runSource reads a run back and proves at its end that it is what was written.
type runSource struct {
	run  run
	in   *bufio.Reader
	left int64 // bytes of the section
	read int   // entries
	crc  uint32
	buf  []byte
}

func (r run) open(f io.ReaderAt, buffer int) *runSource {
	return &runSource{run: r, left: r.size, in: bufio.NewReaderSize(io.NewSectionReader(f, r.start, r.size), buffer)}
}

func (s *runSource) next(r *record) error {
	if s.left == 0 {
		if s.crc != s.run.crc || s.read != s.run.entries {
			return fmt.Errorf("%w: checksum %08x over %d entries, want %08x over %d",
				ErrCorrupt, s.crc, s.read, s.run.crc, s.run.entries)
		}
		return io.EOF
	}
	head, err := s.in.Peek(int(min(8+binary.MaxVarintLen64, s.left)))
	if err != nil {
		return readError(err)
	}
	if len(head) < 9 {
		return fmt.Errorf("%w: %d bytes where an entry should start", ErrCorrupt, len(head))
	}
	hash := binary.LittleEndian.Uint64(head)
	size, n := binary.Uvarint(head[8:])
	if n <= 0 || size > uint64(s.left)-8-uint64(n) {
		return fmt.Errorf("%w: an entry has an impossible size", ErrCorrupt)
	}
	s.crc = crc32.Update(s.crc, castagnoli, head[:8+n])
	_, _ = s.in.Discard(8 + n) // peeked: cannot fail
	if uint64(cap(s.buf)) < size {
		s.buf = make([]byte, size+64)
	}
	s.buf = s.buf[:size]
	if _, err := io.ReadFull(s.in, s.buf); err != nil {
		return readError(err)
	}
	s.crc = crc32.Update(s.crc, castagnoli, s.buf)
	s.left -= 8 + int64(n) + int64(size)
	s.read++
	if !r.decode(hash, s.buf) {
		return fmt.Errorf("%w: an entry cannot be decoded", ErrCorrupt)
	}
	return nil
}

// readError tells a file that has become shorter from one that cannot be read.
func readError(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%w: it ends early", ErrCorrupt)
	}
	return fmt.Errorf("read event_ids from temporary file: %w", err)
}
