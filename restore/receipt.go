package restore

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"

	"github.com/hyapp/walletarchive/manifest"
)

// ReceiptSchema names the format of the receipt of a restore, which docs/CLI.md
// "The receipt of a restore" describes.
const ReceiptSchema = "walletarchive.restore_receipt/v1"

// ErrReceipt is returned for a receipt that is damaged, or of another format.
var ErrReceipt = errors.New("not a whole receipt of a restore")

// ErrNoHeader is an [ErrReceipt]: not even the first line is whole, so that nothing
// was done by the run that began it.
var ErrNoHeader = fmt.Errorf("%w: its first line is missing", ErrReceipt)

// ReceiptHeader says which run a receipt is of. It is the first line.
type ReceiptHeader struct {
	Schema string `json:"schema"`
	RunID  string `json:"run_id"` // random, 32 hex digits
	// PlanID names what was to be restored, and how. Only the same plan may go on
	// where a run has stopped.
	PlanID    string           `json:"plan_id"`
	Tool      manifest.Program `json:"tool"`
	Operator  string           `json:"operator"`
	Ticket    string           `json:"ticket,omitempty"`
	StartedAt string           `json:"started_at"` // RFC 3339, UTC
	Target    TargetIdentity   `json:"target"`
	// JournalTable is where each transaction also left a line of its own, in the
	// database of the target; "" when there is none.
	JournalTable string `json:"journal_table,omitempty"`
}

// The lines after the header, one JSON object each, with exactly one member.
type receiptLine struct {
	Header  *ReceiptHeader  `json:"header,omitempty"`
	Begin   *receiptBegin   `json:"begin,omitempty"`
	Row     *receiptRow     `json:"row,omitempty"`
	Pending *receiptPending `json:"pending,omitempty"`
	Outcome *receiptOutcome `json:"outcome,omitempty"`
	Resumed *receiptResumed `json:"resumed,omitempty"`
	End     *receiptEnd     `json:"end,omitempty"`
	Undo    *ReceiptUndo    `json:"undo,omitempty"`
	Undone  *receiptUndone  `json:"undone,omitempty"`
}

// receiptBegin begins a transaction. One that never became pending was never
// asked to commit.
type receiptBegin struct {
	Seq     int64            `json:"seq"` // counted from 1 over the whole receipt
	AppCode string           `json:"app_code"`
	BatchID manifest.BatchID `json:"batch_id"`
	At      string           `json:"at"`
}

// receiptRow says what became of a row. RowHash is that of the row in the target
// after it, but for a payload of a present row that is spelled otherwise.
type receiptRow struct {
	EventID   string        `json:"event_id"`
	Outcome   Outcome       `json:"outcome"`
	RowHash   manifest.Hash `json:"row_hash"`
	Respelled bool          `json:"respelled,omitempty"`
	// Old is the row that was overwritten, as a line of the archive.
	Old json.RawMessage `json:"old,omitempty"`
	// Number counts the inserted and overwritten rows of the transaction, from 1. It
	// is not in the file.
	Number int64 `json:"-"`
}

// old returns the row that was overwritten.
func (r *receiptRow) old() (manifest.Record, error) {
	old, err := manifest.DecodeLine(r.Old)
	if err != nil {
		err = fmt.Errorf("%w: the old row of event_id %q: %w", ErrReceipt, clip(r.EventID), err)
	}
	return old, err
}

// receiptPending is on disk before the commit is asked for.
type receiptPending struct {
	Seq    int64         `json:"seq"`
	Counts ReceiptCounts `json:"rows"`
	SHA256 manifest.Hash `json:"sha256"` // of the lines of its rows, newlines too
}

// receiptOutcome says what became of a pending transaction.
type receiptOutcome struct {
	Seq   int64 `json:"seq"`
	State State `json:"state"` // Committed, Unchanged or RolledBack
	// Settled is how a later run found out, "" when this one was told by the
	// server: "journal table" or "rows read back".
	Settled string `json:"settled,omitempty"`
	At      string `json:"at"`
}

type receiptResumed struct {
	Tool     manifest.Program `json:"tool"`
	Operator string           `json:"operator"`
	Ticket   string           `json:"ticket,omitempty"`
	At       string           `json:"at"`
}

type receiptEnd struct {
	// Complete says that the target held all that was asked for at that time.
	Complete bool   `json:"complete"`
	At       string `json:"at"`
}

// ReceiptCounts counts rows by what became of them.
type ReceiptCounts struct {
	Present     int64 `json:"present"`
	Inserted    int64 `json:"inserted"`
	Skipped     int64 `json:"skipped"`
	Overwritten int64 `json:"overwritten"`
}

func (c *ReceiptCounts) add(o Outcome) {
	switch o {
	case Present:
		c.Present++
	case Inserted:
		c.Inserted++
	case Skipped:
		c.Skipped++
	case Overwritten:
		c.Overwritten++
	}
}

func (c *ReceiptCounts) plus(d ReceiptCounts) {
	c.Present += d.Present
	c.Inserted += d.Inserted
	c.Skipped += d.Skipped
	c.Overwritten += d.Overwritten
}

// changed counts the rows that an undo is about.
func (c ReceiptCounts) changed() int64 { return c.Inserted + c.Overwritten }

// MarshalText returns [Outcome.String].
func (o Outcome) MarshalText() ([]byte, error) { return []byte(o.String()), nil }

// UnmarshalText reads what MarshalText writes.
func (o *Outcome) UnmarshalText(b []byte) error {
	for _, k := range []Outcome{Present, Inserted, Skipped, Overwritten} {
		if k.String() == string(b) {
			*o = k
			return nil
		}
	}
	return fmt.Errorf("no outcome is called %q", b)
}

// UnmarshalText reads what [State.MarshalText] writes.
func (s *State) UnmarshalText(b []byte) error {
	for _, k := range []State{Untouched, Unchanged, Committed, RolledBack, Unknown} {
		if k.String() == string(b) {
			*s = k
			return nil
		}
	}
	return fmt.Errorf("no state is called %q", b)
}

// Receipt is a receipt that was read: its header and what it says of each
// transaction. The rows stay in the file.
type Receipt struct {
	Path   string
	Header ReceiptHeader
	// Transactions are those that were pending once, in their order.
	Transactions []ReceiptTransaction
	// Ended says that the run came to its end, and Complete how.
	Ended, Complete bool
	Undos           []ReceiptUndo // in their order

	seq  int64 // of the last transaction that was begun
	size int64 // up to the end of the last whole line
}

// ReceiptTransaction is one transaction of a receipt.
type ReceiptTransaction struct {
	Seq     int64
	AppCode string
	BatchID manifest.BatchID
	Rows    ReceiptCounts
	// State is Committed, Unchanged or RolledBack, and Unknown when nobody has
	// said: the run was killed between the commit and its answer.
	State State
	// Undone counts the rows that were taken back by an undo; only Inserted and
	// Overwritten are set.
	Undone ReceiptCounts

	undone     LineRanges // the numbers of the rows of Undone
	start, end int64      // of its rows in the file
}

// Counts adds up the transactions that were committed, and those whose fate
// nobody has said.
func (r *Receipt) Counts() (committed, unknown ReceiptCounts) {
	for _, t := range r.Transactions {
		switch t.State {
		case Committed, Unchanged:
			committed.plus(t.Rows)
		case Unknown:
			unknown.plus(t.Rows)
		case RolledBack, Untouched:
		}
	}
	return committed, unknown
}

// HoldReceipt keeps every run from writing the receipt at path until the function
// that it returns is called. The error is [ErrJournalBusy] while one does.
func HoldReceipt(path string) (release func() error, err error) {
	f, err := openReceipt(path)
	if err != nil {
		return nil, err
	}
	if err := lockFile(f); err != nil {
		return nil, errors.Join(fmt.Errorf("receipt %s: %w", path, err), f.Close())
	}
	return f.Close, nil
}

// ReadReceipt reads the receipt at path and checks all of it: the hash of each
// transaction's rows too. What a crash tore off at the end is not part of it.
// The error is [ErrReceipt] or one of [os].
func ReadReceipt(path string) (*Receipt, error) {
	f, err := openReceipt(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if err := checkReceiptStart(f); err != nil {
		return nil, fmt.Errorf("receipt %s: %w", path, err)
	}
	r := &Receipt{Path: path}
	if err := r.read(f); err != nil {
		return nil, fmt.Errorf("receipt %s: %w", path, err)
	}
	return r, nil
}

// maxReceiptLine bounds a line: a row of an archive twice over. The first line has
// no row, and a file without a newline is found out early.
const (
	maxReceiptLine = 1 << 30
	maxHeaderLine  = 1 << 20
)

// openReceipt opens what can be a receipt: not a device or a pipe.
func openReceipt(path string) (*os.File, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("receipt %s: %w: it is no regular file", path, ErrReceipt)
	}
	return os.Open(path)
}

// read scans the whole file.
func (r *Receipt) read(f io.Reader) error {
	in := bufio.NewReaderSize(f, 256<<10)
	var open *ReceiptTransaction // begun and not pending yet
	sum, most := sha256.New(), maxHeaderLine
	for number := int64(1); ; number++ {
		text, err := readLine(in, most)
		if most = maxReceiptLine; err == io.EOF {
			break // a line that was torn off was never relied upon
		}
		if err != nil {
			return err
		}
		line, err := decodeReceiptLine(text)
		if err == nil {
			if line.Row != nil {
				if open == nil {
					err = errors.New("a row outside a transaction")
				} else {
					sum.Write(text)
					open.Rows.add(line.Row.Outcome)
					open.end = r.size + int64(len(text))
				}
			} else {
				open, err = r.take(line, open, r.size+int64(len(text)), manifest.Hash(sum.Sum(nil)))
				if open != nil && line.Begin != nil {
					sum.Reset()
				}
			}
		}
		if err != nil {
			return fmt.Errorf("%w: line %d: %w", ErrReceipt, number, err)
		}
		r.size += int64(len(text))
	}
	if r.Header.Schema == "" {
		return ErrNoHeader
	}
	return nil
}

// take takes a line that is none of a row, which ends at offset end of the file,
// and returns the transaction that is open after it.
func (r *Receipt) take(line receiptLine, open *ReceiptTransaction, end int64, sum manifest.Hash) (*ReceiptTransaction, error) {
	if (line.Header != nil) != (r.Header.Schema == "") {
		return nil, errors.New("the header is not the first line")
	}
	switch {
	case line.Header != nil:
		if line.Header.Schema != ReceiptSchema {
			return nil, fmt.Errorf("schema %q, want %q", line.Header.Schema, ReceiptSchema)
		}
		r.Header = *line.Header
	case line.Begin != nil:
		b := line.Begin
		if b.Seq != r.seq+1 {
			return nil, fmt.Errorf("transaction %d after %d", b.Seq, r.seq)
		}
		r.seq, r.Ended = b.Seq, false
		return &ReceiptTransaction{Seq: b.Seq, AppCode: b.AppCode, BatchID: b.BatchID, State: Unknown, start: end, end: end}, nil
	case line.Pending != nil:
		p := line.Pending
		switch {
		case open == nil || p.Seq != open.Seq:
			return nil, fmt.Errorf("transaction %d was not begun", p.Seq)
		case p.Counts != open.Rows:
			return nil, fmt.Errorf("transaction %d has rows %+v, and says %+v", p.Seq, open.Rows, p.Counts)
		case p.SHA256 != sum:
			return nil, fmt.Errorf("the rows of transaction %d have another hash than it says", p.Seq)
		}
		r.Transactions = append(r.Transactions, *open)
	case line.Outcome != nil:
		o := line.Outcome
		t := r.transaction(o.Seq)
		if t == nil || t.State != Unknown || open != nil {
			return nil, fmt.Errorf("an outcome of transaction %d, which was not pending", o.Seq)
		}
		t.State = o.State
	case line.Resumed != nil:
		r.Ended = false
	case line.End != nil:
		r.Ended, r.Complete = true, line.End.Complete
	case line.Undo != nil:
		r.Undos = append(r.Undos, *line.Undo)
	case line.Undone != nil:
		return nil, r.takeUndone(line.Undone)
	}
	return nil, nil
}

// rows yields the rows of t, read anew.
func (r *Receipt) rows(t *ReceiptTransaction) iter.Seq2[*receiptRow, error] {
	return func(yield func(*receiptRow, error) bool) {
		fail := func(err error) { yield(nil, fmt.Errorf("receipt %s: %w", r.Path, err)) }
		f, err := os.Open(r.Path)
		if err != nil {
			fail(err)
			return
		}
		defer f.Close()
		in := bufio.NewReaderSize(io.NewSectionReader(f, t.start, t.end-t.start), 256<<10)
		for {
			text, err := readLine(in, maxReceiptLine)
			if err == io.EOF {
				return
			}
			var line receiptLine
			if err == nil {
				line, err = decodeReceiptLine(text)
			}
			if err == nil && line.Row == nil {
				err = fmt.Errorf("%w: it changed while it was read", ErrReceipt)
			}
			if err != nil {
				fail(err)
				return
			}
			if !yield(line.Row, nil) {
				return
			}
		}
	}
}

// readLine returns the next line with its newline; io.EOF when there is no whole
// one.
func readLine(in *bufio.Reader, most int) ([]byte, error) {
	var text []byte
	for {
		part, err := in.ReadSlice('\n')
		text = append(text, part...)
		switch {
		case err == nil:
			return text, nil
		case err != bufio.ErrBufferFull:
			return nil, err
		case len(text) > most:
			return nil, fmt.Errorf("%w: a line is over %d bytes", ErrReceipt, most)
		}
	}
}

// decodeReceiptLine reads a line, which must have exactly one known member.
func decodeReceiptLine(text []byte) (line receiptLine, err error) {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&line); err != nil {
		return line, err
	}
	if dec.InputOffset() != int64(len(text)-1) {
		return line, errors.New("text after the object")
	}
	n := 0
	for _, set := range []bool{
		line.Header != nil, line.Begin != nil, line.Row != nil, line.Pending != nil, line.Outcome != nil, line.Resumed != nil, line.End != nil,
		line.Undo != nil, line.Undone != nil,
	} {
		if set {
			n++
		}
	}
	if n != 1 {
		return line, fmt.Errorf("%d of the known members, want one", n)
	}
	return line, nil
}

// appendRow appends the line of a row, as encodeReceiptLine would write it: there
// are many of them.
func appendRow(dst []byte, r *receiptRow) ([]byte, error) {
	dst = append(dst, `{"row":{"event_id":`...)
	if plain(r.EventID) {
		dst = append(append(append(dst, '"'), r.EventID...), '"')
	} else {
		text, err := json.Marshal(r.EventID)
		if err != nil {
			return nil, err
		}
		dst = append(dst, text...)
	}
	dst = append(append(dst, `,"outcome":"`...), r.Outcome.String()...)
	dst = append(dst, `","row_hash":"`...)
	dst = append(hex.AppendEncode(dst, r.RowHash[:]), '"')
	if r.Respelled {
		dst = append(dst, `,"respelled":true`...)
	}
	if r.Old != nil {
		dst = append(append(dst, `,"old":`...), r.Old...)
	}
	return append(dst, "}}\n"...), nil
}

// plain reports whether s stands between quotes in JSON as it is.
func plain(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c >= 0x7f || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}

// encodeReceiptLine returns a line with its newline.
func encodeReceiptLine(line receiptLine) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(line); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}
