// Package manifest is the archive contract in Go: what a row of wallet_outbox
// looks like in a batch, how a batch is named, hashed and described, and what a
// receipt says of it. docs/FORMAT.md states the same rules in prose.
//
// The package does no I/O of its own: a [Writer] writes to an io.Writer and a
// [Reader] reads from an io.Reader, both in memory bounded by the longest line
// and a fixed number of blocks, never by the batch. Stores, databases and the
// judgement of a whole batch belong to its callers; package verify is the one
// that decides whether a batch is whole.
//
// Start with [Writer] to make a batch, [Reader] to read one, and [Record] for
// the row both of them carry.
package manifest
