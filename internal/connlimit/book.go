package connlimit

import (
	"cmp"
	"iter"
	"maps"
	"slices"
)

// Limits of a listener; a zero one is none.
type Limits struct {
	InAll     int // connections of everybody
	Strangers int // of all who have not shown an access yet
	PerParty  int // of one party: who has shown the same access, or strangers of one address

	// What calls under way have brought, in bytes, and how much of a call waits
	// behind the message of it that is read.
	BytesInAll    int64
	BytesPerParty int64
	Window        int64
}

// party is who holds connections: an identity, or the strangers of one address.
type party struct {
	name     string
	stranger bool
}

// book knows who holds which connections, and how much by them. Where there are too many,
// the party with the most of them loses its oldest one, so a flood displaces its own
// connections before anybody else's; where they bring too much, the party with the most
// loses the connection with the most. It is not safe for concurrent use.
type book[C comparable] struct {
	limits    Limits
	holders   map[party][]C // the oldest first
	of        map[C]party
	strangers int

	bytes    map[C]int64
	bytesOf  map[party]int64
	bytesAll int64

	calls    map[C]int // open ones: until the whole answer has gone, or either side has given them up
	callsOf  map[party]int
	callsAll int
}

func newBook[C comparable](limits Limits) *book[C] {
	return &book[C]{
		limits: limits, holders: make(map[party][]C), of: make(map[C]party),
		bytes: make(map[C]int64), bytesOf: make(map[party]int64),
		calls: make(map[C]int), callsOf: make(map[party]int),
	}
}

// add books a connection, also one that changes hands, and returns the connection
// that has to go for it, if one has.
func (b *book[C]) add(c C, p party) (out C, over bool) {
	bytes, calls := b.bytes[c], b.calls[c]
	b.remove(c)
	b.of[c] = p
	b.holders[p] = append(b.holders[p], c)
	b.count(c, bytes)
	b.open(c, calls)
	if p.stranger {
		b.strangers++
	}
	switch l := b.limits; {
	case exceeds(len(b.holders[p]), l.PerParty):
		return b.holders[p][0], true
	case p.stranger && exceeds(b.strangers, l.Strangers):
		return b.oldestOfMost(true), true
	case exceeds(len(b.of), l.InAll):
		return b.oldestOfMost(false), true
	}
	return out, false
}

func exceeds[N int | int64](n, limit N) bool { return limit > 0 && n > limit }

// bring books what the calls of a connection have brought since, or have no more, and
// returns the connection that has to go for it, if one has.
func (b *book[C]) bring(c C, bytes int64) (out C, over bool) {
	p, known := b.of[c]
	if !known {
		return out, false
	}
	b.count(c, bytes)
	switch l := b.limits; {
	case bytes <= 0:
		return out, false
	case exceeds(b.bytesAll, l.BytesInAll):
		p = mostOf(maps.Keys(b.holders), b.bytesOf)
	case !exceeds(b.bytesOf[p], l.BytesPerParty):
		return out, false
	}
	return mostOf(slices.Values(b.holders[p]), b.bytes), true
}

// mostOf returns the one with the most bytes.
func mostOf[K comparable](all iter.Seq[K], bytes map[K]int64) (most K) {
	largest := int64(-1)
	for k := range all {
		if bytes[k] > largest {
			most, largest = k, bytes[k]
		}
	}
	return most
}

// open books calls that have begun, or have ended.
func (b *book[C]) open(c C, calls int) {
	p, known := b.of[c]
	if !known {
		return
	}
	b.calls[c] += calls
	b.callsOf[p] += calls
	b.callsAll += calls
}

func (b *book[C]) count(c C, bytes int64) {
	b.bytes[c] += bytes
	b.bytesOf[b.of[c]] += bytes
	b.bytesAll += bytes
}

// oldestOfMost returns the oldest connection of the party with the most of them, of
// all or among strangers; of equal parties strangers lose one, then the first by name.
func (b *book[C]) oldestOfMost(amongStrangers bool) C {
	var most party
	for p, held := range b.holders {
		if amongStrangers && !p.stranger {
			continue
		}
		if c := cmp.Compare(len(held), len(b.holders[most])); c > 0 || c == 0 && p.before(most) {
			most = p
		}
	}
	return b.holders[most][0]
}

func (p party) before(other party) bool {
	if p.stranger != other.stranger {
		return p.stranger
	}
	return p.name < other.name
}

// remove forgets a connection that has ended.
func (b *book[C]) remove(c C) {
	p, known := b.of[c]
	if !known {
		return
	}
	b.count(c, -b.bytes[c])
	delete(b.bytes, c)
	b.open(c, -b.calls[c])
	delete(b.calls, c)
	delete(b.of, c)
	if p.stranger {
		b.strangers--
	}
	left := b.holders[p]
	for i := range left {
		if left[i] == c {
			left = append(left[:i], left[i+1:]...)
			break
		}
	}
	if b.holders[p] = left; len(left) == 0 {
		delete(b.holders, p)
		delete(b.bytesOf, p)
		delete(b.callsOf, p)
	}
}
