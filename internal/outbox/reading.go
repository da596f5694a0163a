package outbox

// CheckReading reports what would keep records from being read from t exactly, all
// of it fatal. What is in the way of writing does not count: triggers, further
// columns, keys, widths, the engine, or that t is a view. Nil means that nothing is
// in the way.
func (t *Table) CheckReading() []Problem {
	var ps problems
	for i := range fields {
		f := &fields[i]
		c, ok := t.Column(f.name)
		switch {
		case !ok:
			ps.fatal(f.name, MissingColumn, "the table has no such column")
		case !readable(f.kind, c):
			ps.fatal(f.name, WrongType, "type %s cannot be read as %s", c.ColumnType, f.kind)
		}
	}
	return ps
}
