package dht

import (
	"slices"
	"time"

	"github.com/pilotage-grid/pilotage/task"
)

// announcer keeps the site informed of the files that this member holds: in
// batches, acknowledged, repeated, and sent on when the nearest members of a
// file change.
type announcer struct {
	held    map[task.FileKey]*holding
	seq     uint64
	due     time.Time // when something has to be looked at; zero: nothing
	batches map[uint64]*batch
	count   uint64
}

// holding is one file's state at the announcer.
type holding struct {
	seq   uint64
	gone  bool
	dirty bool                      // wants attention now
	next  time.Time                 // repeated then
	told  map[task.PeerID]time.Time // acknowledged by
}

// batch is a Put under way.
type batch struct {
	to       task.PeerID
	files    []task.FileKey
	seqs     []uint64
	deadline time.Time
}

// maxBatch bounds the locations in one Put.
const maxBatch = 1000

func (a *announcer) init() {
	a.held = make(map[task.FileKey]*holding)
	a.batches = make(map[uint64]*batch)
}

func (a *announcer) add(due time.Time, files []task.FileKey) { a.set(due, files, false) }

func (a *announcer) remove(due time.Time, files []task.FileKey) { a.set(due, files, true) }

func (a *announcer) set(due time.Time, files []task.FileKey, gone bool) {
	for _, file := range files {
		h := a.held[file]
		if h == nil && gone {
			continue
		}
		if h != nil && h.gone == gone {
			continue
		}
		a.seq++
		told := make(map[task.PeerID]time.Time)
		if gone && h != nil {
			// Whoever was told of the file must hear that it is gone.
			for peer := range h.told {
				told[peer] = time.Time{}
			}
		}
		a.held[file] = &holding{seq: a.seq, gone: gone, dirty: true, told: told}
	}
	a.hurry(due)
}

func (a *announcer) hurry(due time.Time) {
	if a.due.IsZero() || due.Before(a.due) {
		a.due = due
	}
}

// membersChanged has every file's nearest members looked at again.
func (a *announcer) membersChanged(due time.Time) {
	if len(a.held) == 0 {
		return
	}
	for _, h := range a.held {
		h.dirty = true
	}
	a.hurry(due)
}

func (a *announcer) deadline() time.Time {
	first := a.due
	for _, b := range a.batches {
		if first.IsZero() || b.deadline.Before(first) {
			first = b.deadline
		}
	}
	return first
}

func (a *announcer) acknowledged(from task.PeerID, n uint64) {
	b := a.batches[n]
	if b == nil || b.to != from {
		return
	}
	delete(a.batches, n)
	for i, file := range b.files {
		h := a.held[file]
		if h == nil || h.seq != b.seqs[i] {
			continue
		}
		h.told[from] = b.deadline
		if h.gone {
			h.dirty = true // perhaps that was the last one to know
			a.hurry(b.deadline)
		}
	}
}

// passAnnouncements sends what is due, and sends again what was not
// acknowledged in time, to whoever is nearest by then.
func (o *Overlay) passAnnouncements() {
	a := &o.announced
	for _, n := range sortedNumbers(a.batches) {
		b := a.batches[n]
		if o.now.Before(b.deadline) {
			continue
		}
		delete(a.batches, n)
		o.distrust(b.to)
		for _, file := range b.files {
			if h := a.held[file]; h != nil {
				h.dirty = true
			}
		}
		a.hurry(o.now)
	}
	if a.due.IsZero() || o.now.Before(a.due) || o.leaving {
		return
	}
	a.due = time.Time{}
	o.announce()
	if len(a.held) > 0 {
		a.hurry(o.now.Add(o.config.Reannounce / 10))
	}
}

// announce writes every holding that wants attention to the nearest members
// that have not acknowledged it lately.
func (o *Overlay) announce() {
	a := &o.announced
	outgoing := make(map[task.PeerID][]task.FileKey)
	for _, file := range sortedFiles(a.held) {
		h := a.held[file]
		if !h.dirty && o.now.Before(h.next) {
			continue
		}
		h.dirty, h.next = false, o.now.Add(o.config.Reannounce)
		waiting := false
		for _, peer := range o.audience(file, h) {
			if at, known := h.told[peer]; known && !at.IsZero() && o.now.Sub(at) < o.config.Reannounce {
				continue
			}
			if peer == o.self.Peer {
				o.records.put(o.now, []Record{o.announced.record(o.self, file, h, o.config.LocationTTL)})
				h.told[peer] = o.now
				continue
			}
			waiting = true
			outgoing[peer] = append(outgoing[peer], file)
		}
		if h.gone && !waiting {
			delete(a.held, file) // everybody knows
		}
	}
	for _, peer := range sortedPeers(outgoing) {
		for files := range slices.Chunk(outgoing[peer], maxBatch) {
			o.put(peer, files)
		}
	}
}

// audience is who has to know of a holding: the nearest members, and of a
// withdrawal also everybody else who was told of the file.
func (o *Overlay) audience(file task.FileKey, h *holding) []task.PeerID {
	var peers []task.PeerID
	for _, m := range o.Nearest(file, o.config.Replicas) {
		peers = append(peers, m.Peer)
	}
	if h.gone {
		for _, peer := range sortedPeers(h.told) {
			if _, member := o.Member(peer); member && !slices.Contains(peers, peer) && !o.unreachable(peer) {
				peers = append(peers, peer)
			}
		}
	}
	return peers
}

func (a *announcer) record(self Member, file task.FileKey, h *holding, ttl time.Duration) Record {
	return Record{File: file, Holder: self.Peer, DataURL: self.DataURL, Seq: h.seq, Gone: h.gone, TTL: ttl}
}

// put sends one batch and waits for its acknowledgement.
func (o *Overlay) put(peer task.PeerID, files []task.FileKey) {
	a := &o.announced
	b := &batch{to: peer, files: files, deadline: o.now.Add(o.config.PingTimeout)}
	records := make([]Record, len(files))
	for i, file := range files {
		h := a.held[file]
		b.seqs = append(b.seqs, h.seq)
		records[i] = a.record(o.self, file, h, o.config.LocationTTL)
	}
	a.count++
	a.batches[a.count] = b
	o.send(peer, Put{N: a.count, Records: records})
}

func sortedFiles[V any](m map[task.FileKey]V) []task.FileKey {
	files := make([]task.FileKey, 0, len(m))
	for file := range m {
		files = append(files, file)
	}
	slices.Sort(files)
	return files
}

func sortedNumbers[V any](m map[uint64]V) []uint64 {
	numbers := make([]uint64, 0, len(m))
	for n := range m {
		numbers = append(numbers, n)
	}
	slices.Sort(numbers)
	return numbers
}
