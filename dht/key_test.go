package dht

import (
	"bytes"
	"crypto/sha256"
	"math/big"
	"testing"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/peer"
	"pgregory.net/rapid"

	"github.com/pilotage-grid/pilotage/task"
)

var keys = rapid.Custom(func(t *rapid.T) (key Key) {
	copy(key[:], rapid.SliceOfN(rapid.SampledFrom([]byte{0, 1, 0x7f, 0x80, 0xff}), 32, 32).Draw(t, "key"))
	return key
})

func number(k Key) *big.Int { return new(big.Int).SetBytes(k[:]) }

func TestNeighboursOfAKey(t *testing.T) {
	last := number(WholeSpace().Last)
	rapid.Check(t, func(t *rapid.T) {
		key := keys.Draw(t, "key")
		after := new(big.Int).Add(number(key), big.NewInt(1))
		if after.Cmp(last) > 0 {
			after = last
		}
		before := new(big.Int).Sub(number(key), big.NewInt(1))
		if before.Sign() < 0 {
			before.SetInt64(0)
		}
		if number(key.next()).Cmp(after) != 0 || number(key.previous()).Cmp(before) != 0 {
			t.Fatalf("%x: next %x, previous %x", key, key.next(), key.previous())
		}
	})
	if end := WholeSpace().Last; end.next() != end || (Key{}).previous() != (Key{}) {
		t.Error("the space has ends")
	}
}

func TestRangesAndDistances(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := keys.Draw(t, "a"), keys.Draw(t, "b"), keys.Draw(t, "c")
		space := Range{a, b}
		inside := number(a).Cmp(number(c)) <= 0 && number(c).Cmp(number(b)) <= 0
		if space.Contains(c) != inside || !WholeSpace().Contains(c) {
			t.Fatalf("%x in %x..%x: %v", c, a, b, space.Contains(c))
		}
		near := new(big.Int).Xor(number(c), number(a)).Cmp(new(big.Int).Xor(number(c), number(b))) < 0
		if c.Closer(a, b) != near {
			t.Fatalf("closer to %x: %x or %x", c, a, b)
		}
		for i := range 256 {
			if c.bit(i) != (number(c).Bit(255-i) == 1) {
				t.Fatalf("bit %d of %x", i, c)
			}
		}
		if !bytes.Equal(number(c).FillBytes(make([]byte, 32))[:8], new(big.Int).SetUint64(c.Short()).FillBytes(make([]byte, 8))) {
			t.Fatalf("short form of %x is %x", c, c.Short())
		}
	})
}

// libp2p's Kademlia hashes the binary peer id.
func TestKeyOfPeerIsThatOfKademlia(t *testing.T) {
	_, public, err := crypto.GenerateEd25519Key(bytes.NewReader(bytes.Repeat([]byte{7}, 64)))
	if err != nil {
		t.Fatal(err)
	}
	id, err := peer.IDFromPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	if key := KeyOfPeer(task.PeerID(id.String())); key != sha256.Sum256([]byte(id)) {
		t.Errorf("%s has the key %x", id, key)
	}
}
