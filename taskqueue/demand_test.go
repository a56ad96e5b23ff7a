package taskqueue_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

// demand is a site's when every site is sent pilots for everything.
func (g *grid) demand(site task.Site) taskqueue.Demand {
	return g.demandOf(site, func(task.Site, *taskqueue.ClassDemand) bool { return true })
}

func (g *grid) demandOf(site task.Site, sends taskqueue.Sends) (d taskqueue.Demand) {
	g.view(func(t *taskqueue.Turn) (err error) {
		d, err = g.rules.Demand(t, site, sends)
		return err
	})
	return d
}

func total(d taskqueue.Demand) (n int) {
	for _, class := range d.Classes {
		n += class.Tasks
	}
	return n + d.More
}

// Whatever sites there are and do, each waiting task is counted once.
func TestDemandCountsEachTaskOnce(t *testing.T) {
	for seed := range uint64(40) {
		g := newGrid(t)
		g.random = rand.New(rand.NewPCG(seed, 5))
		sites := 1 + g.random.IntN(5)
		var crews []*crew
		for i := range sites {
			crews = append(crews, g.addSite(task.Site(fmt.Sprintf("S%d", i))))
		}
		var tasks []task.Task
		for i := range 1 + g.random.IntN(200) {
			j := job(fmt.Sprintf("t[%03d]", i), nil, nil)
			j.Resources.Cores = 1 + i%3
			tasks = append(tasks, j)
		}
		g.mustSubmit(taskqueue.Submission{Name: "w", Tasks: tasks})
		waiting := len(tasks)
		for i, c := range crews {
			if g.random.IntN(2) == 0 {
				c.join(task.PeerID(fmt.Sprintf("peer%d", i)), 1+g.random.IntN(8))
				c.sync()
			}
		}
		sum := 0
		for _, c := range crews {
			sum += total(g.demand(c.site))
		}
		if sum != waiting {
			t.Errorf("%d sites: %d tasks are wanted, %d wait", sites, sum, waiting)
		}
	}
}

// Tasks are divided among the sites that have pilots or are sent some. A site to which
// nobody sends any has no part, or its tasks would wait for ever; only where there is no
// other site, whoever asks first may send some.
func TestDemandGoesWherePilotsComeFrom(t *testing.T) {
	for seed := range uint64(60) {
		g := newGrid(t)
		random := rand.New(rand.NewPCG(seed, 7))
		waiting, sending, wide := 1+random.IntN(4), make(map[task.Site]bool), make(map[task.Site]bool)
		var sites []task.Site
		for i := range 2 + random.IntN(4) {
			site := task.Site(fmt.Sprintf("S%d", i))
			g.addSite(site)
			sites = append(sites, site)
			sending[site] = random.IntN(2) == 0
			wide[site] = random.IntN(2) == 0
		}
		var tasks []task.Task
		for i := range 2 * waiting {
			j := job(fmt.Sprintf("t[%d]", i), nil, nil)
			j.Resources.Cores = 1 + 15*(i%2)
			tasks = append(tasks, j)
		}
		g.mustSubmit(taskqueue.Submission{Name: "w", Tasks: tasks})
		sends := func(site task.Site, class *taskqueue.ClassDemand) bool {
			return sending[site] && (class.Resources.Cores == 1 || wide[site])
		}
		able := func(cores int) (n int) {
			for _, site := range sites {
				if sending[site] && (cores == 1 || wide[site]) {
					n++
				}
			}
			return n
		}
		sums := make(map[int]int)
		for _, site := range sites {
			for _, class := range g.demandOf(site, sends).Classes {
				cores := class.Resources.Cores
				sums[cores] += class.Tasks
				if able(cores) > 0 && !(sending[site] && (cores == 1 || wide[site])) {
					t.Errorf("seed %d: %d tasks of %d cores wait for %s, to which nobody sends such pilots", seed, class.Tasks, cores, site)
				}
			}
		}
		if sums[1] != waiting || sums[16] != waiting {
			t.Errorf("seed %d: %v tasks are wanted, %d of each kind wait", seed, sums, waiting)
		}
	}
	g := newGrid(t) // pilots that are there need nobody who sends more
	g.addSite("A")
	b := g.addSite("B")
	b.join("peer", 4)
	g.mustSubmit(taskqueue.Submission{Name: "w", Tasks: []task.Task{job("t", nil, nil)}})
	nobody := func(task.Site, *taskqueue.ClassDemand) bool { return false }
	if atA, atB := total(g.demandOf("A", nobody)), total(g.demandOf("B", nobody)); atA != 0 || atB != 1 {
		t.Errorf("%d tasks wait for A, which has no pilot, and %d for B", atA, atB)
	}
}

func TestDemandGoesByWhatSitesDo(t *testing.T) {
	g := newGrid(t)
	a, _ := g.addSite("A"), g.addSite("B")
	a.join("peer-a", 30)
	var tasks []task.Task
	for i := range 400 {
		tasks = append(tasks, job(fmt.Sprintf("t[%03d]", i), nil, nil))
	}
	g.mustSubmit(taskqueue.Submission{Name: "w", Tasks: tasks})
	a.sync()
	for range 3 {
		for _, lt := range a.waiting()[:10] {
			a.start(lt.Task.ID, a.master)
		}
		a.sync()
	}
	atA, atB := total(g.demand("A")), total(g.demand("B"))
	if atA+atB != 370 || atB == 0 || atB > atA/4 {
		t.Errorf("A, which runs 30, has a demand of %d, B, which runs nothing, of %d; 370 wait", atA, atB)
	}
	g.must(func(t *taskqueue.Turn) error { return g.rules.DrainSite(t, "A", true) })
	if d := g.demand("A"); !d.Draining {
		t.Error("a draining site does not say so")
	}
}

func TestDemandTellsWhatALivePilotCanRun(t *testing.T) {
	g := newGrid(t)
	a := g.addSite("A")
	small, wide := job("small", nil, nil), job("wide", nil, nil)
	wide.Resources.Cores = 16
	wide.Walltime = 3 * time.Hour
	g.mustSubmit(taskqueue.Submission{Name: "w", Tasks: []task.Task{small, wide}})
	live := func() map[int]bool {
		of := make(map[int]bool)
		for _, class := range g.demand("A").Classes {
			of[class.Resources.Cores] = class.Live
			if class.Resources.Cores == 16 && class.Walltime != 3*time.Hour {
				t.Errorf("the wide task has walltime %s", class.Walltime)
			}
		}
		return of
	}
	if of := live(); len(of) != 2 || of[1] || of[16] {
		t.Errorf("without a pilot: %v", of)
	}
	a.join("peer", 4)
	if of := live(); !of[1] || of[16] {
		t.Errorf("beside a pilot of 4 cores: %v", of)
	}
	a.sync()
	a.refuse(small.Class())
	a.sync()
	if of := live(); of[1] {
		t.Error("a live pilot can run what the site's pilots have refused")
	}
}

// Pilots that count as alive, and of which nothing is heard, are no supply: with a whole
// cluster they may have been killed, hours before their declared ends.
func TestPilotsThatNobodyHearsAreNoSupply(t *testing.T) {
	g := newGrid(t)
	a := g.addSite("A")
	a.join("one", 4)
	a.join("two", 4)
	a.sync()
	a.sync()
	j := job("t", nil, nil)
	g.mustSubmit(taskqueue.Submission{Name: "w", Tasks: []task.Task{j}})
	demand := func() (silent, live bool, slots int) {
		d := g.demand("A")
		if len(d.Classes) != 1 || len(d.Pilots) != 2 || d.Pilots[0].State != taskqueue.PilotAlive {
			t.Fatalf("demand %+v", d)
		}
		return d.Silent, d.Classes[0].Live, d.FreeSlots
	}
	if silent, live, slots := demand(); silent || !live || slots == 0 {
		t.Errorf("heard: silent %t, live %t, %d slots", silent, live, slots)
	}
	g.clock = g.clock.Add(g.rules.Config.Site.Pilot.AbsentAfter)
	if silent, live, slots := demand(); !silent || live || slots > 0 {
		t.Errorf("not heard for long: silent %t, live %t, %d slots", silent, live, slots)
	}
	a.sync()
	if silent, live, slots := demand(); silent || !live || slots == 0 {
		t.Errorf("heard again: silent %t, live %t, %d slots", silent, live, slots)
	}
}

// A token of a pilot job lets one pilot in, which may come back, and names its job.
func TestATokenForOneRegistration(t *testing.T) {
	g := newGrid(t)
	a := g.addSite("A")
	g.must(func(t *taskqueue.Turn) error {
		return g.rules.AddGrant(t, taskqueue.Grant{ID: "once", Hash: [32]byte{1}, Role: "pilot", Site: "A", Once: true, Job: "pabcd0000001"})
	})
	register := func(peer task.PeerID) (out taskqueue.Registered, err error) {
		err = g.update(func(t *taskqueue.Turn) (err error) {
			out, err = g.rules.Register(t, taskqueue.Registration{Site: a.site, Peer: peer, PilotDescription: taskqueue.PilotDescription{
				Slots: 1, Host: "h", Resources: task.Resources{Cores: 1}, Token: "once", Job: "forged", BatchJob: "77",
			}})
			return err
		})
		return out, err
	}
	first, err := register("one")
	if err != nil {
		t.Fatal(err)
	}
	if again, err := register("one"); err != nil || again.Pilot != first.Pilot {
		t.Errorf("the same pilot comes back: %v, %v", again, err)
	}
	if _, err := register("two"); !errors.Is(err, taskqueue.ErrRefused) {
		t.Errorf("a second pilot: %v", err)
	}
	pilots := g.demand("A").Pilots
	if len(pilots) != 1 || pilots[0].Job != "pabcd0000001" || pilots[0].BatchJob != "77" {
		t.Errorf("pilots %+v", pilots)
	}
}

// Each job of a factory has a token: those that ended long ago are forgotten, so that
// they do not pile up.
func TestEndedTokensAreForgotten(t *testing.T) {
	g := newGrid(t)
	g.addSite("A")
	ends := map[string]time.Duration{"ended": -8 * 24 * time.Hour, "just": -6 * 24 * time.Hour, "valid": time.Hour}
	for id, after := range ends {
		g.must(func(t *taskqueue.Turn) error {
			return g.rules.AddGrant(t, taskqueue.Grant{ID: id, Hash: [32]byte{1}, Role: "pilot", Site: "A", Once: true, Expires: t.Wall.Add(after)})
		})
	}
	g.must(func(t *taskqueue.Turn) error { return g.rules.Tick(t) })
	g.must(func(t *taskqueue.Turn) error {
		left, err := t.Grants().All()
		if len(left) != 2 || left[0].ID != "just" || left[1].ID != "valid" {
			return fmt.Errorf("left are %+v, %w", left, err)
		}
		return nil
	})
}
