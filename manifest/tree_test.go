package manifest

import (
	"crypto/sha256"
	"encoding/hex"
	"math/rand/v2"
	"testing"

	"github.com/transparency-dev/merkle/rfc6962"
)

// headOf is RFC 6962 section 2.1 word for word: the largest power of two smaller
// than n splits the list.
func headOf(leaves [][]byte) Hash {
	switch n := len(leaves); n {
	case 0:
		return sha256.Sum256(nil)
	case 1:
		return sha256.Sum256(append([]byte{0}, leaves[0]...))
	default:
		k := 1
		for k*2 < n {
			k *= 2
		}
		l, r := headOf(leaves[:k]), headOf(leaves[k:])
		return sha256.Sum256(append(append([]byte{1}, l[:]...), r[:]...))
	}
}

func treeHead(t *testing.T, leaves [][]byte) Hash {
	t.Helper()
	tr := newTree()
	for _, l := range leaves {
		if err := tr.add(leafHash(append([]byte{rfc6962.RFC6962LeafHashPrefix}, l...))); err != nil {
			t.Fatal(err)
		}
	}
	root, err := tr.root()
	if err != nil {
		t.Fatal(err)
	}
	return root
}

// The leaves and heads that implementations of Certificate Transparency test with.
func TestTreeKnownHeads(t *testing.T) {
	var leaves [][]byte
	for _, s := range []string{"", "00", "10", "2021", "3031", "40414243", "5051525354555657", "606162636465666768696a6b6c6d6e6f"} {
		b, err := hex.DecodeString(s)
		if err != nil {
			t.Fatal(err)
		}
		leaves = append(leaves, b)
	}
	for n, want := range []string{
		"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
		"6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
		"fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
		"aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
		"d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
		"4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
		"76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
		"ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
		"5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
	} {
		if got := treeHead(t, leaves[:n]); got.String() != want {
			t.Errorf("head of %d leaves = %s, want %s", n, got, want)
		}
	}
}

func TestTreeAgainstRecursion(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	var leaves [][]byte
	for n := range 140 {
		if got, want := treeHead(t, leaves), headOf(leaves); got != want {
			t.Fatalf("head of %d leaves = %s, want %s", n, got, want)
		}
		leaf := make([]byte, rng.IntN(70))
		for i := range leaf {
			leaf[i] = byte(rng.Uint32())
		}
		leaves = append(leaves, leaf)
	}
}

func TestNodeHash(t *testing.T) {
	l, r := SumHash([]byte("l")), SumHash([]byte("r"))
	if got, want := Hash(nodeHash(l[:], r[:])), Hash(rfc6962.DefaultHasher.HashChildren(l[:], r[:])); got != want {
		t.Errorf("nodeHash = %s, want %s", got, want)
	}
}
