package taskqueue_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

func TestRefusedClassIsPassedOver(t *testing.T) {
	g := newGrid(t)
	a := g.addSite("A")
	a.join("peer", 4)
	var tasks []task.Task
	for i := range 100 {
		big := job(fmt.Sprintf("big[%02d]", i), nil, nil)
		big.Require = "pilot.memory >= 64 * GiB"
		tasks = append(tasks, big)
	}
	tasks = append(tasks, job("small", nil, nil))
	w := g.mustSubmit(taskqueue.Submission{Name: "w", Tasks: tasks})
	a.sync()
	if slices.Contains(a.held(), "small") {
		t.Fatal("the newest task was given first")
	}
	class := tasks[0].Class()
	refuse := func() { a.refuse(class) }
	refuse()
	a.sync()
	if !slices.Equal(a.held(), []string{"small"}) {
		t.Errorf("after the refusal A holds %v, want what its pilot can run", a.held())
	}
	g.check()
	a.work()
	a.sync()
	g.clock = g.clock.Add(9 * time.Minute)
	if a.sync(); len(a.held()) != 0 {
		t.Errorf("offered again after 9 min: %v", a.held())
	}
	g.clock = g.clock.Add(2 * time.Minute)
	if a.sync(); len(a.held()) == 0 {
		t.Error("not offered again after 11 min")
	}
	refuse()
	a.sync()
	a.join("bigger", 1)
	if a.sync(); len(a.held()) == 0 {
		t.Error("not offered again after a pilot came")
	}
	g.expect(task.Done, task.NewID(w, "small"))
	g.check()
}

// A mistyped site among those whose storage elements a site is to read is told
// at once, with the names that there are; two sites can read each other's.
func TestReachNamesSitesThatThereAre(t *testing.T) {
	g := newGrid(t)
	set := func(name task.Site, reach ...task.Site) error {
		return g.update(func(turn *taskqueue.Turn) error {
			_, err := g.rules.AddSite(turn, taskqueue.SiteRecord{Name: name, SiteSettings: taskqueue.SiteSettings{SE: "file:///se", RemoteRead: true, Reach: reach}})
			return err
		})
	}
	for _, c := range []struct {
		name  task.Site
		reach []task.Site
		want  string // "" if it is taken
	}{
		{"A", []task.Site{"B"}, "no site yet"}, {"A", nil, ""}, {"B", []task.Site{"A"}, ""}, {"A", []task.Site{"B"}, ""},
		{"A", []task.Site{"b"}, "no site b (beside A there is B)"}, {"A", []task.Site{"A"}, "always reads its own"},
	} {
		err := set(c.name, c.reach...)
		if c.want == "" && err != nil || c.want != "" && (!errors.Is(err, taskqueue.ErrInvalid) || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("site %s reads %v: %v, want %q", c.name, c.reach, err, c.want)
		}
	}
	if err := g.remove("B"); err != nil {
		t.Fatal(err)
	}
	if err := set("A", "B"); err != nil {
		t.Errorf("a name that was good once: %v", err)
	}
}

// A master may ask its pilots before it has met one that the queue knows: its
// refusal says nothing of that one, in whatever order the queue hears of them.
func TestRefusalOfAMasterThatHadNotMetThePilot(t *testing.T) {
	g := newGrid(t)
	a := g.addSite("A")
	a.join("peer", 1)
	big := job("big", nil, nil)
	big.Require = "pilot.memory >= 64 * GiB"
	g.mustSubmit(taskqueue.Submission{Name: "w", Tasks: []task.Task{big}})
	a.sync()
	for _, apart := range []bool{true, false} {
		bigger := a.join(task.PeerID(fmt.Sprint("bigger", apart)), 1)
		if apart {
			bigger.listed = true // its master does not know of it yet
		}
		a.refuse(big.Class())
		if a.sync(); apart && len(a.held()) != 0 {
			t.Fatal("offered again at once")
		}
		bigger.listed = !apart
		if a.sync(); len(a.held()) == 0 {
			t.Errorf("not offered again after the master met the pilot, apart from its refusal: %t", apart)
		}
	}
	g.check()
}

// refuse gives everything back, since no pilot of the site can run the class.
func (c *crew) refuse(class task.Class) {
	for lease, held := range c.leases {
		for id, lt := range held {
			c.next.Returns = append(c.next.Returns, task.Returned{Task: id, Generation: lt.Generation, Lease: lease})
			delete(held, id)
		}
	}
	c.next.Refused = []task.Refusal{{Class: class, Pilots: 1, Clauses: []task.ClauseCount{{Clause: class.Require, Pilots: 1}}}}
}

func TestPriorityThenAge(t *testing.T) {
	g := newGrid(t)
	a := g.addSite("A")
	a.join("peer", 1)
	tasks := []task.Task{job("old", nil, nil), job("urgent", nil, nil), job("young", nil, nil), job("late", nil, nil), job("low", nil, nil)}
	tasks[1].Priority, tasks[4].Priority = 5, -1
	g.mustSubmit(taskqueue.Submission{Name: "w", Tasks: tasks})
	g.rules.Config.HandOut.FloorTasks = 3
	reply := a.sync()
	var got []string
	for _, lt := range reply.Leases[0].Tasks {
		got = append(got, lt.Task.ID.Name())
	}
	if !slices.Equal(got, []string{"urgent", "old", "young"}) {
		t.Errorf("handed out %v", got)
	}
}

func TestSiteSums(t *testing.T) {
	g := newGrid(t)
	a := g.addSite("A")
	g.addSite("B")
	a.join("peer", 2)
	w := g.mustSubmit(taskqueue.Submission{
		Name: "w", Files: []task.File{at("in", 100, "B")},
		Tasks: []task.Task{job("one", []string{"in"}, []string{"x"}), job("two", []string{"x"}, nil), job("bad", nil, nil)},
	})
	a.sync()
	one, two, bad := task.NewID(w, "one"), task.NewID(w, "two"), task.NewID(w, "bad")
	digest := task.Digest{7}
	x := a.start(one, a.members[0])
	x.reads[0].Source, x.reads[0].Digest = task.SourceRemote, digest
	o := a.succeed(x)
	o.Stdout = []byte("hello")
	a.end(one, o)
	x = a.start(two, a.members[0])
	x.reads[0].Source = task.SourceLocal
	o = a.succeed(x)
	o.Delay = 3 * time.Millisecond
	a.end(two, o)
	f := a.fail(a.start(bad, a.members[0]), task.PayloadFailed)
	f.Delay = -1
	a.end(bad, f)
	report := task.SiteReport{Seq: 1, SEReads: []task.SERead{{Owner: "B", Files: 1, Bytes: 100}, {Owner: "A", Files: 2, Bytes: 7}}, Replicas: task.ReplicaSum{Files: 2, Bytes: 9}}
	for range 2 {
		a.next.Report = report
		if reply := a.sync(); reply.ReportSeq != 1 {
			t.Errorf("report %d acknowledged", reply.ReportSeq)
		}
	}
	g.must(func(turn *taskqueue.Turn) error {
		return g.rules.CountRequests(turn, "A", map[string]uint64{"Sync": 5, "Register": 1}, 2)
	})
	s := g.siteRecord("A").Sums
	if s.Tasks != 2 || s.Failures != 1 || s.Busy != 3*time.Second {
		t.Errorf("tasks %d, failures %d, busy %s", s.Tasks, s.Failures, s.Busy)
	}
	if s.External.Reads != [4]uint64{3: 1} || s.External.Bytes[3] != 100 || s.Intermediate.Reads != [4]uint64{0: 1} || s.Intermediate.Bytes[0] != 10 {
		t.Errorf("reads: external %+v, intermediate %+v", s.External, s.Intermediate)
	}
	if s.DelayCount != 2 || s.DelaySum != 13*time.Millisecond || s.DelayBucket[3] != 1 || s.DelayBucket[4] != 1 {
		t.Errorf("delays: %d, %s, %v", s.DelayCount, s.DelaySum, s.DelayBucket)
	}
	if s.Requests != 6 || s.Methods["Sync"] != 5 || s.StaleTerms != 2 {
		t.Errorf("requests %d, %v, stale %d", s.Requests, s.Methods, s.StaleTerms)
	}
	if s.SEReads != 2 || g.siteRecord("B").Sums.SEReadBytes != 100 {
		t.Errorf("storage reads %d at A, %d bytes at B", s.SEReads, g.siteRecord("B").Sums.SEReadBytes)
	}
	if s.Replicas != (task.ReplicaSum{Files: 2, Bytes: 9}) {
		t.Errorf("replicas %+v, the report told of 2 with 9 bytes", s.Replicas)
	}
	if in := g.file(task.Qualify(w, "in")); in.Digest != digest || !in.Learned {
		t.Errorf("the digest of the first read is not kept: %+v", in)
	}
	g.view(func(turn *taskqueue.Turn) error {
		stdout, _, err := turn.Attempts().LoadLog(g.state(one).Winner)
		if string(stdout) != "hello" {
			t.Errorf("log %q", stdout)
		}
		return err
	})
	g.check()
}

func TestNewSiteMayRunWhatWaits(t *testing.T) {
	g := newGrid(t)
	g.addSite("A", func(s *taskqueue.SiteRecord) { s.RemoteRead = false })
	g.addSite("B", func(s *taskqueue.SiteRecord) { s.RemoteRead = false })
	w := g.mustSubmit(taskqueue.Submission{
		Name: "w", Files: []task.File{at("a", 1, "A"), at("b", 1, "B")},
		Tasks: []task.Task{job("both", []string{"a", "b"}, nil), job("one", []string{"a"}, nil)},
	})
	both := task.NewID(w, "both")
	g.tick(time.Second)
	g.expect(task.Blocked, both)
	c := g.addSite("C")
	c.join("peerC", 2)
	g.view(func(turn *taskqueue.Turn) error {
		due, err := g.rules.Deadline(turn, false)
		if due != g.clock {
			t.Errorf("the next tick is due in %s, want at once", due.Sub(g.clock))
		}
		return err
	})
	g.tick(0)
	g.tick(0)
	g.expect(task.Ready, both)
	g.check()
	if c.sync(); len(c.held()) != 2 {
		t.Errorf("C reads everything and gets %v", c.held())
	}
	g.view(func(turn *taskqueue.Turn) error {
		due, err := g.rules.Deadline(turn, false)
		if due != g.clock.Add(time.Second) {
			t.Errorf("the next tick is due in %s, want 1 s", due.Sub(g.clock))
		}
		return err
	})
}

// Whoever waits for a workflow right after its site was given a storage element
// waits for the upload of its results: it is not over any more.
func TestResultsOfASiteThatGetsAStorageElementAreAwaited(t *testing.T) {
	g := newGrid(t)
	a := g.addSite("A", func(s *taskqueue.SiteRecord) { s.SE = "" })
	a.join("peerA", 1)
	id := g.mustSubmit(taskqueue.Submission{Name: "w", Tasks: []task.Task{job("one", nil, []string{"x"})}, Outputs: []string{"x"}})
	a.sync()
	a.work()
	a.sync()
	if w := g.workflow(id); !w.Over() || w.Homeless != 1 {
		t.Fatalf("nobody can store its result: %+v", w)
	}
	g.addSite("A")
	if w := g.workflow(id); w.Over() || w.Homeless != 0 {
		t.Errorf("its result can be stored: %+v", w)
	}
	g.check()
}

func TestFilesGoOnlyWhereTheyCanBeRead(t *testing.T) {
	g := newGrid(t)
	g.addSite("B")
	g.addSite("C")
	a := g.addSite("A", func(s *taskqueue.SiteRecord) { s.RemoteRead = true; s.Reach = []task.Site{"C"} })
	a.join("peer", 4)
	g.mustSubmit(taskqueue.Submission{
		Name: "w", Files: []task.File{at("own", 1, "B", "A"), at("near", 1, "C"), at("far", 1, "B")},
		Tasks: []task.Task{job("own", []string{"own"}, nil), job("near", []string{"near"}, nil), job("far", []string{"far"}, nil)},
	})
	reply := a.sync()
	if got := a.held(); !slices.Equal(got, []string{"own", "near"}) {
		t.Errorf("A, which may read itself and C, gets %v", got)
	}
	for _, f := range reply.Leases[0].Files {
		if f.LFN.Local() == "own" && (len(f.Replicas) != 1 || f.Replicas[0].Site != "A") {
			t.Errorf("A is told of copies that it may not read: %+v", f.Replicas)
		}
	}
	g.check()
}

func TestWorkGoesToItsDataWhileThatSiteHasRoom(t *testing.T) {
	g := newGrid(t)
	a, b := g.addSite("A"), g.addSite("B")
	a.join("peerA", 4)
	b.join("peerB", 4)
	var tasks []task.Task
	for i := range 4 {
		tasks = append(tasks, job(fmt.Sprintf("a[%d]", i), []string{"fa"}, nil), job(fmt.Sprintf("b[%d]", i), []string{"fb"}, nil))
	}
	g.mustSubmit(taskqueue.Submission{Name: "w", Files: []task.File{at("fa", 9, "A"), at("fb", 9, "B")}, Tasks: tasks})
	b.sync()
	a.sync()
	for _, c := range []*crew{a, b} {
		if len(c.held()) != 4 || slices.ContainsFunc(c.held(), func(name string) bool { return name[0] != c.site[0]+32 }) {
			t.Errorf("site %s holds %v, want the 4 tasks whose input it stores", c.site, c.held())
		}
	}
	// B alone is left with work that prefers A, whose pilots are busy or gone.
	more := g.mustSubmit(taskqueue.Submission{Name: "more", Files: []task.File{at("fa", 9, "A")}, Tasks: []task.Task{job("x", []string{"fa"}, nil)}})
	g.clock = g.clock.Add(11 * time.Second)
	b.work()
	b.sync()
	g.expect(task.Leased, task.NewID(more, "x"))
	g.check()
}

// TestOneSitesDigestBindsThatSite: a rogue site cannot decide for others what an
// external file holds whose digest nobody gave.
func TestOneSitesDigestBindsThatSite(t *testing.T) {
	g := newGrid(t)
	sites := make(map[task.Site]*crew)
	run := taskqueue.Submission{Name: "w", Files: []task.File{at("in", 100, "A", "B", "C")}}
	for _, name := range []task.Site{"A", "B", "C"} {
		sites[name] = g.addSite(name, func(s *taskqueue.SiteRecord) { s.RemoteRead = false })
		own := "own-" + string(name)
		run.Files = append(run.Files, at(own, 1, name))
		for _, at := range []string{"first-", "then-"} {
			run.Tasks = append(run.Tasks, job(at+string(name), []string{"in", own}, nil))
		}
	}
	w := g.mustSubmit(run)
	in := task.Qualify(w, "in")
	lie, truth := task.Digest{66}, task.Digest{7}
	// told is the digest that a site is told with its tasks.
	told := func(site task.Site) (digest task.Digest) {
		c := sites[site]
		if len(c.members) == 0 {
			c.join(task.PeerID("peer-"+site), 1)
		}
		c.forget()
		for _, lease := range c.sync().Leases {
			for _, f := range lease.Files {
				if f.LFN == in {
					digest = f.Digest
				}
			}
		}
		return digest
	}
	reads := func(site task.Site, name string, digest task.Digest) {
		c, id := sites[site], task.NewID(w, name+string(site))
		x := c.start(id, c.members[0])
		for i := range x.reads {
			if x.reads[i].Source = task.SourceSE; x.reads[i].LFN == in {
				x.reads[i].Digest = digest
			}
		}
		c.end(id, c.succeed(x))
		c.sync()
	}
	for _, step := range []struct {
		site   task.Site
		told   task.Digest
		task   string
		digest task.Digest
	}{
		{"A", task.Digest{}, "first-", lie},
		{"A", lie, "", lie},
		{"B", task.Digest{}, "first-", truth}, // the lie binds A only, and B's word takes its place
		{"A", task.Digest{}, "", lie},
		{"C", task.Digest{}, "first-", truth}, // a second site agrees
		{"A", truth, "then-", lie},
		{"B", truth, "then-", truth},
	} {
		if got := told(step.site); got != step.told {
			t.Errorf("%s is told %v, want %v", step.site, got[0], step.told[0])
		}
		if step.task != "" {
			reads(step.site, step.task, step.digest)
		}
	}
	if f := g.file(in); f.Digest != truth || f.LearnedAt != "" {
		t.Errorf("the catalogue has %v of %q", f.Digest[0], f.LearnedAt)
	}
	g.check()
}
