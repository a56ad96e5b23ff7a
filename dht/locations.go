package dht

import (
	"maps"
	"slices"
	"time"

	"github.com/pilotage-grid/pilotage/task"
)

// locations is the part that knows who holds which file: it announces this
// pilot's own files, keeps records of others' for the site, and searches.
type locations struct {
	config    Config
	announced announcer
	records   records
	finder    finder
}

func (l *locations) init(config Config) {
	l.config = config
	l.announced.init(config)
	l.records.init(config)
	l.finder.init(config)
}

// added hears of members that are new, or not suspected any more.
func (l *locations) added(now time.Time, members []*entry) {
	for _, e := range members {
		l.records.show(e.member.Peer)
	}
	l.announced.membersAdded(now, members)
}

// away points nobody to the files of those who are gone, or not listed yet.
// What they were told of this pilot's own files they are told again, or whoever
// is near instead.
func (l *locations) away(now time.Time, peer task.PeerID) {
	l.records.hide(now, peer)
	l.announced.memberGone(now, peer)
}

// noAnswer goes on without the answers that a peer owes.
func (l *locations) noAnswer(s *step, m *membership, peer task.PeerID) {
	l.announced.noAnswer(s.now, m, peer)
	l.finder.noAnswer(s, peer)
}

// handOver sends the records of other holders to those members that become
// nearest once this pilot is gone, and tells who they are.
func (l *locations) handOver(s *step, m *membership) (heirs []task.PeerID) {
	skip := func(peer task.PeerID) bool { return peer == m.self.Peer || m.unreachable(s.now, peer) }
	batches := make(map[task.PeerID][]Record)
	for _, record := range l.records.all(s.now) {
		if record.Holder == m.self.Peer {
			continue
		}
		nearest := m.known().nearest(KeyOfFile(record.File), l.config.Locations.Replicas, skip)
		if len(nearest) == l.config.Locations.Replicas {
			nearest = nearest[len(nearest)-1:] // the nearer ones have it already
		}
		for _, heir := range nearest {
			batches[heir.member.Peer] = append(batches[heir.member.Peer], record)
		}
	}
	heirs = slices.Sorted(maps.Keys(batches))
	for _, peer := range heirs {
		for records := range slices.Chunk(batches[peer], maxBatch) {
			s.send(peer, Put{Records: records})
		}
	}
	return heirs
}
