package dht

import (
	"slices"
	"time"

	"github.com/pilotage-grid/pilotage/task"
)

// lost is a member that the master takes for dead without having heard a
// goodbye. It may live on the other side of a partition, perhaps under a
// master of its own: then a word after the partition has healed brings both
// parts together.
type lost struct {
	member Member
	since  time.Time
}

const (
	// mostLost bounds the lost members that are remembered: one that answers
	// is enough, it knows its own part of the site.
	mostLost = 64
	// lostFor is how long they are remembered.
	lostFor = 30 * time.Minute
	// lostAtOnce is how many are tried at each roll call, whose tries go to
	// dead hosts for the most part.
	lostAtOnce = 2
)

func (o *Overlay) lose(m Member) {
	o.forgetLost(m.Peer)
	o.lost = append(o.lost, lost{m, o.now})
	if extra := len(o.lost) - mostLost; extra > 0 {
		o.lost = slices.Delete(o.lost, 0, extra)
	}
}

func (o *Overlay) forgetLost(peer task.PeerID) {
	o.lost = slices.DeleteFunc(o.lost, func(l lost) bool { return l.member.Peer == peer })
}

// seekLost dials some of the lost, in turn.
func (o *Overlay) seekLost() {
	o.lost = slices.DeleteFunc(o.lost, func(l lost) bool { return o.now.Sub(l.since) > lostFor || o.denied[l.member.Peer] })
	for range min(lostAtOnce, len(o.lost)) {
		next := o.lost[0]
		o.lost = append(o.lost[1:], next)
		o.act(Dial{Member: next.member, Afresh: true})
	}
}

// foundLost tells a lost member that could be dialled who is master here.
func (o *Overlay) foundLost(peer task.PeerID) {
	if slices.ContainsFunc(o.lost, func(l lost) bool { return l.member.Peer == peer }) {
		o.send(peer, Office{Term: o.office.term, Master: o.self})
	}
}
