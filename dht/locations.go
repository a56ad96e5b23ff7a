package dht

import (
	"maps"
	"slices"

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

// near names those that are nearest to some files, to an asker who is not sure of
// them.
func (l *locations) near(s *step, m *membership, asker task.PeerID, sure bool, files []task.FileKey) []Member {
	if sure {
		return nil
	}
	return m.near(s.now, asker, files)
}

func filesOf(records []Record) []task.FileKey {
	files := make([]task.FileKey, len(records))
	for i, r := range records {
		files[i] = r.File
	}
	return files
}

// noAnswer goes on without the answers that a peer owes.
func (l *locations) noAnswer(s *step, m *membership, peer task.PeerID) {
	l.announced.noAnswer(s.now, m, peer)
	l.finder.noAnswer(s, m, peer)
}

// passOn gives the others of the nearest what a holder has announced that does not know
// who they are: a pilot speaks often with its neighbours, and the holder would need a new
// connection to each. It tells which records that were, by place.
func (l *locations) passOn(s *step, m *membership, from task.PeerID, e Put) (passed []uint64) {
	if e.Sure {
		return nil
	}
	batches := make(map[task.PeerID][]Record)
	for i, r := range e.Records {
		key := KeyOfFile(r.File)
		nearest := m.nearest(s.now, key, l.config.Locations.Replicas)
		mine := slices.ContainsFunc(nearest, func(e *entry) bool { return e.member.Peer == m.self.Peer })
		if r.Gone || r.Holder != from || !mine || !m.sure(s.now, key) {
			continue
		}
		passed = append(passed, uint64(i))
		for _, other := range nearest {
			if peer := other.member.Peer; peer != from {
				batches[peer] = append(batches[peer], r)
			}
		}
	}
	l.send(s, m, batches)
	return passed
}

// handOverTo gives a neighbour that has come the records of the files that it is
// one of the nearest to.
func (l *locations) handOverTo(s *step, m *membership, e *entry) {
	l.handSome(s, m, e.key, func(nearest []*entry) []*entry {
		if slices.Contains(nearest, e) {
			return []*entry{e}
		}
		return nil
	})
}

// inherit gives the records of a neighbour that is gone to those that are next in
// line.
func (l *locations) inherit(s *step, m *membership, gone Key) {
	l.handSome(s, m, gone, func(nearest []*entry) []*entry { return nearest[len(nearest)-1:] })
}

// handSome hands over records that a change in this pilot's neighbourhood concerns:
// those of files that the changed member is, or was, as near to as the keepers.
func (l *locations) handSome(s *step, m *membership, changed Key, heirs func(nearest []*entry) []*entry) {
	if !m.sure(s.now, changed) {
		return
	}
	batches := make(map[task.PeerID][]Record)
	for file := range l.records.byFile {
		key := KeyOfFile(file)
		if !m.sure(s.now, key) {
			continue
		}
		nearest := m.nearest(s.now, key, l.config.Locations.Replicas)
		if last := nearest[len(nearest)-1].key; last != changed && key.Closer(last, changed) {
			continue
		}
		for _, heir := range heirs(nearest) {
			batches[heir.member.Peer] = append(batches[heir.member.Peer], l.records.of(s.now, file)...)
		}
	}
	l.send(s, m, batches)
}

// handOver sends all records to those members that become nearest once this pilot
// is gone, and tells who they are.
func (l *locations) handOver(s *step, m *membership) (heirs []task.PeerID) {
	batches := make(map[task.PeerID][]Record)
	for file := range l.records.byFile {
		nearest := m.known.nearest(KeyOfFile(file), l.config.Locations.Replicas, func(e *entry) bool {
			return e.member.Peer == m.self.Peer || m.passesOver(s.now, e)
		})
		if len(nearest) == l.config.Locations.Replicas {
			nearest = nearest[len(nearest)-1:] // the nearer ones have it already
		}
		others := slices.DeleteFunc(l.records.of(s.now, file), func(r Record) bool { return r.Holder == m.self.Peer })
		for _, heir := range nearest {
			batches[heir.member.Peer] = append(batches[heir.member.Peer], others...)
		}
	}
	return l.send(s, m, batches)
}

// send hands records over: nobody waits for an answer, for whoever has a file
// announces it again.
func (l *locations) send(s *step, m *membership, batches map[task.PeerID][]Record) (heirs []task.PeerID) {
	for _, peer := range slices.Sorted(maps.Keys(batches)) {
		records := batches[peer]
		if peer == m.self.Peer || len(records) == 0 {
			continue
		}
		slices.SortFunc(records, byFileAndHolder)
		heirs = append(heirs, peer)
		for some := range slices.Chunk(records, maxBatch) {
			s.send(peer, Put{Records: some, Sure: true})
		}
	}
	return heirs
}
