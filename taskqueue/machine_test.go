package taskqueue_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
	"github.com/pilotage-grid/pilotage/taskqueue/store/mem"
)

// machine drives a grid at random: submissions, hand-outs, outcomes that come
// late, twice, or from another master's time, lost replies, lost files, dead
// pilots and sites, cancels and retries. The store is checked against a naive
// reading after every step, and in the end all work that can be done must get
// done.
type machine struct {
	*grid
	rt        *rapid.T
	workflows []task.WorkflowID
	old       []task.Outcome // acknowledged or not: may come again
	accepted  map[task.AttemptID]bool
	peers     int
	keys      int             // of submissions in parts
	deleted   map[string]bool // copies on storage elements
}

func TestQueueSurvivesEverything(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		store := mem.New()
		defer store.Close()
		m := &machine{grid: gridOn(rt, store), rt: rt, accepted: make(map[task.AttemptID]bool), deleted: make(map[string]bool)}
		m.rules.Config.Retain.Intermediates = 15 * time.Minute
		m.rules.Config.Workflow.SweepPage = 3
		m.addSite("A")
		m.addSite("B")
		m.addSite("C", func(s *taskqueue.SiteRecord) { s.RemoteRead = false })
		for _, name := range m.names {
			m.join(m.crews[name])
		}
		m.submitSome(rt)
		rt.Repeat(map[string]func(*rapid.T){
			"submit":      m.submitSome,
			"join":        func(*rapid.T) { m.join(m.anyCrew()) },
			"sync":        m.syncSome,
			"sync more":   m.syncSome,
			"start":       m.startSome,
			"start more":  m.startSome,
			"finish":      m.finishSome,
			"finish more": m.finishSome,
			"repeat":      m.repeatOutcome,
			"deliver":     m.deliverSome,
			"upload":      m.uploadSome,
			"lose file":   m.loseSome,
			"kill pilot":  m.killPilot,
			"kill master": m.killMaster,
			"leave":       m.leaveSite,
			"tick":        func(*rapid.T) { m.tick(time.Duration(rapid.IntRange(1, 90).Draw(rt, "seconds")) * time.Second) },
			"expire":      func(*rapid.T) { m.tick(11 * time.Minute) },
			"cancel":      m.cancelSome,
			"retry":       m.retrySome,
			"site":        m.changeSite,
			"remove":      m.removeSome,
			"sweep":       m.deleteGarbage,
			"":            func(*rapid.T) { m.check(); m.checkAccepted(); m.checkDeleted() },
		})
		m.drain()
	})
}

func (m *machine) anyCrew() *crew {
	return m.crews[rapid.SampledFrom(m.names).Draw(m.rt, "site")]
}

// crewThat draws one of the crews that something can happen to; without any,
// something else happens.
func (m *machine) crewThat(can func(*crew) bool) *crew {
	names := slices.DeleteFunc(slices.Clone(m.names), func(name task.Site) bool { return !can(m.crews[name]) })
	if len(names) == 0 {
		m.rt.Skip("no crew")
	}
	return m.crews[rapid.SampledFrom(names).Draw(m.rt, "site")]
}

func (m *machine) chance(percent int, what string) bool {
	return rapid.IntRange(0, 99).Draw(m.rt, what) < percent
}

func (m *machine) join(c *crew) {
	if len(c.members) >= 3 {
		return
	}
	m.peers++
	out, err := c.register(task.PeerID(fmt.Sprintf("peer%d", m.peers)), 2)
	if err != nil {
		m.t.Fatalf("register: %v", err)
	}
	pilot := &member{id: out.Pilot, peer: task.PeerID(fmt.Sprintf("peer%d", m.peers)), slots: 2}
	c.members = append(c.members, pilot)
	if out.Master.Pilot == pilot.id {
		c.succeeds()
		c.master, c.term = pilot, out.Term
	}
	if c.master == nil { // the queue still takes some of the dead for alive
		c.master = pilot
		m.tick(4 * time.Second)
		m.claim(c)
	}
}

func (m *machine) submitSome(*rapid.T) {
	if len(m.workflows) >= 6 {
		return
	}
	s := taskqueue.Submission{Name: rapid.SampledFrom([]string{"red", "blue"}).Draw(m.rt, "name")}
	var names []string
	for _, site := range m.names[:3] {
		name := "ext" + string(site)
		s.Files = append(s.Files, at(name, 5, site))
		names = append(names, name)
	}
	for i := range rapid.IntRange(1, 6).Draw(m.rt, "tasks") {
		from := names
		if len(names) > 3 && m.chance(80, "reads what is made") {
			from = names[3:]
		}
		in := rapid.SliceOfNDistinct(rapid.SampledFrom(from), 0, min(2, len(from)), rapid.ID[string]).Draw(m.rt, "inputs")
		var out []string
		for k := range rapid.IntRange(0, 2).Draw(m.rt, "outputs") {
			out = append(out, fmt.Sprintf("f%d.%d", i, k))
		}
		names = append(names, out...)
		s.Tasks = append(s.Tasks, job(fmt.Sprintf("t%d", i), in, out))
		if len(out) > 0 && m.chance(30, "final") {
			s.Outputs = append(s.Outputs, out[0])
		}
	}
	if len(s.Tasks) > 1 && m.chance(30, "in two parts") {
		first := s
		m.keys++
		first.More, first.Key, first.Tasks, first.Outputs = true, fmt.Sprint("key", m.keys), s.Tasks[1:], nil
		m.mustSubmit(first)
		m.check()
		s.Key, s.Part, s.Tasks, s.Files = first.Key, 1, s.Tasks[:1], nil
		if m.chance(20, "part sent twice") {
			m.mustSubmit(first)
		}
	}
	m.workflows = append(m.workflows, m.mustSubmit(s))
}

func (m *machine) syncSome(*rapid.T) {
	c := m.crewThat(func(c *crew) bool { return c.master != nil })
	if m.chance(15, "reply lost") {
		s := c.message()
		_ = m.update(func(t *taskqueue.Turn) error {
			reply, err := m.rules.Sync(t, s)
			m.noteAcks(reply.Acks)
			return err
		})
		return // the master will say it all again
	}
	reply, err := c.trySync()
	switch {
	case errors.Is(err, taskqueue.ErrStaleTerm):
		m.claim(c)
	case err != nil:
		m.t.Fatalf("sync of %s: %v", c.site, err)
	}
	m.noteAcks(reply.Acks)
}

func (m *machine) noteAcks(acks []task.Ack) {
	for _, ack := range acks {
		if ack.Verdict == task.AckAccepted && slices.Contains(m.workflows, ack.Attempt.Task.Workflow()) {
			m.accepted[ack.Attempt] = true
		}
	}
}

// checkAccepted: what was acknowledged as accepted is kept, and decides its
// generation if it was a success.
func (m *machine) checkAccepted() {
	m.view(func(t *taskqueue.Turn) error {
		for id := range m.accepted {
			found, err := t.Attempts().Load(id)
			if err != nil {
				return err
			}
			if len(found) == 0 || found[0].State == taskqueue.AttemptRunning {
				m.t.Fatalf("the accepted outcome of %s is lost", id)
			}
			if found[0].State != taskqueue.AttemptSucceeded {
				continue
			}
			states, err := t.Tasks().Load(id.Task)
			if err != nil {
				return err
			}
			if s := states[0]; s.Generation == id.Generation && (s.State != task.Done || s.Winner != id) {
				m.t.Fatalf("%s was accepted; the task is %s, won by %s", id, s.State, s.Winner)
			}
		}
		return nil
	})
}

func (m *machine) startSome(*rapid.T) {
	startable := func(c *crew) []task.LeasedTask {
		return slices.DeleteFunc(c.waiting(), func(lt task.LeasedTask) bool { return !c.startable(lt) })
	}
	c := m.crewThat(func(c *crew) bool { return len(c.members) > 0 && len(startable(c)) > 0 })
	waiting := startable(c)
	lt := rapid.SampledFrom(waiting).Draw(m.rt, "start")
	c.start(lt.Task.ID, rapid.SampledFrom(c.members).Draw(m.rt, "pilot"))
}

func (m *machine) finishSome(*rapid.T) {
	c := m.crewThat(func(c *crew) bool { return len(c.running) > 0 })
	ids := slices.Sorted(maps.Keys(c.running))
	id := rapid.SampledFrom(ids).Draw(m.rt, "finish")
	a := c.running[id]
	var o task.Outcome
	if m.chance(25, "fails") {
		o = c.fail(a, rapid.SampledFrom([]task.FailureKind{
			task.PayloadFailed, task.InputMissing, task.PilotFailed, task.PilotLost, task.KilledByUser,
		}).Draw(m.rt, "kind"))
	} else {
		o = c.succeed(a)
	}
	if o.OK && m.chance(20, "uploaded at once") {
		for i := range o.Outputs {
			o.Outputs[i].URL = c.url(task.File{LFN: o.Outputs[i].LFN, Producer: o.Attempt})
		}
	} else if o.OK && m.chance(20, "lost at once") {
		for _, p := range o.Outputs {
			c.loseFile(p.LFN)
		}
	}
	c.end(id, o)
	m.old = append(m.old, o)
}

func (m *machine) repeatOutcome(*rapid.T) {
	if len(m.old) == 0 {
		m.rt.Skip("no outcome")
	}
	o := rapid.SampledFrom(m.old).Draw(m.rt, "old outcome")
	c := m.crews[o.Site]
	if m.chance(10, "at the wrong site") {
		c = m.anyCrew()
	}
	c.ended = append(c.ended, o)
}

func (m *machine) deliverSome(*rapid.T) {
	c := m.crewThat(func(c *crew) bool { return len(c.members) > 0 && len(c.ended) > 0 })
	from := rapid.SampledFrom(c.members).Draw(m.rt, "deliverer")
	m.must(func(t *taskqueue.Turn) error {
		acks, err := m.rules.Deliver(t, taskqueue.Delivery{Site: c.site, Pilot: from.id, Outcomes: slices.Clone(c.ended)})
		m.noteAcks(acks)
		c.acknowledge(acks)
		return err
	})
}

// made returns the files that a site's pilots made, as its master knows.
func (c *crew) made() []task.LFN {
	var names []task.LFN
	for name, f := range c.files {
		if !f.Producer.IsZero() && slices.Contains(f.Announced, c.site) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func (m *machine) uploadSome(*rapid.T) {
	c := m.crewThat(func(c *crew) bool { return len(c.made()) > 0 })
	c.upload(rapid.SampledFrom(c.made()).Draw(m.rt, "upload"))
}

func (m *machine) loseSome(*rapid.T) {
	c := m.crewThat(func(c *crew) bool { return len(c.made()) > 0 })
	made := c.made()
	if m.chance(50, "not all") {
		made = []task.LFN{rapid.SampledFrom(made).Draw(m.rt, "lost")}
	}
	for _, name := range made {
		c.loseFile(name)
	}
}

func (m *machine) killPilot(*rapid.T) {
	c := m.anyCrew()
	if len(c.members) < 2 {
		return
	}
	victim := rapid.SampledFrom(c.members).Draw(m.rt, "victim")
	if victim == c.master {
		return
	}
	m.bury(c, victim)
}

// succeeds is what a new master knows: what the site's pilots tell it.
func (c *crew) succeeds() {
	before := *c
	c.forget()
	c.running, c.files, c.copies, c.next.Lost = before.running, before.files, before.copies, before.next.Lost
}

// bury is what a master does about a dead pilot: it reports it and assigns
// its tasks again.
func (m *machine) bury(c *crew, victim *member) {
	c.members = slices.DeleteFunc(c.members, func(x *member) bool { return x == victim })
	c.next.Departed = append(c.next.Departed, task.Departure{Pilot: victim.id, Dead: true, Reason: "no answer"})
	for id, a := range c.running {
		if a.id.Pilot == victim.id {
			delete(c.running, id)
			for _, lease := range []task.LeaseID{a.id.Lease} {
				if tasks := c.leases[lease]; tasks != nil {
					m.view(func(t *taskqueue.Turn) error {
						specs, err := t.Tasks().Describe(id)
						if err == nil {
							tasks[id] = task.LeasedTask{Task: specs[0], Generation: a.id.Generation, Number: a.number + 1}
						}
						return err
					})
				}
			}
		}
	}
}

func (m *machine) killMaster(*rapid.T) {
	c := m.anyCrew()
	if len(c.members) < 2 {
		return
	}
	dead := c.master
	c.members = slices.DeleteFunc(c.members, func(x *member) bool { return x == dead })
	running := make(map[task.ID]*attempt)
	for id, a := range c.running {
		if a.id.Pilot != dead.id {
			running[id] = a
		}
	}
	c.running = running
	c.succeeds()
	c.master = c.members[0]
	m.tick(4 * time.Second)
	m.claim(c)
	c.next.Departed = append(c.next.Departed, task.Departure{Pilot: dead.id, Dead: true, Reason: "no beat"})
}

func (m *machine) claim(c *crew) {
	var result taskqueue.ClaimResult
	m.must(func(t *taskqueue.Turn) (err error) {
		sites, err := t.Sites().Load(c.site)
		if err != nil {
			return err
		}
		result, err = m.rules.Claim(t, taskqueue.Claim{Site: c.site, Pilot: c.master.id, Expected: sites[0].Term})
		return err
	})
	if result.Granted {
		c.term = result.Term
		c.hold(result.Leases)
	}
}

// leaveSite takes all pilots of a site away.
func (m *machine) leaveSite(*rapid.T) {
	c := m.anyCrew()
	if !m.chance(30, "all leave") {
		return
	}
	for _, pilot := range c.members {
		m.must(func(t *taskqueue.Turn) error {
			return m.rules.Leave(t, taskqueue.Leaving{
				Site: c.site, Pilot: pilot.id, Reason: "end",
				Resigns: pilot == c.master, Term: c.term,
			})
		})
	}
	c.members, c.master, c.ended = nil, nil, nil
	c.forget()
}

func (m *machine) cancelSome(*rapid.T) {
	if len(m.workflows) == 0 || !m.chance(40, "cancel") {
		return
	}
	id := rapid.SampledFrom(m.workflows).Draw(m.rt, "workflow")
	err := m.update(func(t *taskqueue.Turn) error {
		if m.chance(30, "all of it") {
			_, err := m.rules.CancelWorkflow(t, id)
			return err
		}
		_, err := m.rules.CancelTask(t, task.NewID(id, "t0"))
		return err
	})
	if err != nil && !errors.Is(err, taskqueue.ErrConflict) {
		m.t.Fatalf("cancel: %v", err)
	}
}

func (m *machine) retrySome(*rapid.T) {
	if len(m.workflows) == 0 {
		return
	}
	id := rapid.SampledFrom(m.workflows).Draw(m.rt, "workflow")
	err := m.update(func(t *taskqueue.Turn) error {
		if m.chance(50, "all of it") {
			_, err := m.rules.RetryWorkflow(t, id, m.chance(50, "failed only"))
			return err
		}
		_, err := m.rules.RetryTask(t, task.NewID(id, rapid.SampledFrom([]string{"t0", "t1", "t2"}).Draw(m.rt, "task")))
		return err
	})
	if err != nil && !errors.Is(err, taskqueue.ErrConflict) && !errors.Is(err, taskqueue.ErrNotFound) {
		m.t.Fatalf("retry: %v", err)
	}
}

// removeSome deletes a workflow or a file, if the queue lets it.
func (m *machine) removeSome(*rapid.T) {
	if len(m.workflows) == 0 {
		return
	}
	id := rapid.SampledFrom(m.workflows).Draw(m.rt, "workflow")
	whole := m.chance(20, "whole workflow")
	err := m.update(func(t *taskqueue.Turn) error {
		if whole {
			_, err := m.rules.DeleteWorkflow(t, id, false)
			return err
		}
		name := task.Qualify(id, rapid.SampledFrom([]string{"f0.0", "f1.0", "f2.1"}).Draw(m.rt, "file"))
		_, err := m.rules.RemoveFile(t, name, m.chance(10, "dry"))
		return err
	})
	switch {
	case err == nil && whole:
		m.workflows = slices.DeleteFunc(m.workflows, func(other task.WorkflowID) bool { return other == id })
		maps.DeleteFunc(m.accepted, func(a task.AttemptID, _ bool) bool { return a.Task.Workflow() == id })
	case err != nil && !errors.Is(err, taskqueue.ErrConflict) && !errors.Is(err, taskqueue.ErrNotFound):
		m.t.Fatalf("remove: %v", err)
	}
}

// deleteGarbage does what a server does with copies that nobody needs.
func (m *machine) deleteGarbage(*rapid.T) {
	m.must(func(t *taskqueue.Turn) error {
		garbage, named, err := m.rules.Garbage(t, 100)
		for _, replica := range garbage {
			m.deleted[replica.URL] = true
		}
		return errors.Join(err, t.Files().DropGarbage(slices.Concat(garbage, named)...))
	})
}

// checkDeleted: no file names a copy that was deleted.
func (m *machine) checkDeleted() {
	m.view(func(t *taskqueue.Turn) error {
		files, err := t.Files().List("", "", 1_000_000)
		for _, f := range files {
			for _, replica := range f.Replicas {
				if m.deleted[replica.URL] {
					m.t.Fatalf("%s names %s, which was deleted", f.LFN, replica.URL)
				}
			}
		}
		return err
	})
}

// changeSite drains a site or changes who may read what; the sweep that
// follows is carried through, so that readiness is true again.
func (m *machine) changeSite(*rapid.T) {
	c := m.anyCrew()
	if m.chance(50, "drain") {
		m.must(func(t *taskqueue.Turn) error { return m.rules.DrainSite(t, c.site, m.chance(30, "draining")) })
		return
	}
	m.must(func(t *taskqueue.Turn) error {
		_, err := m.rules.AddSite(t, taskqueue.SiteRecord{Name: c.site, SiteSettings: taskqueue.SiteSettings{SE: "file:///se/" + string(c.site), RemoteRead: c.site != "C" || m.chance(50, "remote read")}})
		return err
	})
	m.tick(0)
}

// giveBackStranded returns tasks whose inputs are not there after all this time,
// as when the site may not read them any more.
func (c *crew) giveBackStranded() {
	for _, lease := range slices.Sorted(maps.Keys(c.leases)) {
		for _, id := range slices.Sorted(maps.Keys(c.leases[lease])) {
			if !c.startable(c.leases[lease][id]) {
				c.giveBack(lease, id, "an input is not made here")
			}
		}
	}
}

// drain plays an untroubled grid until nothing is left to do.
func (m *machine) drain() {
	for _, name := range m.names {
		c := m.crews[name]
		m.must(func(t *taskqueue.Turn) error { return m.rules.DrainSite(t, name, false) })
		m.join(c)
		if c.master == nil {
			c.master = c.members[0]
		}
		m.tick(4 * time.Second)
		m.claim(c)
	}
	for round := range 60 {
		open := 0
		for _, id := range m.workflows {
			w := m.workflow(id)
			if !w.Over() {
				open++
			}
		}
		if open == 0 {
			return
		}
		m.tick(61 * time.Second)
		for _, name := range m.names {
			c := m.crews[name]
			for id, a := range c.running {
				c.end(id, c.succeed(a))
			}
			if _, err := c.trySync(); err != nil {
				m.t.Fatalf("sync: %v", err)
			}
			c.work()
			if round%5 == 4 {
				c.giveBackStranded()
			}
			for _, name := range c.made() {
				c.upload(name)
			}
			if _, err := c.trySync(); err != nil {
				m.t.Fatalf("sync: %v", err)
			}
		}
		m.check()
		m.checkAccepted()
	}
	for _, id := range m.workflows {
		w := m.workflow(id)
		m.t.Errorf("%s: %v, %d unstored", id, w.Counts, w.Unstored)
		m.view(func(t *taskqueue.Turn) error {
			states, err := t.Tasks().InWorkflow(id, 0, 100, task.Blocked, task.Ready, task.Leased)
			for _, s := range states {
				x, err := m.rules.Explain(t, s.ID)
				m.t.Errorf("%s is %s: %s %+v %+v (%v)", s.ID, s.State, s.Reason, x.Missing, x.Sites, err)
			}
			return err
		})
	}
	m.t.Fatalf("work is left that nobody does")
}
