package cache

import (
	"slices"

	"github.com/pilotage-grid/pilotage/task"
)

func (p *Planner) located(e Located) {
	for _, key := range e.Keys {
		f := p.fetches[key]
		if f == nil || f.phase != locating {
			continue
		}
		switch {
		case e.Err != nil:
			f.note("locations", e.Err.Error())
		case len(e.Holders[key]) == 0:
			f.note("locations", "nobody is known to hold it")
		}
		f.learn(e.Holders[key], p.config.Self)
		p.enqueue(f)
	}
}

func (p *Planner) homeAnswered(e HomeAnswered) {
	f := p.fetches[p.asks[e.Ask]]
	if f == nil || f.phase != asking || f.ask != e.Ask {
		return
	}
	if e.Verdict == WaitFor {
		p.release(f) // others may read meanwhile
		return
	}
	p.endAsk(f)
	switch e.Verdict {
	case PointedTo:
		f.learn(e.Holders, p.config.Self)
		f.busySince = p.now // a new chance, so new patience
	case GivenUp:
		f.note("home", "several pilots in a row could not read the storage element")
		for _, r := range f.replicas {
			r.spent = true
		}
	case Granted, Unanswered:
		f.granted, f.renewed = true, p.now
	}
	p.enqueue(f)
}

// endAsk forgets an open question.
func (p *Planner) endAsk(f *fetch) {
	delete(p.asks, f.ask)
	p.release(f)
}

// release gives back the place at a storage element that a question holds.
func (p *Planner) release(f *fetch) {
	if f.reserved != "" {
		p.elements[f.reserved]--
		f.reserved = ""
	}
}

func (p *Planner) progress(id uint64) {
	if t := p.transfers[id]; t != nil {
		p.renew(p.fetches[t.key])
	}
}

func (p *Planner) transferDone(e TransferDone) {
	t := p.transfers[e.Transfer]
	if t == nil {
		return
	}
	delete(p.transfers, e.Transfer)
	for _, h := range t.holders {
		p.peer(h.Peer).inFlight--
	}
	if t.replica != nil {
		p.elements[t.replica.Site]--
	}
	f := p.fetches[t.key]
	p.takeFaults(f, t, e)
	switch {
	case e.Arrived:
		p.arrived(f, t, e.From)
	case len(f.waiters) == 0:
		p.end(f, GivenBack)
	case f.phase == stopping: // wanted again meanwhile
		p.enqueue(f)
	case e.Local != nil:
		p.fail(f, &FetchError{File: f.file, Tries: f.tries, Local: e.Local})
	default:
		if len(e.Faults) == 0 {
			p.blame(f, t)
		}
		p.enqueue(f)
	}
}

func (p *Planner) arrived(f *fetch, t *transfer, from task.PeerID) {
	source := task.SourcePeer
	switch {
	case t.replica != nil && t.replica.Site == p.config.Site:
		source = task.SourceSE
	case t.replica != nil:
		source = task.SourceRemote
	default:
		if from == "" {
			from = t.holders[0].Peer
		}
		state := p.peer(from)
		state.busy, state.faults = 0, max(0, state.faults-1)
	}
	for _, waiter := range f.waiters {
		p.emit(Ready{Waiter: waiter, Key: f.key, Source: source, From: from})
	}
	p.end(f, Arrived)
}

// takeFaults draws the consequences for each source that failed.
func (p *Planner) takeFaults(f *fetch, t *transfer, e TransferDone) {
	broken := func(fault SourceFault) bool { return fault.Fault == Corrupt || fault.Fault == Unreachable }
	if t.replica == nil && (len(e.Faults) == 0 || slices.ContainsFunc(e.Faults, broken)) {
		f.vain++
	}
	for _, fault := range e.Faults {
		reason := fault.Fault.String()
		if fault.Err != nil {
			reason = fault.Err.Error()
		}
		if fault.Peer == "" {
			if r := t.replica; r != nil {
				f.note(r.source(), reason)
				r.spent = true
				r.out = fault.Fault == Gone || fault.Fault == Corrupt
				if r.out {
					p.emit(BadCopy{File: f.file, Replica: r.Replica, Reason: reason})
				}
			}
			continue
		}
		f.note("peer "+string(fault.Peer), reason)
		if c := f.candidate(fault.Peer); c != nil {
			p.takePeerFault(f, c, fault)
		}
	}
}

func (p *Planner) takePeerFault(f *fetch, c *candidate, fault SourceFault) {
	switch fault.Fault {
	case Busy:
		state := p.peer(c.Peer)
		state.busy++
		state.busyUntil = p.now.Add(fault.RetryAfter + p.jitter(fault.RetryAfter))
		f.learn(without(fault.Others, []task.PeerID{c.Peer}), p.config.Self)
	case Gone:
		c.out = true
	case Corrupt:
		c.out, c.corrupt = true, true
		p.peer(c.Peer).fault(p.now, &p.config)
	case Unreachable:
		p.peer(c.Peer).fault(p.now, &p.config)
		c.fails++
		c.out = c.fails >= p.config.PeerTries
		c.notBefore = p.now.Add(p.jitter(p.config.Backoff / 2))
	}
}

// blame books a transfer that ended without saying why, so that it is not
// repeated for ever.
func (p *Planner) blame(f *fetch, t *transfer) {
	if t.replica != nil {
		f.note(t.replica.source(), "the transfer ended without a reason")
		t.replica.spent = true
	}
	for _, h := range t.holders {
		f.note("peer "+string(h.Peer), "the transfer ended without a reason")
		if c := f.candidate(h.Peer); c != nil {
			p.takePeerFault(f, c, SourceFault{Peer: h.Peer, Fault: Unreachable})
		}
	}
}
