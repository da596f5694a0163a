// Package mysqldb opens connections to servers of the MySQL family and says
// what they are, what they answered and what went wrong.
//
// Every connection of a [database/sql.DB] from [Open] has the same session
// settings, whatever the server's defaults and the DSN say: what is read is
// UTF-8 and complete, what is written is refused rather than changed, and every
// warning can be asked for. Nothing here knows a table.
//
// Start with [Open]; [Identify] tells MySQL from MariaDB, [IsError] tells one
// server error from another.
package mysqldb
