// Package outbox knows the table wallet_outbox of a server of the MySQL family:
// how it is made, what a live one really looks like, how its rows are read
// without losing a byte, and how they are written without the server changing
// one.
//
// A live table is never assumed to be the one that [Schema] makes: [Describe]
// reads its own definition, [Table.CheckSource] says whether it can be archived
// and [Table.CheckTarget] whether given rows fit into it. [Reader] reads in
// cursor order for an export, [ReadAll] and [Summarize] read everything for a
// drill, [ReadByKeys] reads back what was written, and [NewWriter] writes.
//
// What rows mean, how they are hashed and whether a batch is whole is not
// decided here. Every connection is expected to come from mysqldb.Open.
package outbox
