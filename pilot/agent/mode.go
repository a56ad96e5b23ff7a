package agent

import (
	"context"
	"time"

	"github.com/pilotage-grid/pilotage/dht"
	"github.com/pilotage-grid/pilotage/pilot/master"
	"github.com/pilotage-grid/pilotage/pilot/message"
	"github.com/pilotage-grid/pilotage/pilot/wire"
	"github.com/pilotage-grid/pilotage/pilot/worker"
	"github.com/pilotage-grid/pilotage/task"
)

// isolated tells whether this pilot exchanges no files with others.
func (a *Agent) isolated() bool { return a.siteSettings().Mode == task.ModeIsolated }

// setMode changes over to another mode of the site.
func (a *Agent) setMode(before, mode string) {
	if before != mode {
		a.log.Info("the site's mode has changed", "before", before, "mode", mode)
	}
	if mode != task.ModeIsolated {
		a.enterOverlay()
		if before == task.ModeIsolated {
			a.announceKept()
		}
	}
	a.carryOut(a.office.Mode(mode))
}

// enterOverlay joins the site's network, once.
func (a *Agent) enterOverlay() {
	if a.joining == nil {
		return
	}
	if err := a.joining(); err != nil {
		a.log.Error("this pilot cannot join the site's network", "error", err)
		return
	}
	a.joining = nil
	close(a.joined)
}

// runOverlay carries the overlay on from the moment it is joined.
func (a *Agent) runOverlay(ctx context.Context) error {
	select {
	case <-a.joined:
		return a.node.Run(ctx)
	case <-ctx.Done():
		return nil
	}
}

// inOverlay tells whether this pilot has joined the site's network.
func (a *Agent) inOverlay() bool {
	select {
	case <-a.joined:
		return true
	default:
		return false
	}
}

// carryOut tells both roles for whom they work.
func (a *Agent) carryOut(p master.Posting) {
	if p.StandDown && a.master.InOffice() {
		a.stepMaster(master.StandDown{})
	}
	if p.Leave && a.master.InOffice() {
		a.stepMaster(master.LeftOffice{})
	}
	if p.Worker != nil {
		a.stepWorker(*p.Worker)
	}
	if p.Take == nil {
		return
	}
	clear(a.briefed)
	took := *p.Take
	took.Settings = a.siteSettings()
	if took.Own {
		a.stepMaster(took)
		a.stepMaster(master.PilotUp{Pilot: a.self.ID, Peer: a.peer})
		return
	}
	a.observer.InOffice(took.Term)
	members := a.node.Members()
	took.Alone = a.node.Size() < 2
	if claimed := a.takeClaimed(took.Term); claimed != nil {
		took.Leases, took.Revoked = claimed.Leases, claimed.Revoked
	}
	again := a.master.InOffice()
	a.stepMaster(took)
	a.stepMaster(master.PilotUp{Pilot: a.self.ID, Peer: a.peer})
	if !p.Leave || again {
		return
	}
	for _, m := range members { // they came while this pilot worked for itself
		if m.Peer != a.peer {
			a.stepMaster(master.PilotUp{Pilot: m.Pilot, Peer: m.Peer})
		}
	}
}

// masterChanged takes the overlay's word on who is in office.
func (a *Agent) masterChanged(m dht.MasterChanged) {
	a.log.Info("master in office", "term", m.Term.String(), "master", m.Master.Pilot, "self", m.Self, "provisional", m.Provisional)
	a.carryOut(a.office.Overlay(master.Incumbent{Term: m.Term, Peer: m.Master.Peer, Provisional: m.Provisional, Passed: m.PassedPilots()}))
}

// aside passes a message from one role of this pilot to the other; it goes
// through its bytes, so that the two share nothing.
func (a *Agent) aside(said message.Message) {
	copied, err := wire.Decode(wire.Encode(said))
	if err != nil {
		a.log.Error("a message of this pilot to itself cannot be read", "error", err)
		return
	}
	a.mailbox.post(func() { a.route(a.peer, copied) })
}

// castAside gives a task list to this pilot's own worker alone.
func (a *Agent) castAside(act master.CastList) {
	event := worker.ListBroadcast{ID: worker.BroadcastID{Root: a.peer, N: act.N}, From: a.peer, List: act.List}
	for _, key := range act.List.Ask {
		if a.holds(key) {
			event.Have = append(event.Have, key)
		}
	}
	a.mailbox.post(func() { a.stepWorker(event) })
}

// answerAside brings the worker's answer to this pilot's own master.
func (a *Agent) answerAside(act worker.AnswerBroadcast) {
	copied, err := wire.Decode(wire.Encode(act.Answer))
	answer, ok := copied.(message.Answer)
	if err != nil || !ok {
		a.log.Error("an answer of this pilot to itself cannot be read", "error", err)
		return
	}
	a.mailbox.post(func() { a.stepMaster(master.BroadcastDone{N: act.ID.N, Answers: []message.Answer{answer}}) })
}

// callPull asks the queue for this pilot alone.
func (a *Agent) callPull(act master.CallPull) {
	pull := act.Pull
	pull.Site = a.site
	self := &pull.Self
	self.Arch, self.OS, self.Load, self.Lifetime, self.CoreSpeed = a.self.Arch, a.self.OS, a.load, time.Until(a.ends), a.self.CoreSpeed
	if current, term := a.node.Master(); current.Peer == a.peer && a.inOverlay() {
		pull.Term = term
	}
	a.group.Go(func() error {
		ctx, cancel := context.WithTimeout(a.context, pull.Hold+syncTime)
		defer cancel()
		asked := time.Now()
		reply, err := a.queue.Pull(ctx, pull)
		answered := master.SyncAnswered{N: act.N, Reply: reply.SyncReply, CacheVersion: reply.CacheVersion}
		if err != nil {
			answered.Err = err.Error()
			a.heed(err)
			a.log.Debug("pull failed", "error", err)
		} else {
			a.takeSettings(asked, reply.Settings)
			a.sendWanted(reply.Wanted)
		}
		a.mailbox.post(func() {
			a.noteVerdicts(reply.Acks)
			a.stepMaster(answered)
		})
		return nil
	})
}

// announce tells the site of files, where files are shared.
func (a *Agent) announce(keys ...task.FileKey) {
	if !a.isolated() {
		a.node.Announce(keys...)
	}
}

// withdraw tells the site that files are gone, where it was told of them.
func (a *Agent) withdraw(keys ...task.FileKey) {
	if a.inOverlay() {
		a.node.Withdraw(keys...)
	}
}

// ownCache tells the master what came into the cache of this pilot and what
// left it.
func (a *Agent) ownCache(keys []task.FileKey) {
	var change master.OwnCache
	for _, key := range keys {
		if a.holds(key) {
			change.Added = append(change.Added, key)
		} else {
			change.Removed = append(change.Removed, key)
		}
	}
	if len(keys) > 0 {
		a.stepMaster(change)
	}
}
