package manifest

import (
	"crypto/sha256"
	"encoding/binary"
)

// FingerprintScheme is the batch_id_scheme of batch ids made by [Fingerprint].
const FingerprintScheme = "walletarchive-batch-id-v1"

// Fingerprint returns the batch_id of a batch: the SHA-256 over its scheme
// name, schema_version, app_code, row_count, both cursors and ndjson_sha256,
// each string preceded by its length in bytes, all integers as eight bytes
// big-endian (docs/FORMAT.md "batch_id"). The same rows give the same id, so a
// retry writes the same batch.
func Fingerprint(schemaVersion int, app string, rows int64, first, last Cursor, ndjson Hash) BatchID {
	h := sha256.New()
	var buf []byte
	num := func(v uint64) { buf = binary.BigEndian.AppendUint64(buf, v) }
	str := func(s string) { num(uint64(len(s))); buf = append(buf, s...) }
	str(FingerprintScheme)
	num(uint64(schemaVersion))
	str(app)
	num(uint64(rows))
	for _, c := range []Cursor{first, last} {
		num(uint64(c.UpdatedAtMS))
		str(c.EventID)
	}
	buf = append(buf, ndjson[:]...)
	h.Write(buf)
	var sum Hash
	h.Sum(sum[:0])
	return BatchID(sum.String())
}
