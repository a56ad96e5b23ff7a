package agent

import (
	"context"
	"errors"
	"time"

	"github.com/pilotage-grid/pilotage/cache/fetch"
	"github.com/pilotage-grid/pilotage/dht"
	"github.com/pilotage-grid/pilotage/dht/node"
	"github.com/pilotage-grid/pilotage/matcher"
	"github.com/pilotage-grid/pilotage/pilot/master"
	"github.com/pilotage-grid/pilotage/pilot/message"
	"github.com/pilotage-grid/pilotage/pilot/wire"
	"github.com/pilotage-grid/pilotage/pilot/worker"
	"github.com/pilotage-grid/pilotage/task"
)

// Frames tell whom bytes between pilots are for.
const (
	frameRole     byte = iota + 1 // master and worker
	frameDesk                     // to the home of a file
	frameHome                     // from the home of a file
	frameSettings                 // the site's settings, from its master
)

func broadcastID(id worker.BroadcastID) dht.CastID { return dht.CastID(id) }

func frame(kind byte, data []byte) []byte { return append([]byte{kind}, data...) }

// hooks connects the overlay to the loop.
func (a *Agent) hooks() node.Hooks {
	return node.Hooks{
		Claim:         a.claim,
		Deliver:       func(d dht.Deliver) { a.mailbox.post(func() { a.deliver(d) }) },
		Inbound:       a.inbound,
		Done:          func(d dht.Done) { a.mailbox.post(func() { a.broadcastDone(d) }) },
		MasterChanged: func(m dht.MasterChanged) { a.mailbox.post(func() { a.masterChanged(m) }) },
		MemberUp: func(m dht.MemberUp) {
			a.mailbox.post(func() { a.memberUp(m.Member) })
		},
		MemberDown: func(m dht.MemberDown) {
			a.desk.PeerGone(m.Member.Peer)
			a.mailbox.post(func() {
				delete(a.briefed, m.Member.Peer)
				if !a.office.Own() {
					a.stepMaster(master.PilotDown{Pilot: m.Member.Pilot, Peer: m.Member.Peer, Left: m.Left, Reason: m.Reason})
				}
			})
		},
	}
}

// claimTime bounds one question to the queue for the mastership.
const claimTime = 3 * time.Second

// claim asks the queue for the mastership.
func (a *Agent) claim(ctx context.Context, c dht.Claim) dht.ClaimAnswer {
	ctx, cancel := context.WithTimeout(ctx, claimTime)
	defer cancel()
	asked := time.Now()
	reply, err := a.queue.Claim(ctx, c)
	if err != nil {
		a.heed(err)
		a.mu.Lock()
		known := a.unasked
		a.unasked = true
		a.mu.Unlock()
		if !known { // a claim is repeated every half second
			a.log.Warn("the queue cannot be asked for the mastership", "error", err)
		}
		return dht.ClaimAnswer{}
	}
	a.takeSettings(asked, reply.Settings)
	a.mu.Lock()
	a.unasked = false
	known := a.refused
	if a.refused = reply.Term; reply.Granted {
		a.claimed, a.refused = &reply, task.Term{}
	}
	cutOff := !reply.Granted && a.settings.Mode != task.ModeIsolated && a.cutOff.refused(time.Now())
	a.mu.Unlock()
	if !reply.Granted && known != reply.Term {
		a.log.Info("the mastership was not granted", "why", reply.Why)
	}
	if cutOff {
		a.tellUnreachable(ctx, "it hears no master, and the queue does: "+reply.Why)
	}
	return dht.ClaimAnswer{Reached: true, Granted: reply.Granted, Term: reply.Term, Master: reply.Master, Members: reply.Pilots}
}

func (a *Agent) takeClaimed(term task.Term) *ClaimReply {
	a.mu.Lock()
	defer a.mu.Unlock()
	claimed := a.claimed
	if claimed == nil || claimed.Term != term {
		return nil
	}
	a.claimed = nil
	return claimed
}

// deliver hands a broadcast of the master to the worker.
func (a *Agent) deliver(d dht.Deliver) {
	if a.office.Own() {
		if d.Reply {
			a.node.Reply(d.ID, nil)
		}
		return
	}
	said, err := wire.Decode(d.Payload)
	list, ok := said.(message.TaskList)
	if err != nil || !ok {
		a.log.Warn("a broadcast cannot be read", "from", d.From, "error", err)
		if d.Reply {
			a.node.Reply(d.ID, nil)
		}
		return
	}
	event := worker.ListBroadcast{ID: worker.BroadcastID(d.ID), From: d.From, List: list}
	for _, key := range list.Ask {
		if a.holds(key) {
			event.Have = append(event.Have, key)
		}
	}
	a.stepWorker(event)
}

// broadcastDone hands the aggregated answers to the master.
func (a *Agent) broadcastDone(d dht.Done) {
	done := master.BroadcastDone{N: d.N, Missed: d.Missed}
	for _, data := range d.Data {
		said, err := wire.Decode(data)
		answer, ok := said.(message.Answer)
		if err != nil || !ok {
			a.log.Warn("an answer to the task list cannot be read", "error", err)
			continue
		}
		done.Answers = append(done.Answers, answer)
	}
	if began, ours := a.casts[d.N]; ours {
		delete(a.casts, d.N)
		a.observer.RoundDone(Round{
			Took: time.Since(began), Answered: len(done.Answers), Members: a.node.Size(), Peers: d.Peers,
		})
	}
	a.stepMaster(done)
}

// inbound takes bytes from another pilot.
func (a *Agent) inbound(from task.PeerID, data []byte) {
	if len(data) == 0 {
		return
	}
	kind, content := data[0], data[1:]
	switch kind {
	case frameDesk:
		a.desk.Handle(from, content)
	case frameHome:
		a.homes.Handle(from, content)
	case frameSettings:
		a.mailbox.post(func() { a.hearSettings(from, content) })
	case frameRole:
		said, err := wire.Decode(content)
		if err != nil {
			a.log.Warn("a message cannot be read", "from", from, "error", err)
			return
		}
		a.mailbox.post(func() { a.route(from, said) })
	default:
		a.log.Warn("a message of unknown kind", "from", from, "kind", kind)
	}
}

// route gives a message to the role that it is for.
func (a *Agent) route(from task.PeerID, said message.Message) {
	switch said.(type) {
	case message.State, message.Report:
		if a.office.Own() && from != a.peer {
			a.tellSettings(from)
			return
		}
		a.brief(from)
		a.stepMaster(master.FromPilot{From: from, Message: said})
	default:
		if a.office.Own() && from != a.peer {
			return
		}
		a.stepWorker(worker.FromMaster{From: from, Message: said})
	}
}

// homeOf finds a file's home: the nearest live member to its key.
func (a *Agent) homeOf(key task.FileKey) (task.PeerID, bool) {
	nearest := a.node.Nearest(key, 1)
	if len(nearest) == 0 || a.isolated() {
		return "", false
	}
	return nearest[0].Peer, true
}

// locator finds files through the overlay.
type locator struct{ a *Agent }

// Locate satisfies fetch.Locator.
func (l locator) Locate(ctx context.Context, keys []task.FileKey) (map[task.FileKey][]fetch.Holder, error) {
	if l.a.isolated() {
		return nil, nil
	}
	found, err := l.a.node.Locate(ctx, keys)
	if err != nil {
		return nil, err
	}
	holders := make(map[task.FileKey][]fetch.Holder, len(found))
	for key, list := range found {
		for _, h := range list {
			holders[key] = append(holders[key], fetch.Holder(h))
		}
	}
	return holders, nil
}

// holds tells whether the cache has a file, by any of its keys.
func (a *Agent) holds(key task.FileKey) bool {
	if _, found := a.cache.Lookup(key); found {
		return true
	}
	_, found := a.cache.Lookup(a.aliases.resolve(key))
	return found
}

// cached is told by the fetcher of a file that came into the cache.
func (a *Agent) cached(key task.FileKey) {
	keys := []task.FileKey{key}
	if entry, found := a.cache.Lookup(key); found && entry.Key != key {
		keys = append(keys, entry.Key)
	}
	a.announce(keys...)
	a.cacheChanged(keys)
}

// evicted is told by the cache of files that it no longer has.
func (a *Agent) evicted(keys []task.FileKey) {
	every := a.aliases.all(keys...)
	a.aliases.forget(keys)
	a.withdraw(keys...)
	a.cacheChanged(every)
}

// badCopy is told by the fetcher of a copy that its storage element does not have
// as it should.
func (a *Agent) badCopy(copied task.LostFile) {
	copied.Reason = oneLine(copied.Reason)
	a.log.Warn("a copy on a storage element is lost or damaged: it is read elsewhere or made again", "file", copied.LFN, "url", copied.URL, "reason", copied.Reason)
	a.mailbox.post(func() { a.stepWorker(worker.BadCopy{Copy: copied}) })
}

func (a *Agent) cacheChanged(keys []task.FileKey) {
	usage := a.cache.Usage()
	report := message.CacheReport{Capacity: usage.Capacity, Used: usage.Used, Evictions: usage.Evictions, Damaged: usage.Damaged}
	a.mailbox.post(func() {
		if a.worker != nil {
			a.stepWorker(worker.CacheChanged{Keys: keys, Cache: report})
			a.ownCache(keys)
		}
	})
}

// stepMaster runs the master's core and carries its actions out.
func (a *Agent) stepMaster(event message.Event) {
	defer a.noteOutbox(!a.master.Settled())
	for _, action := range a.stepMasterCore(event) {
		switch act := action.(type) {
		case message.Tell:
			a.tell(act)
		case master.CastList:
			if a.office.Own() {
				a.castAside(act)
				continue
			}
			a.casts[act.N] = time.Now()
			a.node.Broadcast(act.N, wire.Encode(act.List), true)
		case master.CallSync:
			a.callSync(act)
		case master.CallPull:
			a.callPull(act)
		case master.DenyPeers:
			a.verifier.Deny(act.Peers)
			a.node.Deny(act.Peers)
		case master.Fenced:
			a.log.Warn("the queue has another master in office: this one is fenced off")
			a.node.Fenced()
		}
	}
}

// noteOutbox logs when the master begins to hold something that the queue
// does not have.
func (a *Agent) noteOutbox(held bool) {
	if waits := a.master.Waiting(); waits > 0 && !held {
		a.log.Debug("outcomes wait for the queue", "outcomes", waits)
	}
}

func (a *Agent) tell(act message.Tell) {
	if act.To == a.peer && a.office.Own() {
		a.aside(act.Message)
		return
	}
	a.node.Send(act.To, a.encode(act.Message))
}

// encode frames a message. A list that many pilots ask for at the same time, as
// after an election, is brought into its form once.
func (a *Agent) encode(said message.Message) []byte {
	snapshot, whole := said.(message.Snapshot)
	if !whole || len(snapshot.List.Entries) == 0 {
		return frame(frameRole, wire.Encode(said))
	}
	if first := snapshot.List.Entries[0]; a.whole.first != first || a.whole.version != snapshot.List.Version {
		a.whole = encodedList{first, snapshot.List.Version, frame(frameRole, wire.Encode(said))}
	}
	return a.whole.data
}

// encodedList is the form of a list's version.
type encodedList struct {
	first   *matcher.ListEntry
	version matcher.ListVersion
	data    []byte
}

// memberUp tells the site's master of a member. Where pilots work for
// themselves, one that may not know it is told.
func (a *Agent) memberUp(m dht.Member) {
	if !a.office.Own() {
		a.stepMaster(master.PilotUp{Pilot: m.Pilot, Peer: m.Peer})
		return
	}
	if chief, _ := a.node.Master(); chief.Peer == a.peer {
		a.tellSettings(m.Peer)
	}
}

// syncTime bounds a Sync beyond the time it may be parked.
const syncTime = 15 * time.Second

func (a *Agent) callSync(act master.CallSync) {
	a.group.Go(func() error {
		ctx, cancel := context.WithTimeout(a.context, act.Sync.Hold+syncTime)
		defer cancel()
		asked := time.Now()
		reply, err := a.queue.Sync(ctx, act.Sync)
		answered := master.SyncAnswered{N: act.N, Reply: reply}
		if err != nil {
			answered.Err, answered.Stale = err.Error(), errors.Is(err, ErrStale)
			a.heed(err)
			a.log.Debug("sync failed", "error", err)
		} else {
			a.takeSettings(asked, reply.Settings)
			a.sendWanted(reply.Wanted)
		}
		a.mailbox.post(func() {
			if !answered.Stale { // a refusal is an answer
				a.silence.note(a.log, err, time.Now())
			}
			a.noteVerdicts(reply.Acks)
			a.stepMaster(answered)
		})
		return nil
	})
}
