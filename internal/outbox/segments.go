package outbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"

	"golang.org/x/sync/errgroup"

	"github.com/hyapp/walletarchive/manifest"
)

// A page can only be asked for when the last row of the page before is known.
// To read several at once, one connection walks through the index alone, which
// costs little, and marks where every segmentPages-th page ends; the others
// read the segments between the marks. That a segment ends at its mark is
// checked, so both ways of reading give the same rows or an error.

// segment is a piece of the scan. Its pages go to out, which is closed when
// they are complete.
type segment struct {
	after manifest.Cursor
	rows  int64            // how many there are, at most in the last one
	mark  *manifest.Cursor // where it must end; nil for the last one
	out   chan page
}

// start begins to read and returns the segments' pages in order. Every
// goroutine belongs to g and ends with ctx.
func (r *Reader) start(ctx context.Context, g *errgroup.Group, after manifest.Cursor) <-chan (<-chan page) {
	ordered := make(chan (<-chan page), r.opts.Connections)
	work := make(chan segment)
	for range r.opts.Connections {
		g.Go(func() error { return r.readSegments(ctx, work) })
	}
	g.Go(func() error {
		send := func(s segment) error {
			s.out = make(chan page, segmentPages)
			select {
			case ordered <- s.out:
			case <-ctx.Done():
				return ctx.Err()
			}
			select {
			case work <- s:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		var err error
		if r.opts.Connections == 1 {
			err = send(segment{after: after, rows: r.opts.MaxRows})
		} else {
			err = r.mark(ctx, after, send)
		}
		if err == nil {
			// Only a whole scan may look like one: after an error nothing is
			// closed, and whoever waits is woken by ctx.
			close(work)
			close(ordered)
		}
		return err
	})
	return ordered
}

// mark walks through the index and sends one segment after the other.
func (r *Reader) mark(ctx context.Context, after manifest.Cursor, send func(segment) error) error {
	conn, err := r.db.Conn(ctx)
	if err != nil {
		return fmt.Errorf("connect to walk through the index: %w", err)
	}
	defer conn.Close()
	rows := int64(segmentPages * r.opts.PageRows)
	for left := r.opts.MaxRows; ; left -= rows {
		if left <= rows {
			return send(segment{after: after, rows: left})
		}
		var m manifest.Cursor
		err := conn.QueryRowContext(ctx, "SELECT "+r.ms+", "+r.id+r.bounds(after)+
			" LIMIT 1 OFFSET "+strconv.FormatInt(rows-1, 10)).Scan(&m.UpdatedAtMS, &m.EventID)
		if errors.Is(err, sql.ErrNoRows) {
			return send(segment{after: after, rows: rows})
		}
		if err != nil {
			return pageError(after, err)
		}
		if err := send(segment{after: after, rows: rows, mark: &m}); err != nil {
			return err
		}
		after = m
	}
}

// readSegments reads segments on one connection, which it opens for the first.
func (r *Reader) readSegments(ctx context.Context, work <-chan segment) error {
	var src *source
	defer func() {
		if src != nil {
			src.close()
		}
	}()
	for s := range receive(ctx, work) {
		if src == nil {
			var err error
			if src, err = r.newSource(ctx); err != nil {
				return err
			}
		}
		last, err := src.read(ctx, s.after, s.rows, s.out)
		if err != nil {
			return err
		}
		if s.mark != nil && last != *s.mark {
			return fmt.Errorf("%w: %d rows after (%d, %q) end at (%d, %q) in the table and at (%d, %q) in its index", ErrOrder,
				s.rows, s.after.UpdatedAtMS, s.after.EventID, last.UpdatedAtMS, last.EventID, s.mark.UpdatedAtMS, s.mark.EventID)
		}
		close(s.out)
	}
	return nil
}
