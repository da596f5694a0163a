package spill

import (
	"context"
	"errors"
	"io"
	"iter"
)

// All yields every entry of s, in no order that means anything. A pair with an
// error is the last one and says nothing about the entries: it is ctx.Err(), that
// of the temporary file, or wraps [ErrCorrupt]. It may run again, but s must not
// be used elsewhere meanwhile.
func (s *Set) All(ctx context.Context) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		sources, err := s.sources()
		for i, n := 0, 0; err == nil && i < len(sources); {
			var r record
			switch err = sources[i].next(&r); {
			case errors.Is(err, io.EOF):
				i, err = i+1, nil
			case err == nil:
				if n++; n%4096 == 0 && ctx.Err() != nil {
					err = ctx.Err()
				} else if !yield(Entry{EventID: string(r.name), UpdatedAtMS: r.ms, Line: r.line}, nil) {
					return
				}
			}
		}
		if err != nil {
			yield(Entry{}, err)
		}
	}
}
