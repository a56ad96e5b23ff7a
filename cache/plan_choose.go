package cache

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/pilotage-grid/pilotage/task"
)

// lookAhead is how many fetches that wait for one peer or element are looked
// past for one that can go on.
const lookAhead = 256

// enqueue lets a fetch take its next step in its turn; one that holds a grant
// goes first, since others wait for it.
func (p *Planner) enqueue(f *fetch) {
	f.phase = queued
	if f.granted {
		p.queue = slices.Insert(p.queue, 0, f.key)
		p.wakeAt(p.now.Add(p.config.RenewEvery), f.key)
		return
	}
	p.queue = append(p.queue, f.key)
}

// dispatch lets queued fetches go on as the limits allow.
func (p *Planner) dispatch() {
	var blocked []task.FileKey
	rest := p.queue
	for len(rest) > 0 && len(p.transfers) < p.config.MaxTransfers && len(blocked) < lookAhead {
		f := p.fetches[rest[0]]
		rest = rest[1:]
		if f == nil || f.phase != queued {
			continue
		}
		p.choose(f)
		if f.phase == queued && p.fetches[f.key] == f {
			blocked = append(blocked, f.key)
		}
	}
	if len(blocked) > 0 {
		rest = append(blocked, rest...)
	}
	p.queue = rest
}

// choose takes the next step of a fetch, or leaves it queued when a limit
// stands in the way.
func (p *Planner) choose(f *fetch) {
	if f.granted {
		p.readStorage(f)
		return
	}
	able, limited, next := p.sortPeers(f)
	if f.vain >= p.config.PeersInVain && f.nextReplica(p.config.Site) != nil {
		p.readStorage(f)
		return
	}
	switch {
	case len(able) > 0:
		p.startPeers(f, able)
	case limited:
	case !next.IsZero() && p.patient(f):
		p.sleep(f, earlier(next, f.busySince.Add(p.patience(f))))
	default:
		p.readStorage(f)
	}
}

// sortPeers returns the candidates that can be asked now, whether others could
// but for the limit per peer, and when the next of the rest can (zero: never). Those
// that are shunned are asked only where there is nothing else to read.
func (p *Planner) sortPeers(f *fetch) (able []*candidate, limited bool, next time.Time) {
	able, limited, next = p.sort(f, func(state *peerState) bool { return !state.shunned.After(p.now) })
	if len(able) == 0 && !limited && next.IsZero() && f.nextReplica(p.config.Site) == nil {
		return p.sort(f, func(*peerState) bool { return true })
	}
	return able, limited, next
}

func (p *Planner) sort(f *fetch, asked func(*peerState) bool) (able []*candidate, limited bool, next time.Time) {
	for _, c := range f.candidates {
		if c.out {
			continue
		}
		from := c.notBefore
		inFlight := 0
		if state := p.peers[c.Peer]; state != nil {
			inFlight = state.inFlight
			if !asked(state) {
				continue
			}
			from = later(from, state.busyUntil)
		}
		switch {
		case from.After(p.now):
			if next.IsZero() || from.Before(next) {
				next = from
			}
		case inFlight >= p.config.MaxPerPeer:
			limited = true
		default:
			able = append(able, c)
		}
	}
	return able, limited, next
}

// patient tells whether to go on waiting for busy and silent peers.
func (p *Planner) patient(f *fetch) bool {
	if f.busySince.IsZero() {
		f.busySince = p.now
	}
	return p.now.Before(f.busySince.Add(p.patience(f)))
}

func (p *Planner) patience(f *fetch) time.Duration {
	if f.nextReplica(p.config.Site) == nil {
		return p.config.BusyLimit
	}
	return p.config.BusyPatience
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// startPeers begins a transfer: from the less loaded of two candidates taken
// at random, which spreads the load without a survey of it; of a large file
// from the least loaded four.
func (p *Planner) startPeers(f *fetch, able []*candidate) {
	p.random.Shuffle(len(able), func(i, j int) { able[i], able[j] = able[j], able[i] })
	count := 1
	if f.file.Size >= p.config.PartsFrom {
		count = p.config.MaxSources
	} else {
		able = able[:min(2, len(able))]
	}
	slices.SortStableFunc(able, func(a, b *candidate) int { return cmp.Compare(p.load(a.Peer), p.load(b.Peer)) })
	t := &transfer{key: f.key}
	for _, c := range able[:min(count, len(able))] {
		p.peer(c.Peer).inFlight++
		t.holders = append(t.holders, c.Holder)
	}
	p.start(f, t)
	p.emit(TransferFromPeers{Transfer: f.transfer, File: f.file, Holders: t.holders})
}

func (p *Planner) start(f *fetch, t *transfer) {
	f.phase, f.transfer = moving, p.next()
	p.transfers[f.transfer] = t
}

// load is known from what this pilot fetches there and how often it was told
// that the peer is busy.
func (p *Planner) load(peer task.PeerID) int {
	state := p.peers[peer]
	if state == nil {
		return 0
	}
	return state.inFlight + p.config.MaxPerPeer*state.busy
}

func (p *Planner) peer(peer task.PeerID) *peerState {
	state := p.peers[peer]
	if state == nil {
		if len(p.peers) >= maxPeers {
			maps.DeleteFunc(p.peers, func(_ task.PeerID, s *peerState) bool { return s.idle(p.now) })
		}
		state = &peerState{}
		p.peers[peer] = state
	}
	return state
}

// readStorage reads the next replica if the home agrees, or asks it.
func (p *Planner) readStorage(f *fetch) {
	r := f.nextReplica(p.config.Site)
	switch {
	case r == nil:
		p.endRound(f)
	case p.elements[r.Site] >= p.config.MaxPerSE:
	case !f.granted && f.asked < p.config.HomeAsks && (f.unheeded.IsZero() || p.now.Before(f.unheeded)):
		f.phase, f.ask = asking, p.next()
		f.asked++
		p.asks[f.ask] = f.key
		// The question takes the place that the read will need, so that no
		// grant runs out while it waits for a place.
		f.reserved = r.Site
		p.elements[r.Site]++
		if f.unheeded.IsZero() {
			span := p.config.HomePatience + time.Duration(float64(max(0, f.file.Size))/float64(p.config.HomeRate)*float64(time.Second))
			f.unheeded = p.now.Add(span + p.jitter(span/2))
			p.wakeAt(f.unheeded, f.key)
		}
		p.emit(AskHome{Ask: f.ask, Key: f.key, Tried: f.tried()})
	default:
		f.granted = true
		f.renewed = p.now
		p.elements[r.Site]++
		p.start(f, &transfer{key: f.key, replica: r})
		p.emit(TransferFromSE{Transfer: f.transfer, File: f.file, Replica: r.Replica})
	}
}

// tried lists the peers that the home need not name: all known ones, since
// those left would have been asked, but for busy ones that wore out patience.
func (f *fetch) tried() []task.PeerID {
	var peers []task.PeerID
	for _, c := range f.candidates {
		peers = append(peers, c.Peer)
	}
	return peers
}

// endRound begins the next round after a pause, or gives up.
func (p *Planner) endRound(f *fetch) {
	f.round++
	if f.round >= p.config.Rounds {
		p.fail(f, f.err(p.config.Site))
		return
	}
	if f.granted {
		f.granted = false
		p.emit(FinishGrant{Key: f.key, End: ReadFailed})
	}
	for _, r := range f.replicas {
		r.spent = false
	}
	f.asked, f.busySince, f.looked, f.vain = 0, time.Time{}, time.Time{}, 0
	p.sleep(f, p.now.Add(p.jitter(p.config.Backoff<<f.round)))
}

func (p *Planner) fail(f *fetch, err *FetchError) {
	for _, waiter := range f.waiters {
		p.emit(Failed{Waiter: waiter, Err: err})
	}
	p.emit(Abandon{Key: f.key})
	ending := ReadFailed
	if err.Local != nil {
		ending = GivenBack // others may have room
	}
	p.end(f, ending)
}
