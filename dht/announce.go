package dht

import (
	"maps"
	"slices"
	"time"

	"github.com/pilotage-grid/pilotage/task"
)

// announcer keeps the site informed of the files that this member holds: in
// batches, acknowledged, and renewed. Who comes near a file later gets its records
// from those who keep them. What is not due costs nothing.
type announcer struct {
	config  Config
	held    map[task.FileKey]*holding
	due     agenda
	seq     uint64
	batches map[uint64]*batch
	count   uint64
	met     time.Time // when all is, or was last, renewed because parts of the site met
}

// holding is one file's state at the announcer.
type holding struct {
	file  task.FileKey
	key   Key
	seq   uint64
	gone  bool
	told  []told
	due   time.Time // when it is looked at
	place int       // in the agenda
}

// told is what a member knows of a holding.
type told struct {
	peer  task.PeerID
	sent  uint64    // sequence number of the last word to it
	acked uint64    // of the last word that it acknowledged
	at    time.Time // when that word was sent
	waits bool      // an acknowledgement is under way
}

// batch is a Put under way.
type batch struct {
	to       task.PeerID
	holdings []*holding
	seqs     []uint64
	deadline time.Time
}

// maxBatch bounds the locations in one Put.
const maxBatch = 1000

func (a *announcer) init(config Config) {
	a.config = config
	a.held = make(map[task.FileKey]*holding)
	a.batches = make(map[uint64]*batch)
}

// soon is when to look at what has changed: together with what else does.
func (a *announcer) soon(now time.Time) time.Time { return now.Add(a.config.Locations.AnnounceDelay) }

// add takes files that are held from now on.
func (a *announcer) add(now time.Time, files []task.FileKey) {
	due := a.soon(now)
	for _, file := range files {
		h := a.held[file]
		switch {
		case h == nil:
			h = &holding{file: file, key: KeyOfFile(file), place: nowhere}
			a.held[file] = h
		case !h.gone:
			continue
		}
		a.seq++
		h.seq, h.gone = a.seq, false
		a.due.put(h, due)
	}
}

// remove takes files that are held no more. Whoever may have heard of them
// must hear that; what nobody heard of is forgotten.
func (a *announcer) remove(now time.Time, files []task.FileKey) {
	due := a.soon(now)
	for _, file := range files {
		h := a.held[file]
		if h == nil || h.gone {
			continue
		}
		a.seq++
		h.seq, h.gone = a.seq, true
		if len(h.told) == 0 {
			a.forget(h)
			continue
		}
		a.due.put(h, due)
	}
}

func (a *announcer) forget(h *holding) {
	delete(a.held, h.file)
	a.due.drop(h)
}

// keeperGone tells of the files whose location a lost member kept whoever is next in
// line: the other keepers do so as well, where they know everybody around.
func (a *announcer) keeperGone(now time.Time, peer task.PeerID) {
	for _, h := range a.held {
		if t := h.of(peer); t != nil {
			if !h.gone {
				t.acked = 0 // should it come back, it is told again
			}
			a.due.hasten(h, a.soon(now))
		}
	}
}

// renew tells the keepers of all files once more, after a while.
func (a *announcer) renew(now time.Time, after time.Duration) {
	for _, h := range a.held {
		for i := range h.told {
			h.told[i].acked = 0
		}
		a.due.hasten(h, a.soon(now.Add(after)))
	}
}

// partsMet renews after a while, and some time after it did so last: members that come
// and go all the time cost no more than that.
func (a *announcer) partsMet(now time.Time, after time.Duration) {
	if !now.Before(a.met) {
		soonest := a.met.Add(a.config.Locations.Reannounce / 5)
		if a.met = now.Add(after); a.met.Before(soonest) {
			a.met = soonest
		}
	}
	a.renew(now, a.met.Sub(now))
}

func (h *holding) of(peer task.PeerID) *told {
	for i := range h.told {
		if h.told[i].peer == peer {
			return &h.told[i]
		}
	}
	return nil
}

// note finds what a member knows of a holding, or begins with nothing.
func (h *holding) note(peer task.PeerID) *told {
	if h.of(peer) == nil {
		h.told = append(h.told, told{peer: peer})
	}
	return h.of(peer)
}

func (a *announcer) deadline() time.Time {
	first := a.due.next()
	for _, b := range a.batches {
		first = earlier(first, b.deadline)
	}
	return first
}

// acknowledged takes the word of a keeper that it knows a batch, and which of it the
// others of the nearest know from the keeper.
func (a *announcer) acknowledged(now time.Time, m *membership, from task.PeerID, ack PutAck) {
	b := a.batches[ack.N]
	if b == nil || b.to != from {
		return
	}
	delete(a.batches, ack.N)
	for i, h := range b.holdings {
		t := h.of(from)
		if t == nil || t.sent != b.seqs[i] {
			continue
		}
		t.acked, t.waits = t.sent, false
		if slices.Contains(ack.Passed, uint64(i)) {
			h.passedOn(b.seqs[i], now, m, ack.Near)
		}
		if a.held[h.file] == h {
			a.due.hasten(h, a.soon(now)) // there may be nearer ones now, or nobody else that has to know
		}
	}
}

// passedOn notes that a keeper has told the nearest of those that it named.
func (h *holding) passedOn(seq uint64, now time.Time, m *membership, named []Member) {
	for _, e := range m.nearest(now, h.key, m.config.Locations.Replicas) {
		peer := e.member.Peer
		if slices.ContainsFunc(named, func(other Member) bool { return other.Peer == peer }) {
			t := h.note(peer)
			t.sent, t.acked, t.at = seq, seq, now
		}
	}
}

// noAnswer gives up the acknowledgements that a peer owes.
func (a *announcer) noAnswer(now time.Time, m *membership, peer task.PeerID) {
	a.expire(now, m, func(b *batch) bool { return b.to == peer })
}

// expire gives up batches and suspects those that owe an acknowledgement.
func (a *announcer) expire(now time.Time, m *membership, over func(*batch) bool) {
	for _, n := range slices.Sorted(maps.Keys(a.batches)) {
		if b := a.batches[n]; over(b) {
			m.distrust(now, b.to)
			delete(a.batches, n)
			a.sendAgain(now, b)
		}
	}
}

func (a *announcer) sendAgain(now time.Time, b *batch) {
	for i, h := range b.holdings {
		if t := h.of(b.to); t != nil && t.sent == b.seqs[i] {
			t.waits = false
		}
		if a.held[h.file] == h {
			a.due.hasten(h, a.soon(now))
		}
	}
}

// pass sends what is due, and sends again what was not acknowledged in time, to
// whoever is nearest by then.
func (a *announcer) pass(s *step, m *membership, kept *records) {
	if len(a.batches) > 0 {
		a.expire(s.now, m, func(b *batch) bool { return !s.now.Before(b.deadline) })
	}
	due := a.due.take(s.now)
	if len(due) == 0 {
		return
	}
	outgoing := make(map[task.PeerID][]*holding)
	for _, h := range due {
		a.announce(s.now, m, h, outgoing)
	}
	for _, peer := range slices.Sorted(maps.Keys(outgoing)) {
		for holdings := range slices.Chunk(outgoing[peer], maxBatch) {
			if peer == m.self.Peer {
				kept.put(s.now, m.self.Peer, a.recordsOf(m.self, holdings))
				continue
			}
			a.put(s, m, peer, holdings)
		}
	}
}

// announce lists whom a holding has to be sent to and says when to look again.
func (a *announcer) announce(now time.Time, m *membership, h *holding, outgoing map[task.PeerID][]*holding) {
	again := a.repeat(now, m.key, h)
	nearest := m.known.nearest(h.key, a.config.Locations.Replicas, func(e *entry) bool {
		if m.unreachable(now, e.member.Peer) {
			again = earlier(again, m.suspects[e.member.Peer].until)
			return true
		}
		return m.passesOver(now, e)
	})
	sure := m.sure(now, h.key) || len(nearest) > 0 && a.knows(now, h, h.note(nearest[0].member.Peer))
	for _, e := range nearest {
		h.note(e.member.Peer)
		a.tell(now, m, h, e.member.Peer, outgoing)
		if !sure && e.member.Peer != m.self.Peer {
			break // it passes it on, or says who is nearer
		}
	}
	if h.gone {
		var finished bool
		if again, finished = a.withdraw(now, m, h, outgoing, again); finished {
			a.forget(h)
			return
		}
	}
	h.told = slices.DeleteFunc(h.told, func(t told) bool { return !t.waits && t.expired(now, a.config.Locations.TTL) })
	a.due.put(h, again)
}

// withdraw goes after everybody else who heard of a file. It is finished when
// all of them know, or have forgotten the file themselves.
func (a *announcer) withdraw(now time.Time, m *membership, h *holding, outgoing map[task.PeerID][]*holding, again time.Time) (time.Time, bool) {
	finished := true
	for _, t := range slices.Clone(h.told) {
		switch {
		case t.acked == h.seq || t.expired(now, a.config.Locations.TTL):
			continue
		case m.unreachable(now, t.peer):
			again = earlier(again, m.suspects[t.peer].until)
		default:
			a.tell(now, m, h, t.peer, outgoing)
		}
		if after := h.of(t.peer); after.acked != h.seq {
			finished = false
			again = earlier(again, after.expires(a.config.Locations.TTL))
		}
	}
	return again, finished
}

func (t told) expires(ttl time.Duration) time.Time { return t.at.Add(ttl) }

// expired tells whether a member has forgotten what it was told.
func (t told) expired(now time.Time, ttl time.Duration) bool {
	return !t.at.IsZero() && !now.Before(t.expires(ttl))
}

// tell sends a holding to a member that does not know it, or was told long
// ago.
func (a *announcer) tell(now time.Time, m *membership, h *holding, peer task.PeerID, outgoing map[task.PeerID][]*holding) {
	t := h.of(peer)
	if t.sent == h.seq && (t.waits || a.knows(now, h, t)) {
		return
	}
	t.sent, t.at, t.waits = h.seq, now, true
	if peer == m.self.Peer {
		t.acked, t.waits = h.seq, false
	}
	outgoing[peer] = append(outgoing[peer], h)
}

// knows tells whether a member has acknowledged the last word on a holding, and not so
// long ago that it is to hear it again.
func (a *announcer) knows(now time.Time, h *holding, t *told) bool {
	fresh := !t.at.IsZero() && now.Sub(t.at) < a.config.Locations.Reannounce/2
	return t.acked == h.seq && (fresh || h.gone)
}

func (a *announcer) recordsOf(self Member, holdings []*holding) []Record {
	list := make([]Record, len(holdings))
	for i, h := range holdings {
		list[i] = Record{File: h.file, Holder: self.Peer, DataURL: self.DataURL, Seq: h.seq, Gone: h.gone, TTL: a.config.Locations.TTL}
	}
	return list
}

// put sends one batch and waits for its acknowledgement.
func (a *announcer) put(s *step, m *membership, peer task.PeerID, holdings []*holding) {
	b := &batch{to: peer, holdings: holdings, deadline: s.now.Add(a.config.PingTimeout)}
	for _, h := range holdings {
		b.seqs = append(b.seqs, h.seq)
	}
	a.count++
	a.batches[a.count] = b
	sure := !slices.ContainsFunc(holdings, func(h *holding) bool { return !m.sure(s.now, h.key) })
	s.send(peer, Put{N: a.count, Records: a.recordsOf(m.self, holdings), Sure: sure})
}

// repeat is when a holding is announced again: at one of ten moments of the
// period, so that many go in one batch, and at other moments than other
// members do.
func (a *announcer) repeat(now time.Time, own Key, h *holding) time.Time {
	if h.gone {
		return time.Time{}
	}
	grid := max(a.config.Locations.Reannounce/10, 1)
	offset := time.Duration(own.Short() % uint64(grid))
	return now.Add(a.config.Locations.Reannounce - offset).Truncate(grid).Add(offset)
}

// keepers are the members that keep this pilot's locations.
func (a *announcer) keepers() []task.PeerID {
	keepers := make(map[task.PeerID]bool)
	for _, h := range a.held {
		for _, t := range h.told {
			keepers[t.peer] = true
		}
	}
	return slices.Sorted(maps.Keys(keepers))
}
