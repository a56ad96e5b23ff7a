package agent

import (
	"math"
	"time"

	"github.com/pilotage-grid/pilotage/dht"
	"github.com/pilotage-grid/pilotage/dht/node"
	"github.com/pilotage-grid/pilotage/identity"
	"github.com/pilotage-grid/pilotage/matcher"
	"github.com/pilotage-grid/pilotage/pilot/master"
	"github.com/pilotage-grid/pilotage/pilot/message"
	"github.com/pilotage-grid/pilotage/pilot/wire"
	"github.com/pilotage-grid/pilotage/pilot/worker"
	"github.com/pilotage-grid/pilotage/task"
)

// roles are the pilot as worker and as master: they give both cores their events
// and have carried out what these decide. The loop calls all methods but hooks and
// those that the hooks and settle are.
type roles struct {
	*shell

	self     matcher.Pilot
	ends     time.Time
	worker   *worker.Worker
	master   *master.Master
	office   *master.Office
	settings *siteSettings
	network  *network
	queue    *queueLink
	claims   *claims
	reach    *reach
	files    *files
	uploads  *uploader
	payloads *payloads
	own      identity.MemberCertificate
	observer Observer
	briefed  map[task.PeerID]bool // members that this master has told the settings of the site
	lists    lists
	recorder *recorder // of the master's core
	draining draining
}

// draining tells of the end of the worker's work.
type draining struct {
	over    chan struct{} // closed when nothing is left to do
	ordered string        // why its master has told the pilot to drain; set before over is closed
}

// workerEvents brings events to the worker's core from any goroutine.
func (r *roles) workerEvents(work func() []message.Event) {
	r.loop.Post(func() {
		for _, event := range work() {
			r.stepWorker(event)
		}
	})
}

// tick lets time pass for both cores.
func (r *roles) tick() {
	r.stepWorker(message.Tick{})
	r.stepMaster(message.Tick{})
}

// stepWorker runs the worker's core and carries its actions out.
func (r *roles) stepWorker(event message.Event) {
	for _, action := range r.worker.Step(time.Now(), event) {
		switch act := action.(type) {
		case message.Tell:
			r.tell(act)
		case worker.AnswerBroadcast:
			r.answer(act)
		case worker.StageIn:
			r.payloads.stageIn(act)
		case worker.StartPayload:
			r.payloads.start(act)
		case worker.KillPayload:
			r.payloads.kill(act.Attempt)
		case worker.Publish:
			r.payloads.publish(act)
		case worker.Discard:
			r.payloads.discard(act.Attempt)
		case worker.DropLogs:
			r.payloads.dropLogs(act.Attempt)
		case worker.Upload:
			r.uploads.put(upload{output: act.Output})
		case worker.Keep:
			r.files.keep(act.File)
		case worker.CopyIn:
			r.files.copyIn(act.File)
		case worker.DropCopy:
			r.files.dropCopy(act.File)
		case worker.LetGo:
			r.files.cache.LetGo(task.KeyOf("", act.Output.Digest), act.Output.ID())
		case worker.DeliverToQueue:
			r.queue.deliver(act, r.workerEvents)
		case worker.Draining:
			r.draining.ordered = act.Reason
			r.log.Info("the pilot drains: it finishes what runs, and leaves", "reason", act.Reason)
		case worker.Drained:
			close(r.draining.over)
		}
	}
}

// stepMaster runs the master's core and carries its actions out.
func (r *roles) stepMaster(event message.Event) {
	held := !r.master.Settled()
	for _, action := range r.recorder.step(r.log, r.master, event) {
		switch act := action.(type) {
		case message.Tell:
			r.tell(act)
		case master.CastList:
			r.cast(act)
		case master.CallSync:
			r.queue.sync(act, func(answer master.SyncAnswered) { r.stepMaster(answer) })
		case master.CallPull:
			r.pull(act)
		case master.DenyPeers:
			r.network.node.Deny(act.Peers)
		case master.Fenced:
			r.log.Warn("the queue has another master in office: this one is fenced off")
			r.network.node.Fenced()
		}
	}
	if waits := r.master.Waiting(); waits > 0 && !held {
		r.log.Debug("outcomes wait for the queue", "outcomes", waits)
	}
}

// pull asks the queue for this pilot alone.
func (r *roles) pull(act master.CallPull) {
	pull := act.Pull
	pull.Site = r.self.Site
	self := &pull.Self
	self.Arch, self.OS, self.Load, self.Lifetime, self.CoreSpeed = r.self.Arch, r.self.OS, r.self.Load, time.Until(r.ends), r.self.CoreSpeed
	if leads, term := r.network.leads(); leads && r.network.inside() {
		pull.Term = term
	}
	r.queue.pull(act.N, pull, func(answer master.SyncAnswered) { r.stepMaster(answer) })
}

// observed tells the worker what has changed about the node.
func (r *roles) observed(now worker.PilotChanged) {
	r.self.Load = math.Round(10*now.Conditions.Load) / 10 // finer differences would only have requirements judged again
	r.stepWorker(now)
}

// cacheChanged tells both roles what has come into the cache or left it.
func (r *roles) cacheChanged(keys []task.FileKey, now message.CacheReport) {
	r.loop.Post(func() {
		if r.worker == nil { // the cache is opened first
			return
		}
		r.stepWorker(worker.CacheChanged{Keys: keys, Cache: now})
		var change master.OwnCache
		for _, key := range keys {
			if r.files.holds(key) {
				change.Added = append(change.Added, key)
			} else {
				change.Removed = append(change.Removed, key)
			}
		}
		if len(keys) > 0 {
			r.stepMaster(change)
		}
	})
}

// settle takes the site's settings from the queue.
func (r *roles) settle(asked time.Time, settings task.SiteSettings) {
	r.settings.saidByQueue()
	r.adopt(asked, settings)
}

// adopt takes the site's settings from the queue, or from a master that has them
// from there. A master passes changes on to its members.
func (r *roles) adopt(asked time.Time, settings task.SiteSettings) {
	before, taken := r.settings.take(asked, settings)
	if !taken {
		return
	}
	r.loop.Post(func() {
		r.stepWorker(worker.SiteChanged{Settings: settings})
		leads := r.leads()
		r.setMode(before.Mode, settings.Mode)
		r.reach.heedTrial(settings.Trial)
		if !leads || before == settings {
			return
		}
		for _, m := range r.network.node.Members() {
			r.network.tellSettings(m.Peer)
			r.briefed[m.Peer] = true
		}
	})
}

// setMode changes over to another mode of the site.
func (r *roles) setMode(before, mode string) {
	if before != mode {
		r.log.Info("the site's mode has changed", "before", before, "mode", mode)
	}
	if mode != task.ModeIsolated {
		_ = r.network.enter() // it has logged why not
		if before == task.ModeIsolated {
			r.files.announce(r.files.cache.Entries())
		}
	}
	r.post(r.office.Mode(mode))
}

// leads tells whether this pilot is the master of others.
func (r *roles) leads() bool { return r.master.InOffice() && !r.office.Own() }

// post tells both roles for whom they work.
func (r *roles) post(p master.Posting) {
	p.CarryOut(r.master, r.stepMaster, r.stepWorker, func(took *master.TookOffice) []master.PilotUp {
		clear(r.briefed)
		took.Settings = r.settings.get()
		if !took.Own {
			r.observer.InOffice(took.Term)
			took.Alone = r.network.node.Size() < 2
			if claimed := r.claims.take(took.Term); claimed != nil {
				took.Leases, took.Revoked = claimed.Leases, claimed.Revoked
			}
		}
		members := []master.PilotUp{{Pilot: r.self.ID, Peer: r.network.peer}}
		for _, m := range r.network.others() {
			members = append(members, master.PilotUp{Pilot: m.Pilot, Peer: m.Peer})
		}
		return members
	})
}

// hooks connects the overlay to the loop.
func (r *roles) hooks() node.Hooks {
	return node.Hooks{
		Claim:         r.claims.claim,
		Deliver:       func(d dht.Deliver) { r.loop.Post(func() { r.deliver(d) }) },
		Inbound:       r.inbound,
		Done:          func(d dht.Done) { r.loop.Post(func() { r.broadcastDone(d) }) },
		MasterChanged: func(m dht.MasterChanged) { r.loop.Post(func() { r.masterChanged(m) }) },
		MemberUp:      func(m dht.MemberUp) { r.loop.Post(func() { r.memberUp(m.Member) }) },
		MemberDown: func(m dht.MemberDown) {
			r.network.desk.PeerGone(m.Member.Peer)
			r.loop.Post(func() {
				delete(r.briefed, m.Member.Peer)
				if !r.office.Own() {
					r.stepMaster(master.PilotDown{Pilot: m.Member.Pilot, Peer: m.Member.Peer, Left: m.Left, Reason: m.Reason})
				}
			})
		},
	}
}

// masterChanged takes the overlay's word on who is in office.
func (r *roles) masterChanged(m dht.MasterChanged) {
	r.log.Info("master in office", "term", m.Term.String(), "master", m.Master.Pilot, "self", m.Self, "provisional", m.Provisional)
	r.post(r.office.Overlay(master.Incumbent{Term: m.Term, Peer: m.Master.Peer, Provisional: m.Provisional, Passed: m.PassedPilots()}))
}

// memberUp tells the site's master of a member. Where pilots work for
// themselves, one that may not know it is told.
func (r *roles) memberUp(m dht.Member) {
	if !r.office.Own() {
		r.stepMaster(master.PilotUp{Pilot: m.Pilot, Peer: m.Peer})
		return
	}
	if leads, _ := r.network.leads(); leads {
		r.network.tellSettings(m.Peer)
	}
}

// inbound takes bytes from another pilot, in any goroutine.
func (r *roles) inbound(from task.PeerID, data []byte) {
	if len(data) == 0 {
		return
	}
	kind, content := data[0], data[1:]
	switch kind {
	case frameDesk:
		r.network.desk.Handle(from, content)
	case frameHome:
		r.network.homes.Handle(from, content)
	case frameSettings:
		r.loop.Post(func() { r.hearSettings(from, content) })
	case frameRole:
		said, err := wire.Decode(content)
		if err != nil {
			r.log.Warn("a message cannot be read", "from", from, "error", err)
			return
		}
		r.loop.Post(func() { r.route(from, said) })
	default:
		r.log.Warn("a message of unknown kind", "from", from, "kind", kind)
	}
}

// hearSettings reads what another pilot says of the site's settings.
func (r *roles) hearSettings(from task.PeerID, data []byte) {
	settings, err := decodeSettings(r.self.Site, data)
	if err != nil {
		r.log.Warn("the settings of the site cannot be read", "from", from, "error", err)
		return
	}
	r.masterSaid(from, settings)
}

// masterSaid takes the overlay master's word on the site's settings, if need be later.
// A pilot that works for itself has them from the queue.
func (r *roles) masterSaid(from task.PeerID, settings task.SiteSettings) {
	if master, _ := r.network.node.Master(); master.Peer != from || r.office.Own() {
		return
	}
	if wait := r.settings.saidByMaster(settings); wait > 0 {
		time.AfterFunc(wait, func() {
			r.loop.Post(func() {
				if r.settings.stillSaid(settings) {
					r.masterSaid(from, settings)
				}
			})
		})
		return
	}
	if settings != r.settings.get() {
		r.adopt(time.Now(), settings)
	}
}

// brief tells a member the settings when it speaks with this master for the
// first time: they may have changed since it registered, or the master before
// may have known others. One that the queue has not confirmed in office does
// not know better than its members.
func (r *roles) brief(to task.PeerID) {
	if r.briefed[to] || !r.leads() || r.master.Provisional() {
		return
	}
	r.briefed[to] = true
	r.network.tellSettings(to)
}

// route gives a message to the role that it is for.
func (r *roles) route(from task.PeerID, said message.Message) {
	switch said.(type) {
	case message.State, message.Report:
		if r.office.Own() && from != r.network.peer {
			r.network.tellSettings(from)
			return
		}
		r.brief(from)
		r.stepMaster(master.FromPilot{From: from, Message: said})
	default:
		if r.office.Own() && from != r.network.peer {
			return
		}
		r.stepWorker(worker.FromMaster{From: from, Message: said})
	}
}

// tell sends a message; one from a role of this pilot to the other goes through its
// bytes as well, so that the two share nothing.
func (r *roles) tell(act message.Tell) {
	if act.To != r.network.peer || !r.office.Own() {
		r.network.node.Send(act.To, r.lists.frame(r.sealed(act.To, act.Message)))
		return
	}
	if copied := r.copied(act.Message); copied != nil {
		r.loop.Post(func() { r.route(r.network.peer, copied) })
	}
}

// copied is what another pilot would receive of a message; nil after an error.
func (r *roles) copied(said message.Message) message.Message {
	copied, err := wire.Decode(wire.Encode(said))
	if err != nil {
		r.log.Error("a message of this pilot to itself cannot be read", "error", err)
	}
	return copied
}
