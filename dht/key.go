package dht

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"math/bits"

	"github.com/mr-tron/base58"

	"github.com/pilotage-grid/pilotage/task"
)

// Key is a place in the 256-bit Kademlia key space, big-endian.
type Key [32]byte

// KeyOfPeer is a peer's Kademlia id: SHA-256 of the binary peer id, as in
// libp2p's Kademlia specification. A text that is no base58 is hashed as it
// stands (tests and simulations use plain names).
func KeyOfPeer(peer task.PeerID) Key {
	raw, err := base58.Decode(string(peer))
	if err != nil {
		raw = []byte(peer)
	}
	return sha256.Sum256(raw)
}

// KeyOfFile is where the locations of a file are kept.
func KeyOfFile(file task.FileKey) Key { return sha256.Sum256([]byte(file)) }

// Compare orders keys as big-endian numbers.
func (k Key) Compare(other Key) int { return bytes.Compare(k[:], other[:]) }

// Less tells whether k is the lower id.
func (k Key) Less(other Key) bool { return k.Compare(other) < 0 }

// Closer tells whether a is nearer to k than b by the XOR metric.
func (k Key) Closer(a, b Key) bool {
	for i := range k {
		da, db := a[i]^k[i], b[i]^k[i]
		if da != db {
			return da < db
		}
	}
	return false
}

// bit returns one of the key's 256 bits, the most significant first.
func (k Key) bit(i int) bool { return k[i/8]&(0x80>>(i%8)) != 0 }

// Common is how many first bits two keys share.
func (k Key) Common(other Key) int {
	for i := range k {
		if k[i] != other[i] {
			return i*8 + bits.LeadingZeros8(k[i]^other[i])
		}
	}
	return len(k) * 8
}

// prefix is the range of the keys that share so many first bits with k.
func (k Key) prefix(bits int) Range {
	r := Range{k, k}
	for i := bits; i < len(k)*8; i++ {
		r.First[i/8] &^= 0x80 >> (i % 8)
		r.Last[i/8] |= 0x80 >> (i % 8)
	}
	return r
}

// Short is the key's first 64 bits, enough to name a member of a site.
func (k Key) Short() uint64 {
	var short uint64
	for _, b := range k[:8] {
		short = short<<8 | uint64(b)
	}
	return short
}

func (k Key) String() string { return hex.EncodeToString(k[:4]) }

// Range is a stretch of the key space, both ends included.
type Range struct {
	First Key
	Last  Key
}

// WholeSpace is every key.
func WholeSpace() Range {
	var r Range
	for i := range r.Last {
		r.Last[i] = 0xff
	}
	return r
}

// Contains tells whether a key lies in the range.
func (r Range) Contains(k Key) bool { return !k.Less(r.First) && !r.Last.Less(k) }

// middle is the first key of the range's upper half: where the ids of its ends
// differ first, it has a one, and zeros follow.
func (r Range) middle() Key {
	var middle Key
	for i := range len(middle) * 8 {
		if r.Last.bit(i) {
			middle[i/8] |= 0x80 >> (i % 8)
		}
		if r.First.bit(i) != r.Last.bit(i) {
			break
		}
	}
	return middle
}

// previous is the key before k; the key before the first one is the first.
func (k Key) previous() Key {
	for i := len(k) - 1; i >= 0; i-- {
		k[i]--
		if k[i] != 0xff {
			return k
		}
	}
	return Key{}
}
