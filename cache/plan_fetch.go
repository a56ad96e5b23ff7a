package cache

import (
	"fmt"
	"slices"
	"time"

	"github.com/pilotage-grid/pilotage/task"
)

// phase is where a fetch stands. unlocated -> locating -> queued; queued goes
// to moving (a transfer), asking (the home), resting (a pause) and comes back,
// or ends. stopping is moving that nobody wants any more.
type phase uint8

const (
	unlocated phase = iota
	locating
	queued
	asking
	moving
	resting
	stopping
)

// fetch is the getting of one file.
type fetch struct {
	key     task.FileKey
	file    task.File
	remote  bool // other sites' elements may be read
	waiters []uint64

	phase    phase
	wake     time.Time // when resting
	looked   time.Time // for holders; zero: a new round does so
	round    int
	transfer uint64 // when moving or stopping

	candidates []*candidate
	replicas   []*replica // the own site's first
	busySince  time.Time  // of this round; zero: nobody waited for
	vain       int        // transfers from peers that failed in this round

	ask      uint64
	asked    int       // questions of this round
	reserved task.Site // whose element counts the question as a read, or ""
	granted  bool      // by the home, or because it does not answer
	renewed  time.Time
	unheeded time.Time // when the home's consent is waited for no more; zero: not asked yet

	tries []Try
}

// candidate is a peer that may have the file.
type candidate struct {
	Holder
	fails     int
	notBefore time.Time
	out       bool // not to be tried until it is named again
	corrupt   bool // it sent wrong bytes: never
}

// replica is a copy on a storage element.
type replica struct {
	task.Replica
	spent bool // tried in this round
	out   bool // wrong bytes, or not there: never again
}

// maxCandidates bounds the peers remembered for one file.
const maxCandidates = 32

// learnFile takes in what a wish says of its file; later wishes may know more
// replicas.
func (f *fetch) learnFile(file task.File, remote bool, site task.Site) {
	if len(f.waiters) == 0 {
		f.file = file
	}
	f.remote = remote
	for _, r := range file.Replicas {
		known := slices.ContainsFunc(f.replicas, func(k *replica) bool { return k.URL == r.URL })
		if !known {
			f.replicas = append(f.replicas, &replica{Replica: r})
		}
	}
	slices.SortStableFunc(f.replicas, func(a, b *replica) int {
		return rankOf(a.Site, site) - rankOf(b.Site, site)
	})
}

func rankOf(owner, site task.Site) int {
	if owner == site {
		return 0
	}
	return 1
}

// nextReplica is the one to read next in this round, nil if none is left.
func (f *fetch) nextReplica(site task.Site) *replica {
	for _, r := range f.replicas {
		if !r.out && !r.spent && (f.remote || r.Site == site) {
			return r
		}
	}
	return nil
}

// learn takes in holders; one that is named again gets another chance unless
// it sent wrong bytes.
func (f *fetch) learn(holders []Holder, self task.PeerID) {
	for _, h := range holders {
		if h.Peer == self || h.Peer == "" || h.DataURL == "" {
			continue
		}
		c := f.candidate(h.Peer)
		switch {
		case c == nil && len(f.candidates) < maxCandidates:
			f.candidates = append(f.candidates, &candidate{Holder: h})
		case c == nil || c.corrupt:
		default:
			if c.out {
				c.out, c.fails = false, 0
			}
			c.DataURL = h.DataURL
		}
	}
}

func (f *fetch) candidate(peer task.PeerID) *candidate {
	for _, c := range f.candidates {
		if c.Peer == peer {
			return c
		}
	}
	return nil
}

// note remembers why a source did not give the file.
func (f *fetch) note(source, reason string) {
	for i := range f.tries {
		if f.tries[i].Source == source {
			f.tries[i].Reason = reason
			f.tries[i].Times++
			return
		}
	}
	f.tries = append(f.tries, Try{Source: source, Reason: reason, Times: 1})
}

func (r *replica) source() string {
	return fmt.Sprintf("storage element of %s %s", r.Site, r.URL)
}

// err is what the waiters are told when nothing is left to try.
func (f *fetch) err(site task.Site) *FetchError {
	e := &FetchError{File: f.file, Lost: true, Tries: slices.Clone(f.tries)}
	for _, r := range f.replicas {
		if !r.out {
			e.Lost = false
		}
		allowed := f.remote || r.Site == site
		e.Away = e.Away || allowed && !r.out
		if !allowed {
			e.Tries = append(e.Tries, Try{
				Source: r.source(), Reason: "not tried: reading other sites' storage elements is switched off for " + string(site), Times: 1,
			})
		}
	}
	return e
}
