package outbox

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"
	"strings"

	"github.com/hyapp/walletarchive/internal/mysqldb"
	"github.com/hyapp/walletarchive/manifest"
)

// source reads pages on one connection.
type source struct {
	r      *Reader
	conn   *sql.Conn
	plain  *decoder
	asking *decoder // nil when nothing is asked about payloads
	// askAll says that so many payloads were doubtful of late that the next page
	// asks about every one, which is cheaper than reading most rows twice.
	askAll bool
	free   chan []Row
}

// askAllShare is the share of doubtful payloads, one in so many, from which on
// a page asks about all.
const askAllShare = 4

func (r *Reader) newSource(ctx context.Context) (*source, error) {
	conn, err := r.db.Conn(ctx)
	if err != nil {
		return nil, fmt.Errorf("connect to read rows: %w", err)
	}
	s := &source{r: r, conn: conn, plain: newDecoder(r.query), free: make(chan []Row, segmentPages+2)}
	s.plain.appCode, s.plain.status = r.opts.AppCode, manifest.StatusDelivered
	if r.opts.Fidelity {
		s.asking = newDecoder(r.asking)
		s.asking.appCode, s.asking.status = r.opts.AppCode, manifest.StatusDelivered
	}
	for range cap(s.free) {
		s.free <- make([]Row, 0, r.opts.PageRows)
	}
	return s, nil
}

func (s *source) close() { _ = s.conn.Close() } // hands it back to the pool

// read sends the pages after the position after to out, until a page is short
// or limit rows were sent. It returns the position of the last row.
func (s *source) read(ctx context.Context, after manifest.Cursor, limit int64, out chan<- page) (manifest.Cursor, error) {
	for limit > 0 {
		var rows []Row
		select {
		case rows = <-s.free:
		case <-ctx.Done():
			return after, ctx.Err()
		}
		want := int(min(int64(s.r.opts.PageRows), limit))
		rows, err := s.page(ctx, after, want, rows[:0])
		if err != nil {
			return after, err
		}
		n := len(rows)
		if n > 0 {
			last := rows[n-1].Cursor()
			if last == after {
				return after, fmt.Errorf("%w: the page after (%d, %q) ends there", ErrOrder, after.UpdatedAtMS, after.EventID)
			}
			after = last
			select {
			case out <- page{rows, s.free}:
			case <-ctx.Done():
				return after, ctx.Err()
			}
		}
		if n < want {
			return after, nil
		}
		limit -= int64(n)
	}
	return after, nil
}

// page reads one page into dst. Payloads are asked about in the same statement
// or, when few are doubtful, by a second one.
func (s *source) page(ctx context.Context, after manifest.Cursor, want int, dst []Row) ([]Row, error) {
	dec := s.plain
	if s.askAll {
		dec = s.asking
	}
	rows, err := s.conn.QueryContext(ctx, "SELECT "+dec.query.list+s.r.bounds(after)+" LIMIT "+strconv.Itoa(want))
	if err != nil {
		return nil, pageError(after, err)
	}
	defer rows.Close()
	var doubtful []int
	for rows.Next() {
		dst = append(dst, Row{})
		if err := dec.decode(rows, &dst[len(dst)-1]); err != nil {
			return nil, err
		}
		if s.asking != nil && mayBeUnstable(dec.payload) {
			doubtful = append(doubtful, len(dst)-1)
		}
	}
	if err := rows.Err(); err != nil {
		return nil, pageError(after, err)
	}
	if len(doubtful) > 0 && !s.askAll {
		if err := s.ask(ctx, dst, doubtful); err != nil {
			return nil, err
		}
	}
	s.askAll = len(doubtful)*askAllShare > len(dst)
	return dst, nil
}

// ask reads the doubtful rows once more, with what the server says of their
// payloads, and holds them against the first reading, so that the flags are
// those of the very text that is archived.
func (s *source) ask(ctx context.Context, page []Row, doubtful []int) error {
	t := s.r.table
	query := []byte("SELECT " + s.r.asking.list + " FROM " + mysqldb.QuoteName(t.Name))
	if key, ok := t.keyIndex(); ok {
		query = append(query, " FORCE INDEX ("+mysqldb.QuoteName(key.Name)+")"...)
	}
	query = append(query, " WHERE "+t.quoted("app_code")+" = "+literal(s.r.opts.AppCode)+" AND "+t.quoted("event_id")+" IN ("...)
	byID := make(map[string]*Row, len(doubtful))
	for k, i := range doubtful {
		if k > 0 {
			query = append(query, ',')
		}
		query = mysqldb.AppendString(query, page[i].EventID)
		byID[page[i].EventID] = &page[i]
	}
	rows, err := s.conn.QueryContext(ctx, string(append(query, ')')))
	if err != nil {
		return fmt.Errorf("ask about payloads: %w", err)
	}
	defer rows.Close()
	var again Row
	for rows.Next() {
		if err := s.asking.decode(rows, &again); err != nil {
			return err
		}
		// Never equal by the collation alone: the key is unique under it.
		first, ok := byID[again.EventID]
		if !ok {
			return fmt.Errorf("%w: row %q came, which was not asked for", ErrOrder, again.EventID)
		}
		if columns := first.Differs(&again.Record); len(columns) > 0 {
			return fmt.Errorf("%w: row %q changed between two readings (%s)", ErrOrder, again.EventID, strings.Join(columns, ", "))
		}
		first.TextUnstable, first.ValueUnstable = again.TextUnstable, again.ValueUnstable
		delete(byID, again.EventID)
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("ask about payloads: %w", err)
	}
	for id := range byID {
		return fmt.Errorf("%w: row %q was gone when it was read again", ErrOrder, id)
	}
	return nil
}
