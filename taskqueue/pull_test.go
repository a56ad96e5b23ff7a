package taskqueue_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/matcher"
	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
	"github.com/pilotage-grid/pilotage/taskqueue/matchmaker"
)

// desk is what a server does with Pulls.
type desk struct {
	*grid
	maker *matchmaker.Matchmaker
	host  string // of the pilots to come; "": each has its own
}

func newDesk(g *grid) *desk {
	return &desk{grid: g, maker: matchmaker.New(&g.rules.Config, matcher.NewCompiler(100))}
}

// commit runs rules and tells the matchmaker what has changed.
func (d *desk) commit(change func(*taskqueue.Turn) error) {
	d.t.Helper()
	d.must(change)
	d.maker.Changed(&d.effects)
}

// solo is a pilot that is its own master.
type solo struct {
	*desk
	site    task.Site
	id      task.PilotID
	slots   int
	counter uint64
	leases  []task.LeaseID
	inHand  []task.LeasedTask
	of      map[task.ID]task.LeaseID
	version uint64
	cached  []task.FilePrint
	news    task.Sync
	reply   task.PullReply
}

func (d *desk) solo(site task.Site, peer task.PeerID, slots int) *solo {
	d.t.Helper()
	var out taskqueue.Registered
	d.commit(func(t *taskqueue.Turn) (err error) {
		out, err = d.rules.Register(t, taskqueue.Registration{
			Site: site, Peer: peer, PilotDescription: taskqueue.PilotDescription{
				Host: cmp.Or(d.host, string(peer)), Slots: slots, Resources: task.Resources{Cores: slots, Memory: task.TiB, Disk: task.TiB},
			},
		})
		return err
	})
	return &solo{desk: d, site: site, id: out.Pilot, slots: slots, of: make(map[task.ID]task.LeaseID)}
}

// message is what the pilot tells with its next Pull.
func (s *solo) message() task.Pull {
	p := task.Pull{Sync: s.news}
	s.news = task.Sync{}
	p.Site, p.Pilot, p.Leases = s.site, s.id, s.leases
	p.Capacity = task.Capacity{Pilots: 1, Slots: s.slots, FreeSlots: s.slots - len(s.inHand), Running: len(s.inHand)}
	p.Places = task.Places{FreeSlots: s.slots - len(s.inHand), Free: task.Resources{Cores: s.slots - len(s.inHand), Memory: task.TiB, Disk: task.TiB}}
	p.Self.FreeCores = p.Places.Free.Cores
	for _, lt := range s.inHand {
		p.Places.Ending = p.Places.Ending.Max(lt.Task.Resources)
		switch lt.Task.Bound {
		case task.CPUBound:
			p.Self.CPUBound++
		case task.IOBound:
			p.Self.IOBound++
		}
		p.Holding = append(p.Holding, task.Holding{Task: lt.Task.ID, Lease: s.of[lt.Task.ID]})
	}
	p.Cache = task.CacheDelta{Base: s.version, Version: s.version}
	if len(s.cached) > 0 || s.version == 0 {
		p.Cache.Version++
		p.Cache.Added, s.cached = s.cached, nil
	}
	return p
}

// pull tells the queue and takes in its answer.
func (s *solo) pull() []task.ID {
	s.t.Helper()
	p := s.message()
	return s.take(&p, s.serve(&p))
}

// take takes in what the queue answers to a Pull.
func (s *solo) take(p *task.Pull, reply task.PullReply) []task.ID {
	s.reply = reply
	s.version = p.Cache.Version
	if s.reply.CacheVersion != p.Cache.Version {
		s.version = 0
	}
	var got []task.ID
	for _, lease := range s.reply.Leases {
		s.leases = append(s.leases, lease.ID)
		for _, lt := range lease.Tasks {
			if _, again := s.of[lt.Task.ID]; !again {
				s.inHand = append(s.inHand, lt)
				got = append(got, lt.Task.ID)
			}
			s.of[lt.Task.ID] = lease.ID
		}
	}
	for _, id := range s.reply.Unknown {
		s.leases = slices.DeleteFunc(s.leases, func(other task.LeaseID) bool { return other == id })
	}
	return got
}

// serve is a Pull at the queue.
func (d *desk) serve(p *task.Pull) task.PullReply {
	d.t.Helper()
	capacity := d.maker.Hear(d.clock, p, true)
	var pulled taskqueue.Pulled
	d.commit(func(t *taskqueue.Turn) (err error) {
		pulled, err = d.rules.Pull(t, p, capacity)
		return err
	})
	d.maker.Describe(d.clock, &pulled, p.Self)
	if !pulled.MayTake() {
		return pulled.Reply
	}
	if d.maker.Stale(d.clock, p.Site) {
		d.view(func(t *taskqueue.Turn) error { return d.maker.Refresh(t, p.Site) })
	}
	matched := d.maker.Match(d.clock, p.Site, p.Pilot, pulled.Unseen)
	if len(matched) == 0 {
		return pulled.Reply
	}
	var lease task.Lease
	d.commit(func(t *taskqueue.Turn) (err error) {
		lease, err = d.rules.Grant(t, p.Site, p.Pilot, matched)
		return err
	})
	d.maker.Granted(p.Site, p.Pilot, matched, &lease)
	if len(lease.Tasks) > 0 {
		pulled.Reply.Leases = append(pulled.Reply.Leases, lease)
	}
	return pulled.Reply
}

// tend looks after a site as a server does, while no call is under way.
func (d *desk) tend(site task.Site) (care taskqueue.Care) {
	d.t.Helper()
	record := d.siteRecord(site)
	d.commit(func(t *taskqueue.Turn) error {
		live, err := t.Pilots().OfSite(site, taskqueue.PilotAlive)
		if err != nil {
			return err
		}
		unsafe, err := d.rules.Unguarded(t, site)
		if err != nil {
			return err
		}
		care, _ = d.maker.Tend(d.clock, &record, live, unsafe, func(task.PilotID) bool { return false })
		return d.rules.Tend(t, site, &care)
	})
	return care
}

// finish ends a task well; its outputs are in the pilot's cache from now on.
func (s *solo) finish(id task.ID) task.Outcome {
	s.t.Helper()
	i := slices.IndexFunc(s.inHand, func(lt task.LeasedTask) bool { return lt.Task.ID == id })
	if i < 0 {
		s.t.Fatalf("pilot %s does not have %s", s.id, id)
	}
	lt := s.inHand[i]
	s.inHand = slices.Delete(s.inHand, i, i+1)
	s.counter++
	o := task.Outcome{
		Attempt: task.AttemptID{Task: id, Generation: lt.Generation, Lease: s.of[id], Pilot: s.id, Counter: s.counter},
		Number:  lt.Number, OK: true, Run: time.Second, Delay: -1,
	}
	for _, out := range lt.Task.Outputs {
		o.Outputs = append(o.Outputs, task.Produced{LFN: out.LFN, Size: task.Bytes(task.GiB), Digest: content(o.Attempt, out.LFN)})
		s.cached = append(s.cached, task.KeyOf(out.LFN, task.Digest{}).Print())
	}
	s.news.Outcomes = append(s.news.Outcomes, o)
	delete(s.of, id) // it may come again
	return o
}

func inMode(mode taskqueue.Mode) func(*taskqueue.SiteRecord) {
	return func(s *taskqueue.SiteRecord) { s.Mode = mode }
}

func pairs(n int) taskqueue.Submission {
	s := taskqueue.Submission{Name: "pairs"}
	for i := range n {
		s.Tasks = append(s.Tasks, job(fmt.Sprintf("first[%d]", i), nil, []string{fmt.Sprintf("f.%d", i)}))
	}
	for i := range n {
		s.Tasks = append(s.Tasks, job(fmt.Sprintf("second[%d]", i), []string{fmt.Sprintf("f.%d", i)}, []string{fmt.Sprintf("s.%d", i)}))
	}
	return s
}

// Each pilot gets the reader of the file that it has made (004, section II:
// the queue ranks by the cache of the pilot that asks).
func TestQueueMatchesTasksToCaches(t *testing.T) {
	for _, mode := range []taskqueue.Mode{taskqueue.ModeCentralized, taskqueue.ModeIsolated} {
		d := newDesk(newGrid(t))
		d.addSite("A", inMode(mode))
		pilots := []*solo{d.solo("A", "p1", 1), d.solo("A", "p2", 1), d.solo("A", "p3", 1)}
		w := d.mustSubmit(pairs(3))
		d.maker.Changed(&d.effects)
		for _, p := range pilots {
			p.pull()
		}
		for i, p := range pilots {
			p.finish(task.NewID(w, fmt.Sprintf("first[%d]", i)))
		}
		// The last one comes first: it passes the others' readers over.
		for i := range pilots {
			i := len(pilots) - 1 - i
			if got, want := pilots[i].pull(), task.NewID(w, fmt.Sprintf("second[%d]", i)); !slices.Equal(got, []task.ID{want}) {
				t.Errorf("%s: pilot %d got %v, want %s", mode, i, got, want)
			}
		}
		for i, p := range pilots {
			p.finish(task.NewID(w, fmt.Sprintf("second[%d]", i)))
			p.pull()
		}
		if got := d.workflow(w); got.Counts[task.Done] != 6 {
			t.Errorf("%s: %v", mode, got.Counts)
		}
	}
}

// A task that comes up goes to a pilot that has its files only if that one has a slot
// for it, and is missed by nobody who asks at the same moment.
func TestTasksThatComeUpAreMissedByNobody(t *testing.T) {
	d := newDesk(newGrid(t))
	d.addSite("A", inMode(taskqueue.ModeCentralized))
	holder, idle := d.solo("A", "p1", 1), d.solo("A", "p2", 1)
	w := d.mustSubmit(pairs(1))
	d.maker.Changed(&d.effects)
	holder.pull()
	idle.pull()
	comesUp := func() { // the reader of what the holder has made
		t.Helper()
		p := holder.message()
		p.Places.FreeSlots, p.Places.Prefill = 0, 1 // it is busy otherwise
		if got := holder.take(&p, d.serve(&p)); len(got) > 0 {
			t.Fatalf("a pilot without a free slot got %v", got)
		}
	}
	holder.finish(task.NewID(w, "first[0]"))
	comesUp()
	waits := func(task.PilotID) matchmaker.Stance { return matchmaker.Waits }
	if calls := d.maker.CallIn("A", waits); !slices.Equal(calls, []task.PilotID{idle.id}) {
		t.Errorf("called in are %v, want the pilot with a free slot, %s", calls, idle.id)
	}
	if calls := d.maker.CallIn("A", waits); len(calls) > 0 {
		t.Errorf("called in for nothing are %v", calls)
	}
	d.maker.Reset()
	comesUp()
	asks := func(id task.PilotID) matchmaker.Stance {
		if id == idle.id {
			return matchmaker.Asks
		}
		return matchmaker.Away
	}
	if calls := d.maker.CallIn("A", asks); !slices.Equal(calls, []task.PilotID{idle.id}) {
		t.Errorf("called in are %v, want the pilot that asks at this moment, %s", calls, idle.id)
	}
}

// In an isolated site a file in a cache is of use to its holder only, until it
// is on a storage element.
func TestIsolatedSiteWaitsForUploads(t *testing.T) {
	d := newDesk(newGrid(t))
	d.addSite("A", inMode(taskqueue.ModeIsolated))
	maker, other := d.solo("A", "p1", 1), d.solo("A", "p2", 1)
	w := d.mustSubmit(pairs(1))
	d.maker.Changed(&d.effects)
	maker.pull()
	o := maker.finish(task.NewID(w, "first[0]"))
	maker.inHand = append(maker.inHand, task.LeasedTask{}) // it is busy otherwise
	maker.pull()
	if got := other.pull(); len(got) > 0 {
		t.Errorf("a pilot without the file got %v", got)
	}
	lfn := o.Outputs[0].LFN
	maker.news.Stored = []task.Stored{{LFN: lfn, Attempt: o.Attempt, URL: "file:///se/A/" + string(w), Size: task.GiB}}
	maker.pull()
	if got := other.pull(); !slices.Equal(got, []task.ID{task.NewID(w, "second[0]")}) {
		t.Errorf("after the upload it got %v", got)
	}
}

// What a pilot that dies held is free again, and what only it had is made
// again once another one has looked for it on the storage element.
func TestDeathOfAPilotThatHoldsLeases(t *testing.T) {
	d := newDesk(newGrid(t))
	d.addSite("A", inMode(taskqueue.ModeCentralized))
	dead, heir := d.solo("A", "p1", 1), d.solo("A", "p2", 1)
	w := d.mustSubmit(pairs(1))
	d.maker.Changed(&d.effects)
	dead.pull()
	dead.finish(task.NewID(w, "first[0]"))
	dead.pull()
	second := task.NewID(w, "second[0]")
	d.expect(task.Leased, second)
	heir.pull()
	d.clock = d.clock.Add(d.rules.Config.Match.PilotSilence)
	heir.pull()
	if care := d.tend("A"); !slices.Equal(care.Silent, []task.PilotID{dead.id}) {
		t.Errorf("silent: %v", care.Silent)
	}
	d.expect(task.Ready, second)
	if care := d.tend("A"); len(care.Lost) > 0 {
		t.Errorf("lost before anybody has looked: %v", care.Lost)
	}
	asked := taskqueue.Pulled{Site: d.siteRecord("A"), Pilot: d.pilot(heir.id)}
	d.maker.Describe(d.clock, &asked, task.Puller{})
	looks := asked.Reply.Check
	if len(looks) != 1 {
		t.Fatalf("to be looked for: %v", looks)
	}
	d.expect(task.Ready, second)
	heir.news.Lost = []task.LostFile{{LFN: looks[0].LFN, Digest: looks[0].Digest}}
	heir.pull()
	d.expect(task.Blocked, second)
	d.expect(task.Leased, task.NewID(w, "first[0]")) // to the heir
	for range 4 {
		for _, lt := range slices.Clone(heir.inHand) {
			heir.finish(lt.Task.ID)
		}
		heir.pull()
	}
	if got := d.workflow(w); got.Counts[task.Done] != 2 {
		t.Errorf("the heir left %v", got.Counts)
	}
}

// A pilot that was taken for dead, by the queue or by a master before, and calls
// again lives and gets tasks.
func TestADeadPilotThatPullsLives(t *testing.T) {
	d := newDesk(newGrid(t))
	d.addSite("A", inMode(taskqueue.ModeIsolated))
	silent, other := d.solo("A", "p1", 1), d.solo("A", "p2", 1)
	other.pull()
	d.mustSubmit(pairs(2))
	d.maker.Changed(&d.effects)
	silent.pull()
	d.commit(func(t *taskqueue.Turn) error {
		return d.rules.Tend(t, "A", &taskqueue.Care{Silent: []task.PilotID{silent.id}})
	})
	d.maker.Left("A", silent.id)
	silent.finish(silent.inHand[0].Task.ID)
	silent.pull()
	if got := silent.pull(); len(got)+len(silent.inHand) == 0 {
		t.Error("a pilot that was taken for dead calls and gets nothing")
	}
	if site := d.siteRecord("A"); site.Pilots != 2 || site.Registered != 2 {
		t.Errorf("the site counts %d pilots of %d slots, want 2", site.Pilots, site.Registered)
	}
}

// An answer that was lost is said again, and what it brought is not given
// twice over.
func TestLostAnswerToAPull(t *testing.T) {
	d := newDesk(newGrid(t))
	d.addSite("A", inMode(taskqueue.ModeCentralized))
	p := d.solo("A", "p1", 2)
	w := d.mustSubmit(bag(5))
	d.maker.Changed(&d.effects)
	lost := p.message()
	if reply := d.serve(&lost); len(reply.Leases) != 1 || len(reply.Leases[0].Tasks) != 2 {
		t.Fatalf("answered %v", reply.Leases)
	}
	p.version = 1
	if got := p.pull(); len(got) != 2 {
		t.Errorf("said again: %v, want the two tasks", got)
	}
	if n := d.workflow(w).Counts[task.Leased]; n != 2 {
		t.Errorf("%d tasks are leased to a pilot of two slots", n)
	}
}

// A cancelled task is asked back from the pilot that has it.
func TestCancelReachesThePilot(t *testing.T) {
	d := newDesk(newGrid(t))
	d.addSite("A", inMode(taskqueue.ModeCentralized))
	p, other := d.solo("A", "p1", 1), d.solo("A", "p2", 1)
	w := d.mustSubmit(bag(2))
	d.maker.Changed(&d.effects)
	got := p.pull()
	other.pull()
	d.commit(func(t *taskqueue.Turn) error {
		_, err := d.rules.CancelTask(t, got[0])
		return err
	})
	if _, called := d.effects.Pilots[p.id]; !called {
		t.Errorf("woken: %v", d.effects.Pilots)
	}
	other.pull()
	if len(other.reply.Revoked) > 0 {
		t.Errorf("the other pilot was asked for %v", other.reply.Revoked)
	}
	p.pull()
	if want := []task.Revoked{{Lease: p.of[got[0]], Task: got[0], Cancel: true}}; !slices.Equal(p.reply.Revoked, want) {
		t.Errorf("asked back %v, want %v", p.reply.Revoked, want)
	}
	p.news.Confirmed = p.reply.Revoked
	p.inHand = nil
	p.pull()
	if len(p.reply.Revoked) > 0 {
		t.Errorf("asked again for %v", p.reply.Revoked)
	}
	d.expect(task.Cancelled, task.NewID(w, got[0].Name()))
}

// What is asked back of a pilot is asked also when the lease has nothing else and its
// pilot has not heard of it, and of nobody when the pilot is gone.
func TestWhatIsAskedBackGoesWithItsPilot(t *testing.T) {
	d := newDesk(newGrid(t))
	d.addSite("A", inMode(taskqueue.ModeCentralized))
	p, other := d.solo("A", "p1", 1), d.solo("A", "p2", 1)
	d.mustSubmit(bag(1))
	d.maker.Changed(&d.effects)
	lost := p.message()
	lease := d.serve(&lost).Leases[0]
	p.version = 1
	d.commit(func(t *taskqueue.Turn) error {
		_, err := d.rules.CancelTask(t, lease.Tasks[0].Task.ID)
		return err
	})
	for range 2 {
		p.pull()
		if want := []task.Revoked{{Lease: lease.ID, Task: lease.Tasks[0].Task.ID, Cancel: true}}; !slices.Equal(p.reply.Revoked, want) {
			t.Errorf("asked back %v, want %v", p.reply.Revoked, want)
		}
	}
	d.commit(func(t *taskqueue.Turn) error {
		return d.rules.Leave(t, taskqueue.Leaving{Site: "A", Pilot: p.id, Reason: "its time is over"})
	})
	other.pull()
	if left := d.askedBack("A"); len(left) > 0 {
		t.Errorf("asked back of a pilot that has left: %v", left)
	}
}

// What a former master was asked for, and no pilot has in hand, is asked of nobody.
func TestWhatAMasterWasAskedForEndsWithItsMode(t *testing.T) {
	d := newDesk(newGrid(t))
	a := d.addSite("A")
	p := &solo{desk: d, site: "A", id: a.join("p1", 2).id, slots: 2, of: make(map[task.ID]task.LeaseID)}
	w := d.mustSubmit(bag(2))
	a.sync()
	got := a.reply.Leases[0].Tasks
	d.must(func(t *taskqueue.Turn) error {
		_, err := d.rules.CancelWorkflow(t, w)
		return err
	})
	d.addSite("A", inMode(taskqueue.ModeCentralized))
	p.inHand, p.of[got[0].Task.ID] = got[:1], a.reply.Leases[0].ID
	p.pull()
	if len(p.reply.Revoked) != 1 || p.reply.Revoked[0].Task != got[0].Task.ID {
		t.Errorf("asked back %v, want %s alone", p.reply.Revoked, got[0].Task.ID)
	}
	d.tend("A")
	if left := d.askedBack("A"); len(left) != 1 {
		t.Errorf("asked back %v, want what the pilot has", left)
	}
	p.inHand = nil
	p.pull()
	d.tend("A")
	if left := d.askedBack("A"); len(left) > 0 {
		t.Errorf("asked back although nobody has it: %v", left)
	}
}

func (d *desk) askedBack(site task.Site) (left []taskqueue.Revocation) {
	d.t.Helper()
	d.view(func(t *taskqueue.Turn) (err error) {
		left, err = t.Leases().Revocations(site)
		return err
	})
	return left
}

// A summary that does not follow the one at hand is not taken; the answer asks
// for a whole one.
func TestSummaryAfterARestart(t *testing.T) {
	d := newDesk(newGrid(t))
	d.addSite("A", inMode(taskqueue.ModeCentralized))
	p := d.solo("A", "p1", 1)
	p.pull()
	if p.version != 1 {
		t.Fatalf("version %d", p.version)
	}
	d.maker = matchmaker.New(&d.rules.Config, matcher.NewCompiler(100))
	p.cached = []task.FilePrint{7}
	p.pull()
	if p.reply.CacheVersion == 2 || p.version != 0 {
		t.Errorf("the queue says to have version %d of a cache that it has forgotten", p.reply.CacheVersion)
	}
}

// The queue counts the clauses that a site's pilots fail, as masters do.
func TestExplainWhereTheQueueMatches(t *testing.T) {
	d := newDesk(newGrid(t))
	d.addSite("A", inMode(taskqueue.ModeIsolated))
	busy, idle := d.solo("A", "p1", 1), d.solo("A", "p2", 1)
	s := pairs(1)
	s.Tasks = append(s.Tasks, job("vast", nil, nil))
	s.Tasks[2].Require = "pilot.cores >= 1000"
	w := d.mustSubmit(s)
	d.maker.Changed(&d.effects)
	busy.pull()
	busy.finish(task.NewID(w, "first[0]"))
	busy.inHand = append(busy.inHand, task.LeasedTask{}) // something else
	busy.pull()
	idle.pull()
	explain := func(name string) (x taskqueue.SiteExplanation) {
		d.view(func(t *taskqueue.Turn) error {
			e, err := d.rules.Explain(t, task.NewID(w, name))
			x = e.Sites[0]
			return err
		})
		d.maker.Explain(&x, task.NewID(w, name))
		return x
	}
	if x := explain("vast"); x.Eligible || len(x.Clauses) != 1 || x.Clauses[0].Pilots != 2 {
		t.Errorf("a task that nobody can run: %+v", x)
	}
	if x := explain("second[0]"); !x.Eligible || !strings.Contains(x.Why, "cache has all inputs that no storage element has (1 have)") {
		t.Errorf("a task that waits for its holder: %+v", x)
	}
}

// Where the queue matches, a task that has failed goes to another node first as
// well, and back when it has waited long enough for one.
func TestQueueMatchesRetriesElsewhere(t *testing.T) {
	wait := taskqueue.DefaultConfig().HandOut.ElsewhereWait
	for _, other := range []bool{true, false} {
		d := newDesk(newGrid(t))
		d.addSite("A", inMode(taskqueue.ModeIsolated))
		a, b := d.solo("A", "p1", 1), d.solo("A", "p2", 1)
		id := d.lone()
		d.maker.Changed(&d.effects)
		if got := a.pull(); !slices.Equal(got, []task.ID{id}) {
			t.Fatalf("the first pilot got %v", got)
		}
		b.pull()
		a.finish(id)
		a.news.Outcomes[0].OK, a.news.Outcomes[0].Failure = false, task.PayloadFailed
		a.pull()
		d.tick(5 * time.Second) // the backoff
		if a.pull(); len(a.reply.Leases) > 0 {
			t.Errorf("the node at which it failed got %v again", a.reply.Leases)
		}
		if other {
			if got := b.pull(); !slices.Equal(got, []task.ID{id}) {
				t.Errorf("the other node got %v", got)
			}
			continue
		}
		d.tick(wait)
		if a.pull(); len(a.reply.Leases) != 1 {
			t.Errorf("after %s without another node it got %v", wait, a.reply.Leases)
		}
	}
}

// Where the queue matches, a task that its site's only node has failed goes to another site
// first, too.
func TestQueueMatchesRetriesAtAnotherSite(t *testing.T) {
	d := newDesk(newGrid(t))
	d.addSite("A", inMode(taskqueue.ModeIsolated))
	d.addSite("B", inMode(taskqueue.ModeIsolated))
	a := d.solo("A", "p1", 1)
	id := d.lone()
	d.maker.Changed(&d.effects)
	if got := a.pull(); !slices.Equal(got, []task.ID{id}) {
		t.Fatalf("the first pilot got %v", got)
	}
	b := d.solo("B", "p2", 1)
	b.pull()
	a.finish(id)
	a.news.Outcomes[0].OK, a.news.Outcomes[0].Failure = false, task.StorageFailed
	a.pull()
	d.tick(5 * time.Second) // the backoff
	if a.pull(); len(a.reply.Leases) > 0 {
		t.Errorf("the site that failed it got %v again", a.reply.Leases)
	}
	if got := b.pull(); !slices.Equal(got, []task.ID{id}) {
		t.Errorf("the other site got %v", got)
	}
}
