package mysqldb

import "strings"

// QuoteName returns name between backticks, so that it is one identifier
// whatever is in it.
func QuoteName(name string) string {
	return "`" + strings.ReplaceAll(name, "`", "``") + "`"
}

// AppendString appends s as a string literal of SQL. It is exact on connections
// of [Open], whose sql_mode takes backslashes as escapes and whose charset is
// utf8mb4; s must be UTF-8.
func AppendString(dst []byte, s string) []byte {
	dst = append(dst, '\'')
	done := 0
	for i := range len(s) {
		esc := escapes[s[i]]
		if esc == 0 {
			continue
		}
		dst = append(dst, s[done:i]...)
		dst = append(dst, '\\', esc)
		done = i + 1
	}
	dst = append(dst, s[done:]...)
	return append(dst, '\'')
}

// escapes maps the bytes that a literal does not hold as they are to the letter
// that follows the backslash. The double quote is not one of them, and JSON is
// full of it (MySQL Reference Manual, "String Literals").
var escapes = [256]byte{
	0: '0', '\n': 'n', '\r': 'r', 0x1a: 'Z', '\'': '\'', '\\': '\\',
}
