// Package sink writes rows where there is no server: as NDJSON, as SQL for the
// stock client, or as CSV (docs/CLI.md "Restoring to a file"). A [Writer] gives
// the format and a [File] makes it appear whole or not at all.
package sink
