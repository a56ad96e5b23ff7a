package dht

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
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

func TestTheKeyBefore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		key := keys.Draw(t, "key")
		before := new(big.Int).Sub(number(key), big.NewInt(1))
		if before.Sign() < 0 {
			before.SetInt64(0)
		}
		if number(key.previous()).Cmp(before) != 0 {
			t.Fatalf("%x: previous %x", key, key.previous())
		}
	})
	if (Key{}).previous() != (Key{}) {
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

func TestPrefixesAreWhatKeysHaveInCommon(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := keys.Draw(t, "a"), keys.Draw(t, "b")
		b[0] = a[0] // else they rarely share much
		bits := a.Common(b)
		if bits != b.Common(a) || !a.prefix(bits).Contains(b) || bits < 256 && a.prefix(bits+1).Contains(b) {
			t.Fatalf("%x and %x share %d bits", a, b, bits)
		}
	})
	if !(Key{}).prefix(0).Contains(WholeSpace().Last) || (Key{}).Common(Key{}) != 256 {
		t.Error("the ends")
	}
}

func TestTheBottomIsTheBottom(t *testing.T) {
	digest := KeyOfFile(Bottom)
	if first := binary.BigEndian.Uint32(digest[:]); first != 0 {
		t.Errorf("the digest of %q begins with %08x", Bottom, first)
	}
}
