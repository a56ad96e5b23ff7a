package taskqueue_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

// smallPages makes the rules look at two records at a time.
func smallPages(g *grid) {
	config := taskqueue.DefaultConfig()
	config.Workflow.SweepPage = 2
	g.rules = taskqueue.NewRules(config)
}

// makes has a member run one task per name, each with one output.
func (c *crew) makes(names []string, by func(name string) *member) []task.LFN {
	var tasks []task.Task
	for _, name := range names {
		tasks = append(tasks, job(name, nil, []string{name + ".out"}))
	}
	w := c.grid.mustSubmit(taskqueue.Submission{Name: "made", Tasks: tasks, Outputs: []string{names[0] + ".out"}})
	var made []task.LFN
	for len(made) < len(names) {
		c.sync()
		for _, name := range names {
			id := task.NewID(w, name)
			if c.grid.state(id).State != task.Leased {
				continue
			}
			c.end(id, c.succeed(c.start(id, by(name))))
			made = append(made, task.Qualify(w, name+".out"))
		}
		c.sync()
	}
	slices.Sort(made)
	return made
}

// Many files have makers that live; behind them lies one whose maker is gone.
func TestUnguardedFilesAreFoundBehindManyGuarded(t *testing.T) {
	g := newGrid(t)
	smallPages(g)
	a := g.addSite("A")
	a.join("peer1", 4)
	keeper, maker := a.join("peer2", 4), a.join("peer3", 4)
	var names []string
	for i := range 40 {
		names = append(names, fmt.Sprintf("t%02d", i))
	}
	last := names[len(names)-1]
	made := a.makes(names, func(name string) *member {
		if name == last {
			return maker
		}
		return keeper
	})
	a.members = slices.DeleteFunc(a.members, func(m *member) bool { return m == maker })
	a.next.Departed = []task.Departure{{Pilot: maker.id, Dead: true}}
	asked := false
	for range 10 {
		reply := a.sync()
		for _, file := range reply.Check {
			asked = asked || file.LFN == made[len(made)-1]
		}
		a.next = task.Sync{}
	}
	if !asked {
		t.Errorf("never asked for %s", made[len(made)-1])
	}
	a.upload(made[len(made)-1])
	for range 10 {
		a.sync()
	}
	if g.siteRecord("A").Check {
		t.Error("the queue goes on looking when everything has its maker or is stored")
	}
	g.check()
}

// A site loses all pilots and with them its caches; before everything in them
// is forgotten a new one comes. What is left is asked for, not forgotten
// unseen.
func TestForgettingEndsWhenAPilotComes(t *testing.T) {
	g := newGrid(t)
	smallPages(g)
	a := g.addSite("A")
	only := a.join("peer1", 4)
	made := a.makes([]string{"t0", "t1", "t2", "t3", "t4", "t5"}, func(string) *member { return only })
	g.must(func(turn *taskqueue.Turn) error {
		return g.rules.Leave(turn, taskqueue.Leaving{Site: "A", Pilot: only.id, Resigns: true, Term: a.term})
	})
	a.members, a.leases = nil, nil
	a.forget()
	if !g.siteRecord("A").Forget {
		t.Fatal("nothing is left to forget")
	}
	known := func() (held int) {
		for _, name := range made {
			if slices.Contains(g.file(name).Announced, "A") {
				held++
			}
		}
		return held
	}
	left := known()
	if left == 0 || left == len(made) {
		t.Fatalf("%d of %d are not forgotten yet", left, len(made))
	}
	a.join("peer2", 4)
	for range 5 {
		g.tick(time.Second)
	}
	if got := known(); got != left {
		t.Errorf("%d files are left of %d, though a pilot is there", got, left)
	}
	if reply := a.sync(); len(reply.Check) == 0 {
		t.Error("nobody is asked for what is left")
	}
	g.check()
}

// fallsSilent has the pilots of a site count as dead, since nobody hears them.
func (c *crew) fallsSilent() {
	c.t.Helper()
	for _, m := range c.members {
		m.listed = false
	}
	c.tick(c.rules.Config.Lease.TTL)
	if site := c.siteRecord(c.site); site.Pilots != 0 || !site.Forget {
		c.t.Fatalf("the site still has %d pilots, or its caches are not to be forgotten", site.Pilots)
	}
}

// A site falls silent, and is heard again before its caches are forgotten: what they
// hold stays, and what is made from now on.
func TestForgettingEndsWhenASilentSiteIsHeard(t *testing.T) {
	g := newGrid(t)
	g.rules.Config.Workflow.LookFor = time.Minute
	a := g.addSite("A")
	only := a.join("peer1", 4)
	by := func(string) *member { return only }
	made := a.makes([]string{"before"}, by)
	a.fallsSilent()
	a.sync()
	made = append(made, a.makes([]string{"after"}, by)...)
	g.tick(g.rules.Config.Workflow.LookFor)
	g.tick(time.Second)
	for _, name := range made {
		if f := g.file(name); !slices.Contains(f.Announced, "A") {
			t.Errorf("%s is forgotten, though its maker is there", name)
		}
	}
	g.check()
}

// The queue has started, perhaps from a backup, and does not know what a pilot has stored
// since. The pilot, which has told of it once, is taken for dead and comes back, by itself
// or after another one: it is asked.
func TestWhatWasToldBeforeAStartIsAskedOfPilotsThatComeBack(t *testing.T) {
	for who, registers := range map[string]bool{"by itself": false, "after another one": true} {
		t.Run(who, func(t *testing.T) {
			g := newGrid(t)
			g.rules.Config.Workflow.LookFor = time.Minute
			a := g.addSite("A")
			maker := a.join("peer1", 4)
			made := a.makes([]string{"t"}, func(string) *member { return maker })
			g.must(g.rules.LookAgain)
			a.fallsSilent()
			if registers {
				a.join("peer2", 4)
			}
			if check := a.sync().Check; !slices.ContainsFunc(check, func(f task.File) bool { return f.LFN == made[0] }) {
				t.Errorf("nobody is asked for what the maker has stored, only for %v", check)
			}
			g.check()
		})
	}
}

// The queue starts while all pilots of a site count as dead: what these may have stored
// without a word is looked for on storage, and not taken for lost because nobody answers.
func TestASiteWithoutPilotsIsAskedNothing(t *testing.T) {
	g := newGrid(t)
	g.rules.Config.Workflow.LookFor = time.Minute
	a := g.addSite("A")
	maker := a.join("peer1", 4)
	made := a.makes([]string{"t"}, func(string) *member { return maker })
	a.fallsSilent()
	g.must(g.rules.LookAgain)
	g.view(func(turn *taskqueue.Turn) error {
		asked, err := g.rules.Unguarded(turn, "A")
		if err != nil || len(asked) > 0 {
			t.Errorf("a site without pilots is asked for %v, %v", asked, err)
		}
		vacants, err := g.rules.Vacants(turn)
		if err != nil || len(vacants) != 1 || len(vacants[0].Files) != 1 || vacants[0].Files[0].LFN != made[0] {
			t.Errorf("looked for on storage: %+v, %v", vacants, err)
		}
		return nil
	})
	if check := a.sync().Check; len(check) != 1 || check[0].LFN != made[0] {
		t.Errorf("who comes back is asked for %v", check)
	}
	g.check()
}

// The queue was put back to a backup, and has forgotten by which lease a task ran. It
// refuses the outcome; its pilot lets go of what it has made; the task is leased to the
// site anew, and the outcome comes once more, as what is under way may. It counts then, and
// the output is looked for.
func TestWhatWasRefusedIsLookedForWhenItCountsAfterAll(t *testing.T) {
	for name, ahead := range map[string]task.LeaseID{"the next lease": 0, "a later one": 3} {
		t.Run(name, func(t *testing.T) {
			g := newGrid(t)
			a := g.addSite("A")
			maker := a.join("peer1", 4)
			a.sync()
			w := g.mustSubmit(taskqueue.Submission{Name: "w", Tasks: []task.Task{job("t", nil, []string{"t.out"})}})
			id := task.NewID(w, "t")
			forgotten := task.AttemptID{Task: id, Generation: 1, Lease: 1 + ahead, Pilot: maker.id, Counter: 1}
			late := a.succeed(&attempt{id: forgotten, number: 1})
			if verdict := a.deliver(late); verdict != task.AckUnknown {
				t.Fatalf("before the task is leased again the outcome is answered %v", verdict)
			}
			a.sync()
			if again := g.state(id).Lease; again <= forgotten.Lease {
				t.Fatalf("it is leased again by lease %d, which its pilot knows as another one", again)
			}
			if verdict := a.deliver(late); verdict != task.AckAccepted {
				t.Fatalf("when the task is leased again the outcome is answered %v", verdict)
			}
			if check := a.sync().Check; !slices.ContainsFunc(check, func(f task.File) bool { return f.LFN == task.Qualify(w, "t.out") }) {
				t.Errorf("nobody is asked for what its maker has let go of, only for %v", check)
			}
			g.check()
		})
	}
}

// What a pilot says of leases that never were moves the numbers of new ones by little, and
// does not hide what another one says of a lease that the queue has forgotten.
func TestForgedLeasesDoNotUseUpTheNumbers(t *testing.T) {
	g := newGrid(t)
	a := g.addSite("A")
	maker := a.join("peer1", 4)
	a.sync()
	w := g.mustSubmit(taskqueue.Submission{Name: "w", Tasks: []task.Task{job("t", nil, nil)}})
	id := task.NewID(w, "t")
	var outcomes []task.Outcome
	for _, lease := range []task.LeaseID{7, 1 << 33, 1 << 63} {
		outcomes = append(outcomes, a.succeed(&attempt{id: task.AttemptID{Task: id, Generation: 1, Lease: lease, Pilot: maker.id, Counter: 1}, number: 1}))
	}
	if verdict := a.deliver(outcomes...); verdict != task.AckUnknown {
		t.Fatalf("the outcomes are answered %v", verdict)
	}
	a.sync()
	if lease := g.state(id).Lease; lease <= 7 || lease >= 1<<33 {
		t.Errorf("the next lease has the number %d", lease)
	}
}

// Whoever made something under a lease that the queue knows keeps it, and is not asked.
func TestWhatIsMadeUnderAKnownLeaseIsNotLookedFor(t *testing.T) {
	g := newGrid(t)
	a := g.addSite("A")
	maker := a.join("peer1", 4)
	a.makes([]string{"t"}, func(string) *member { return maker })
	if check := a.sync().Check; len(check) > 0 {
		t.Errorf("the site is asked for %v", check)
	}
}
