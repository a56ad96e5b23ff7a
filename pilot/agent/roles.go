package agent

import (
	"context"
	"math"
	"time"

	"github.com/pilotage-grid/pilotage/dht"
	"github.com/pilotage-grid/pilotage/dht/node"
	"github.com/pilotage-grid/pilotage/identity"
	"github.com/pilotage-grid/pilotage/matcher"
	"github.com/pilotage-grid/pilotage/pilot/master"
	"github.com/pilotage-grid/pilotage/pilot/message"
	"github.com/pilotage-grid/pilotage/pilot/office"
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
	office   *office.Office
	settings *siteSettings
	network  *network
	queue    *queueLink
	claims   *claims
	reach    *reach
	files    *files
	uploads  *uploader
	payloads *payloads
	own      identity.MemberCertificate
	events   func(Event)
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
	r.stepOffice(message.Tick{})
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
			r.network.node.Deny(dht.Denial{Peers: act.Peers, Signature: act.Signature})
		case master.Fenced:
			r.log.Warn("the queue has another master in office: the one by this term is fenced off", "term", act.Term)
			r.network.node.Fenced(act.Term)
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
		r.stepWorker(worker.CacheChanged{Keys: keys, Cache: now})
		var change master.OwnCache
		for _, key := range keys {
			if _, has := r.files.cachedSize(key); has {
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

// settle takes the site's settings from the queue, in any goroutine.
func (r *roles) settle(asked time.Time, settings task.SiteSettings) {
	r.officeEvent(office.QueueSaid{Asked: asked, Settings: settings})
}

// officeEvent brings an event to the core of the pilot's office from any goroutine.
func (r *roles) officeEvent(event message.Event) { r.loop.Post(func() { r.stepOffice(event) }) }

// stepOffice runs the core of the pilot's office and carries its actions out.
func (r *roles) stepOffice(event message.Event) {
	site := office.Site{InOffice: r.master.InOffice(), Provisional: r.master.Provisional()}
	for _, action := range r.office.Step(time.Now(), event, site) {
		switch act := action.(type) {
		case office.Adopt:
			r.adopt(act)
		case office.Post:
			r.post(act.Posting)
		case office.ToMaster:
			r.stepMaster(act.Event)
		case office.ToWorker:
			r.stepWorker(act.Event)
		case office.TellSettings:
			r.network.tellSettings(act.To)
		case office.Try:
			r.reach.try(act.Trial)
		case office.TellUnreachable:
			r.beside(func(ctx context.Context) { r.reach.tellUnreachable(ctx, act.Reason) })
		}
	}
}

// adopt puts settings of the site in force.
func (r *roles) adopt(act office.Adopt) {
	r.settings.set(act.Settings)
	r.stepWorker(worker.SiteChanged{Settings: act.Settings})
	before, mode := act.Before.Mode, act.Settings.Mode
	if before != mode {
		r.log.Info("the site's mode has changed", "before", before, "mode", mode)
	}
	if mode != task.ModeIsolated {
		_ = r.network.enter() // it has logged why not
		if before == task.ModeIsolated {
			r.files.announce(r.files.cache.Entries())
		}
	}
}

// post tells both roles for whom they work.
func (r *roles) post(p office.Posting) {
	p.CarryOut(r.master, r.stepMaster, r.stepWorker, func(took *master.TookOffice) []master.PilotUp {
		took.Settings = r.settings.get()
		if !took.Own {
			r.events(TookOffice{Term: took.Term})
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
		MasterChanged: r.masterChanged,
		MemberUp: func(m dht.MemberUp) {
			r.officeEvent(office.MemberUp{Member: master.PilotUp{Pilot: m.Member.Pilot, Peer: m.Member.Peer}})
		},
		MemberDown: func(m dht.MemberDown) {
			r.network.desk.PeerGone(m.Member.Peer)
			r.officeEvent(office.MemberDown{Member: master.PilotDown{Pilot: m.Member.Pilot, Peer: m.Member.Peer, Left: m.Left, Reason: m.Reason}})
		},
	}
}

// masterChanged takes the overlay's word on who is in office.
func (r *roles) masterChanged(m dht.MasterChanged) {
	r.log.Info("master in office", "term", m.Term.String(), "master", m.Master.Pilot, "self", m.Self, "provisional", m.Provisional)
	r.officeEvent(office.MasterChanged{Master: office.Incumbent{Term: m.Term, Peer: m.Master.Peer, Provisional: m.Provisional, Passed: m.PassedPilots()}})
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
		settings, err := decodeSettings(r.self.Site, content)
		if err != nil {
			r.log.Warn("the settings of the site cannot be read", "from", from, "error", err)
			return
		}
		r.officeEvent(office.PilotSaid{From: from, Settings: settings})
	case frameRole:
		said, err := wire.Decode(content)
		if err != nil {
			r.log.Warn("a message cannot be read", "from", from, "error", err)
			return
		}
		r.officeEvent(office.Message{From: from, Said: said})
	default:
		r.log.Warn("a message of unknown kind", "from", from, "kind", kind)
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
		r.officeEvent(office.Message{From: r.network.peer, Said: copied})
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
