package spill

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"math/bits"
	"slices"
)

// arena holds entries in memory: for each a fixed part to sort by, and its
// record (updated_at_ms and line as varints, then the event_id) in one of a few
// chunks. The bytes of a record are the same in memory and in a run.
type arena struct {
	budget    int // bytes of chunks, entries and spare
	chunkSize int
	entries   []entry
	spare     []entry  // what sort works in
	chunks    [][]byte // in use; the last one is being filled
	free      [][]byte // chunks of an earlier run, to be used again
	bytes     int      // capacity of chunks
}

// entry is the hash of an event_id and where its record lies.
type entry struct {
	hash  uint64
	where uint64 // chunk in the upper 8 bits, start in 24, size in the lower 32
}

const entryBytes = 16

// chunksPerArena lets the number of a chunk fit into 8 bits of entry.where, and
// a start within the largest of them (1 GiB / 64) into 24.
const chunksPerArena = 64

func newArena(budget int, expect int64) arena {
	a := arena{budget: budget, chunkSize: max(budget/chunksPerArena, 64)}
	// An entry takes its fixed part, the same in spare, and a record of about as much.
	if n := min(expect, int64(budget/(3*entryBytes))); n > 0 {
		a.entries = make([]entry, 0, n)
	}
	return a
}

// add takes e, or reports that there is no room for it. An empty arena has room
// for any entry.
func (a *arena) add(hash uint64, e Entry) bool {
	if !a.reserve(2*binary.MaxVarintLen64 + len(e.EventID)) {
		return false
	}
	at := len(a.chunks) - 1
	c := a.chunks[at]
	start := len(c)
	c = binary.AppendVarint(c, e.UpdatedAtMS)
	c = binary.AppendVarint(c, e.Line)
	c = append(c, e.EventID...)
	a.chunks[at] = c
	a.entries = append(a.entries, entry{hash, uint64(at)<<56 | uint64(start)<<32 | uint64(len(c)-start)})
	return true
}

// reserve makes room for a record of n bytes in the last chunk.
func (a *arena) reserve(n int) bool {
	fixed := 2 * entryBytes * (len(a.entries) + 1)
	if last := len(a.chunks) - 1; last >= 0 && cap(a.chunks[last])-len(a.chunks[last]) >= n {
		return a.bytes+fixed <= a.budget || len(a.entries) == 0
	}
	size := max(a.chunkSize, n)
	if a.bytes+size+fixed > a.budget && len(a.entries) > 0 {
		return false
	}
	var c []byte
	if k := len(a.free); k > 0 && size == a.chunkSize {
		c, a.free = a.free[k-1], a.free[:k-1]
	} else {
		c = make([]byte, 0, size)
	}
	a.chunks = append(a.chunks, c)
	a.bytes += size
	return true
}

// reset forgets the entries and keeps the memory, but for a chunk that one long
// record made larger than the others.
func (a *arena) reset() {
	for _, c := range a.chunks {
		if cap(c) == a.chunkSize {
			a.free = append(a.free, c[:0])
		}
	}
	clear(a.chunks)
	a.chunks, a.entries, a.bytes = a.chunks[:0], a.entries[:0], 0
}

// bytesOf returns the record of e as it lies in its chunk.
func (a *arena) bytesOf(e entry) []byte {
	start := e.where >> 32 & (1<<24 - 1)
	return a.chunks[e.where>>56][start : start+e.where&(1<<32-1)]
}

// sort orders the entries as [record.compare] does. Hashes are spread evenly, so
// one pass by their upper bits into spare leaves about eight entries to a bucket;
// a bucket that many entries of one event_id make large is sorted as any other.
// (In place, the same pass took twice as long: each move waits for the last.)
func (a *arena) sort() {
	compare := func(x, y entry) int {
		if c := cmp.Compare(x.hash, y.hash); c != 0 {
			return c
		}
		var rx, ry record
		rx.decode(x.hash, a.bytesOf(x)) // written by add: always whole
		ry.decode(y.hash, a.bytesOf(y))
		return rx.compare(&ry)
	}
	n := len(a.entries)
	if n < 1024 {
		slices.SortFunc(a.entries, compare)
		return
	}
	if cap(a.spare) < n {
		a.spare = make([]entry, n, cap(a.entries))
	}
	to := a.spare[:n]
	shift := 64 - (bits.Len(uint(n)) - 3)
	next := make([]uint32, 1<<(64-shift)+1) // where the next entry of a bucket goes
	for _, e := range a.entries {
		next[e.hash>>shift+1]++
	}
	for b := 1; b < len(next); b++ {
		next[b] += next[b-1]
	}
	for _, e := range a.entries {
		b := e.hash >> shift
		to[next[b]] = e
		next[b]++
	}
	a.entries, a.spare = to, a.entries
	var start uint32
	for _, end := range next[:len(next)-1] { // by now each is the end of its bucket
		slices.SortFunc(to[start:end], compare)
		start = end
	}
}

// touch reads a byte of each record of e. The reads do not wait for each other,
// so that the records, which lie in the order they came in, are in the cache when
// they are decoded one after the other: this halves the time of a comparison.
func (a *arena) touch(e []entry) (sum byte) {
	for _, e := range e {
		b := a.bytesOf(e)
		sum += b[0] + b[len(b)-1]
	}
	return sum
}

// record is an entry as it is merged. name is valid until the source it came
// from is read again.
type record struct {
	hash uint64
	name []byte // the event_id
	ms   int64
	line int64
}

// compareID orders records by hash and then event_id: it is 0 only for the same
// event_id.
func (r *record) compareID(o *record) int {
	if c := cmp.Compare(r.hash, o.hash); c != 0 {
		return c
	}
	return bytes.Compare(r.name, o.name)
}

// compare orders records as they lie in a run.
func (r *record) compare(o *record) int {
	if c := r.compareID(o); c != 0 {
		return c
	}
	return cmp.Or(cmp.Compare(r.ms, o.ms), cmp.Compare(r.line, o.line))
}

// decode reads the bytes that arena.add made, or reports that they are others.
func (r *record) decode(hash uint64, b []byte) bool {
	ms, n := binary.Varint(b)
	if n <= 0 {
		return false
	}
	line, m := binary.Varint(b[n:])
	if m <= 0 {
		return false
	}
	*r = record{hash: hash, name: b[n+m:], ms: ms, line: line}
	return true
}
