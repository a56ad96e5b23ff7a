package factory_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/pilot/factory"
	"github.com/pilotage-grid/pilotage/task"
)

// farm plays a batch system, its nodes and the queue around a factory.
type farm struct {
	t       *testing.T
	f       *factory.Factory
	config  factory.Config
	now     time.Time
	jobs    []*farmJob
	kept    factory.Kept
	classes []factory.Class
	free    int
	setBack []factory.Node
	slots   int // of the batch system, in jobs
	nodes   []string
	bad     map[string]bool
	down    bool // the batch system lists nothing
	refuse  string
	gone    []factory.Pilot
	notes   []string
	submits int
	traced  bool                                                    // jobs write logs
	list    func(at time.Time, job *farmJob) (factory.Listed, bool) // how the batch system shows a job; nil is as it is
}

type farmJob struct {
	factory.Listed
	exclude []string
	shape   string
	began   time.Time
}

func newFarm(t *testing.T, shapes ...factory.Shape) *farm {
	t.Helper()
	if shapes == nil {
		shapes = []factory.Shape{{Name: "eight", Resources: task.Resources{Cores: 8, Memory: 16 * task.GiB, Disk: 100 * task.GiB}, Walltime: 12 * time.Hour}}
	}
	s := &farm{
		t: t, now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), slots: 1000, nodes: []string{"n0", "n1", "n2", "n3", "n4", "n5", "n6", "n7", "n8", "n9"},
		bad: make(map[string]bool), config: factory.Config{Site: "siteA", Shapes: shapes, Max: 200, Backlog: 4},
	}
	if err := s.config.Validate(); err != nil {
		t.Fatal(err)
	}
	s.f = factory.New(s.config, factory.Kept{Mark: "pabcd"}, rand.New(rand.NewPCG(1, 2)))
	return s
}

func (s *farm) restart() {
	s.f = factory.New(s.config, s.kept, rand.New(rand.NewPCG(3, 4)))
}

// Slurm gives every job a reason, None to one that runs: only that of a pending one counts.
func TestOnlyPendingJobsSayWhyTheyWait(t *testing.T) {
	s := newFarm(t)
	s.step(factory.Demand{Classes: []factory.Class{class(16, 8, task.GiB)}})
	s.step(factory.Listing{Asked: s.now})
	if len(s.jobs) < 2 {
		t.Fatalf("%d jobs", len(s.jobs))
	}
	s.now = s.now.Add(15 * time.Second)
	listing := factory.Listing{Asked: s.now, Jobs: []factory.Listed{
		{ID: "1", Name: s.jobs[0].Name, State: factory.Running, Why: "None"}, {ID: "2", Name: s.jobs[1].Name, State: factory.Pending, Why: "Resources"},
	}}
	s.step(listing)
	for i, want := range []string{"", "Resources"} {
		if jobs := s.f.Jobs(); jobs[i].Why != want {
			t.Errorf("a %s job waits for %q", jobs[i].State, jobs[i].Why)
		}
	}
}

func class(tasks, cores int, memory task.Bytes) factory.Class {
	return factory.Class{Class: task.Class{Resources: task.Resources{Cores: cores, Memory: memory}}, Tasks: tasks, Walltime: time.Hour, Live: true}
}

func (s *farm) step(e factory.Event) {
	kept := false
	for _, action := range s.f.Step(s.now, e) {
		switch a := action.(type) {
		case factory.Keep:
			s.kept, kept = a.Kept, true
		case factory.Submit:
			if !kept || !slices.ContainsFunc(s.kept.Jobs, func(j factory.Job) bool { return j.Name == a.Name }) {
				s.t.Errorf("job %s is submitted before its name is kept", a.Name)
			}
			s.submits++
			if s.refuse != "" {
				s.step(factory.SubmitFailed{Name: a.Name, Err: s.refuse, Certain: true})
				continue
			}
			for _, job := range s.jobs {
				if job.Name == a.Name {
					s.t.Errorf("%s is submitted twice", a.Name)
				}
			}
			id := fmt.Sprint(len(s.jobs) + 1)
			s.jobs = append(s.jobs, &farmJob{Listed: factory.Listed{ID: id, Name: a.Name, State: factory.Pending}, exclude: a.Exclude, shape: a.Shape.Name})
			s.step(factory.Submitted{Name: a.Name, ID: id})
		case factory.Cancel:
			for _, job := range s.jobs {
				if slices.Contains(a.IDs, job.ID) {
					if job.State != factory.Pending {
						s.t.Errorf("job %s is cancelled in state %s", job.Name, job.State)
					}
					job.State = factory.Ended
				}
			}
		case factory.Note:
			s.notes = append(s.notes, a.What+": "+a.Why)
		}
	}
}

func (s *farm) in(state factory.State) (n int) {
	for _, job := range s.jobs {
		if job.State == state {
			n++
		}
	}
	return n
}

// run lets the time pass in polls.
func (s *farm) run(d time.Duration) {
	for end := s.now.Add(d); s.now.Before(end); {
		s.now = s.now.Add(15 * time.Second)
		s.nature()
		if s.down {
			s.step(factory.ListingFailed{Err: "no answer"})
		} else {
			var listed []factory.Listed
			for _, job := range s.jobs {
				shown, listing := job.Listed, job.State != factory.Ended
				if s.list != nil && listing {
					shown, listing = s.list(s.now, job)
				}
				if listing {
					listed = append(listed, shown)
				}
			}
			traces := make(map[string]factory.Trace)
			for _, job := range s.jobs {
				if s.traced && s.bad[job.Node] {
					traces[job.Name] = factory.Trace{Node: job.Node, Last: "exec: pilotage: no such file"}
				}
			}
			s.step(factory.Listing{Asked: s.now, Jobs: listed, Traces: traces})
		}
		s.step(s.demand())
		if s.in(factory.Pending) > s.config.Backlog {
			s.t.Fatalf("%d jobs are pending, backlog %d", s.in(factory.Pending), s.config.Backlog)
		}
	}
}

// nature starts jobs and has those at bad nodes die.
func (s *farm) nature() {
	for i, job := range s.jobs {
		switch {
		case job.State == factory.Pending && s.in(factory.Running) < s.slots:
			for k := range s.nodes {
				if node := s.nodes[(i+k)%len(s.nodes)]; !slices.Contains(job.exclude, node) {
					job.State, job.Node, job.began = factory.Running, node, s.now
					break
				}
			}
		case job.State == factory.Running && s.bad[job.Node] && s.now.Sub(job.began) >= 15*time.Second:
			job.State = factory.Ended
		}
	}
}

func (s *farm) demand() factory.Demand {
	d := factory.Demand{Classes: s.classes, Nodes: s.setBack, Pilots: s.gone, FreeSlots: s.free}
	for _, job := range s.jobs {
		if job.State == factory.Running && !s.bad[job.Node] {
			d.Pilots = append(d.Pilots, factory.Pilot{ID: task.PilotID("p-" + job.Name), Job: job.Name, Node: job.Node, Alive: true})
		}
	}
	return d
}

func TestJobsComeWithDemandAndOnlySoMany(t *testing.T) {
	s := newFarm(t)
	s.run(time.Minute)
	if len(s.jobs) != 0 {
		t.Fatalf("%d jobs without a task", len(s.jobs))
	}
	fresh := newFarm(t)
	fresh.slots = 0
	fresh.config.Backlog = 100
	fresh.f = factory.New(fresh.config, factory.Kept{Mark: "pabcd"}, rand.New(rand.NewPCG(1, 2)))
	fresh.classes = []factory.Class{class(200, 1, task.GiB)}
	fresh.run(10 * time.Minute)
	if n := len(fresh.jobs); n != 25 {
		t.Errorf("%d jobs with 8 cores for 200 tasks of one, want 25", n)
	}
}

func TestMemoryAndWalltimeCount(t *testing.T) {
	s := newFarm(t)
	s.slots, s.config.Backlog = 0, 100
	s.restart()
	s.classes = []factory.Class{class(10, 1, 8*task.GiB)} // two fit into 16 GiB
	s.run(5 * time.Minute)
	if len(s.jobs) != 5 {
		t.Errorf("%d jobs for ten tasks of 8 GiB in 16, want 5", len(s.jobs))
	}
	long := class(10, 1, task.GiB)
	long.Walltime = 12 * time.Hour
	big := class(3, 1, 64*task.GiB)
	s.classes = append(s.classes, long, big)
	s.run(time.Minute)
	if len(s.jobs) != 5 {
		t.Errorf("%d jobs for tasks that no job can run", len(s.jobs)-5)
	}
	unmet := 0
	for _, u := range s.f.Status(s.now).Unmet {
		unmet += u.Tasks
	}
	if unmet != 13 {
		t.Errorf("unmet: %+v", s.f.Status(s.now).Unmet)
	}
}

func TestTheFirstShapeThatFits(t *testing.T) {
	small := factory.Shape{Name: "small", Resources: task.Resources{Cores: 4, Memory: 8 * task.GiB}, Walltime: time.Hour * 3}
	fat := factory.Shape{Name: "fat", Resources: task.Resources{Cores: 4, Memory: 128 * task.GiB}, Walltime: time.Hour * 3, Max: 2}
	s := newFarm(t, small, fat)
	s.slots, s.config.Backlog = 0, 100
	s.restart()
	s.classes = []factory.Class{class(8, 1, task.GiB), class(9, 1, 32*task.GiB)}
	s.run(2 * time.Minute)
	count := map[string]int{}
	for _, job := range s.jobs {
		count[job.shape]++
	}
	// Two fat jobs are allowed: they have places for 8 of the 9, and memory for none of the small.
	if count["fat"] != 2 || count["small"] != 2 {
		t.Errorf("jobs by shape %v, want 2 fat and 2 small", count)
	}
}

func TestFreeSlotsAndPendingJobsAreSupply(t *testing.T) {
	s := newFarm(t)
	s.slots, s.config.Backlog = 0, 100
	s.restart()
	s.free = 20
	s.classes = []factory.Class{class(20, 1, task.GiB)}
	s.run(2 * time.Minute)
	if len(s.jobs) != 0 {
		t.Fatalf("%d jobs beside 20 free slots for 20 tasks", len(s.jobs))
	}
	s.classes[0].Live = false // no pilot that lives can run it
	s.run(2 * time.Minute)
	if len(s.jobs) != 3 {
		t.Errorf("%d jobs, want 3", len(s.jobs))
	}
	s.run(time.Hour)
	if len(s.jobs) != 3 {
		t.Errorf("%d jobs after an hour of waiting, want 3", len(s.jobs))
	}
}

func TestARestartSubmitsNothingTwice(t *testing.T) {
	for seed := range uint64(50) {
		s := newFarm(t)
		random := rand.New(rand.NewPCG(seed, 7))
		s.slots, s.config.Backlog = random.IntN(5), 100
		s.restart()
		s.classes = []factory.Class{class(64, 1, task.GiB)}
		for range 40 {
			s.run(15 * time.Second)
			if random.IntN(3) == 0 {
				s.restart()
			}
		}
		if n := s.in(factory.Pending) + s.in(factory.Running); n > 8+s.slots {
			t.Fatalf("seed %d: %d jobs, 8 are enough", seed, n)
		}
	}
}

// A factory that was killed between a submission and its answer finds the job by name.
func TestAJobWhoseSubmissionWasNotSeenIsFound(t *testing.T) {
	s := newFarm(t)
	s.slots = 0
	s.classes = []factory.Class{class(8, 1, task.GiB)}
	actions := s.f.Step(s.now, factory.Listing{Asked: s.now})
	actions = append(actions, s.f.Step(s.now, s.demand())...)
	var submit *factory.Submit
	for _, action := range actions {
		switch a := action.(type) {
		case factory.Keep:
			s.kept = a.Kept
		case factory.Submit:
			submit = &a
		}
	}
	if submit == nil {
		t.Fatal("nothing was submitted")
	}
	s.jobs = []*farmJob{{Listed: factory.Listed{ID: "77", Name: submit.Name, State: factory.Pending}}}
	s.restart()
	s.run(10 * time.Minute)
	if len(s.jobs) != 1 || s.f.Jobs()[0].ID != "77" {
		t.Errorf("%d jobs, %+v", len(s.jobs), s.f.Jobs())
	}
	// And one that never came into being is tried anew.
	s.jobs = nil
	s.restart()
	s.run(10 * time.Minute)
	if len(s.jobs) != 1 {
		t.Errorf("%d jobs, want a new one", len(s.jobs))
	}
}

func TestNoSubmissionWithoutAFreshListing(t *testing.T) {
	s := newFarm(t)
	s.run(time.Minute)
	s.down = true
	s.classes = []factory.Class{class(800, 1, task.GiB)}
	s.run(2 * time.Minute)
	before := s.submits
	if s.run(10 * time.Minute); s.submits != before || s.submits > 8 {
		t.Errorf("%d submissions while the batch system did not list", s.submits)
	}
	s.down = false
	if s.run(2 * time.Minute); s.submits == before {
		t.Error("no submission after the batch system is back")
	}
}

// Batch systems that list late, or not everything, do not have the factory submit more:
// what is known of the pilots themselves counts.
func TestLateAndPartialListings(t *testing.T) {
	for name, list := range map[string]func(at time.Time, job *farmJob) (factory.Listed, bool){
		"nothing at all": func(time.Time, *farmJob) (factory.Listed, bool) { return factory.Listed{}, false },
		"ten minutes late": func(at time.Time, job *farmJob) (factory.Listed, bool) {
			return job.Listed, at.Sub(job.began) > 10*time.Minute
		},
		"as pending for ever": func(_ time.Time, job *farmJob) (factory.Listed, bool) {
			return factory.Listed{ID: job.ID, Name: job.Name, State: factory.Pending}, true
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newFarm(t)
			s.list = list
			s.classes = []factory.Class{class(32, 1, task.GiB)}
			s.run(15 * time.Second)
			s.classes = nil
			if len(s.jobs) != 4 {
				t.Fatalf("%d jobs", len(s.jobs))
			}
			s.run(20 * time.Minute)
			for _, job := range s.f.Jobs() {
				if job.State != factory.Running {
					t.Errorf("job %+v has a pilot", job)
				}
			}
			if len(s.f.Jobs()) != 4 || s.in(factory.Running) != 4 {
				t.Errorf("%d jobs are known, %d run", len(s.f.Jobs()), s.in(factory.Running))
			}
		})
	}
}

func TestSurplusIsCancelled(t *testing.T) {
	s := newFarm(t)
	s.slots, s.config.Backlog, s.config.Min = 0, 50, 2
	s.restart()
	s.classes = []factory.Class{class(80, 1, task.GiB)}
	s.run(2 * time.Minute)
	if s.in(factory.Pending) != 10 {
		t.Fatalf("%d pending jobs for 80 tasks", s.in(factory.Pending))
	}
	s.classes = nil
	s.run(30 * time.Second)
	if s.in(factory.Pending) != 10 {
		t.Error("jobs were cancelled at once: demand may come back")
	}
	s.run(3 * time.Minute)
	if s.in(factory.Pending) != 2 {
		t.Errorf("%d pending jobs, min is 2", s.in(factory.Pending))
	}
}

// Jobs that go out together and are all refused are one failure, not as many.
func TestRefusalsOfOneRoundPauseOnce(t *testing.T) {
	s := newFarm(t)
	s.refuse = "unrecognized option"
	s.step(factory.Demand{Classes: []factory.Class{class(800, 1, task.GiB)}})
	s.step(factory.Listing{Asked: s.now})
	if s.submits != 4 {
		t.Fatalf("%d submissions", s.submits)
	}
	s.refuse, s.now = "", s.now.Add(31*time.Second) // the first pause is 30 s
	s.step(factory.Listing{Asked: s.now})
	if s.submits != 5 {
		t.Errorf("%d submissions after the first pause, want one more, on trial: %v", s.submits, s.notes)
	}
}

func TestRefusalsAreNotAFlood(t *testing.T) {
	s := newFarm(t)
	s.refuse = "job violates accounting policy"
	s.classes = []factory.Class{class(800, 1, task.GiB)}
	s.run(6 * time.Hour)
	if s.submits > 40 {
		t.Errorf("%d submissions in 6 hours of refusals", s.submits)
	}
	s.refuse = ""
	s.slots = 100
	s.run(2 * time.Hour)
	if s.in(factory.Running) < 50 {
		t.Errorf("%d jobs run two hours after the refusals", s.in(factory.Running))
	}
}

func TestBadConfigurations(t *testing.T) {
	good := factory.Config{Site: "siteA", Max: 1, Backlog: 1, Shapes: []factory.Shape{{Name: "a", Resources: task.Resources{Cores: 1}, Walltime: time.Hour}}}
	if err := good.Validate(); err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(*factory.Config){
		"no site":     func(c *factory.Config) { c.Site = "" },
		"no shape":    func(c *factory.Config) { c.Shapes = nil },
		"twice":       func(c *factory.Config) { c.Shapes = append(c.Shapes, c.Shapes[0]) },
		"no core":     func(c *factory.Config) { c.Shapes[0].Resources.Cores = 0 },
		"short":       func(c *factory.Config) { c.Shapes[0].Walltime = time.Second },
		"name":        func(c *factory.Config) { c.Shapes[0].Name = "A B" },
		"min > max":   func(c *factory.Config) { c.Min = 2 },
		"no backlog":  func(c *factory.Config) { c.Backlog = 0 },
		"too many":    func(c *factory.Config) { c.Max = 1 << 30 },
		"shape's max": func(c *factory.Config) { c.Shapes[0].Max = -1 },
	} {
		bad := good
		bad.Shapes = slices.Clone(good.Shapes)
		spoil(&bad)
		if err := bad.Validate(); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
}
