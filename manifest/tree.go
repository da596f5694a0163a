package manifest

import (
	"crypto/sha256"
	"fmt"

	"github.com/transparency-dev/merkle/compact"
	"github.com/transparency-dev/merkle/rfc6962"
)

// tree computes rows_root: the RFC 6962 section 2.1 Merkle tree head over the
// canonical lines in file order. It keeps one hash for each level of the tree.
type tree struct {
	r *compact.Range
}

func newTree() tree {
	f := compact.RangeFactory{Hash: nodeHash}
	return tree{r: f.NewEmptyRange(0)}
}

// nodeHash is rfc6962.DefaultHasher.HashChildren for hashes of this size,
// without the hash.Hash that one allocates for each row.
func nodeHash(left, right []byte) []byte {
	var b [1 + 2*sha256.Size]byte
	b[0] = rfc6962.RFC6962NodeHashPrefix
	copy(b[1:], left)
	copy(b[1+sha256.Size:], right)
	sum := sha256.Sum256(b[:])
	return sum[:]
}

func (t tree) add(leaf Hash) error {
	if err := t.r.Append(leaf[:], nil); err != nil {
		return fmt.Errorf("append leaf %d to rows_root: %w", t.r.End(), err)
	}
	return nil
}

// root returns the tree head; that of no leaves is the SHA-256 of nothing.
func (t tree) root() (Hash, error) {
	if t.r.End() == 0 {
		return Hash(rfc6962.DefaultHasher.EmptyRoot()), nil
	}
	b, err := t.r.GetRootHash(nil)
	if err != nil {
		return Hash{}, fmt.Errorf("compute rows_root: %w", err)
	}
	return Hash(b), nil
}

// leafHash is the RFC 6962 section 2.1 hash of a leaf. prefixed is the leaf
// with rfc6962.RFC6962LeafHashPrefix before it.
func leafHash(prefixed []byte) Hash { return sha256.Sum256(prefixed) }
