package server_test

import (
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/sim"
	"github.com/pilotage-grid/pilotage/sim/server"
	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
	"github.com/pilotage-grid/pilotage/taskqueue/serving"
	"github.com/pilotage-grid/pilotage/taskqueue/store/mem"
)

// host runs a queue whose clocks go right and whose disk takes everything.
type host struct {
	t        *testing.T
	timeline sim.Timeline
	queue    *server.Queue
	updates  int
}

func (h *host) Times() (service taskqueue.Instant, machine, wall time.Time) {
	now := time.Unix(1e9, 0).Add(h.timeline.Now())
	return taskqueue.Instant(time.Hour + h.timeline.Now()), now, now
}

func (h *host) After(d time.Duration, do func()) { h.timeline.After(d, do) }

func (h *host) Update(change func(*taskqueue.Turn) error) error {
	h.updates++
	_, err := h.queue.Update(change)
	return err
}

func (h *host) Stir() {}

func (h *host) must(change func(*taskqueue.Turn) error) {
	h.t.Helper()
	if err := h.Update(change); err != nil {
		h.t.Fatal(err)
	}
}

// parked is a master's call that waits for news, at a queue with one site.
func parked(t *testing.T) (h *host, by *serving.Connection, ends map[string]*task.PullReply) {
	h, by, ends = &host{t: t}, &serving.Connection{}, make(map[string]*task.PullReply)
	config := taskqueue.DefaultConfig()
	config.Site.MarkEvery = serving.MarkEvery(config)
	h.queue = server.Open(h, mem.New(), sim.Random(1, "server"), config, serving.DefaultHolds)
	h.must(func(t *taskqueue.Turn) error {
		_, err := h.queue.Rules.AddSite(t, taskqueue.SiteRecord{Name: "siteA", SiteSettings: taskqueue.SiteSettings{SE: "file:///siteA"}})
		return err
	})
	_, _, wall := h.Times()
	resources := task.Resources{Cores: 2, Memory: task.GiB, Disk: task.GiB}
	registered, self, err := h.queue.Register(taskqueue.Registration{Site: "siteA", Peer: "peer", PilotDescription: taskqueue.PilotDescription{
		Slots: 2, Resources: resources, Addresses: []string{"/memory/peer"}, Ends: wall.Add(time.Hour),
	}})
	if err != nil || self.ID != registered.Pilot || self.Lifetime != time.Hour || self.Resources != resources {
		t.Fatalf("%+v describes itself as %+v: %v", registered, self, err)
	}
	in := task.Sync{Site: "siteA", Pilot: self.ID, Term: registered.Term, Hold: time.Second}
	in.Capacity = task.Capacity{Pilots: 1, Slots: 2, FreeSlots: 2}
	call := func(name string) {
		c := &server.Call{By: by, Lost: func() { ends[name+" lost"] = nil }, Answer: func(reply *task.PullReply, err error) {
			if err != nil {
				t.Error(err)
			}
			ends[name] = reply
		}}
		sync := in
		h.queue.Sync(c, &sync)
		h.queue.Serve(c)
	}
	call("first") // which tells the master the state of things
	if len(ends) != 1 {
		t.Fatalf("the first call of a master waits: %v", ends)
	}
	clear(ends)
	call("second")
	if h.timeline.Run(h.timeline.Now() + time.Second/2); len(ends) != 0 {
		t.Fatalf("a call without news is answered: %v", ends)
	}
	return h, by, ends
}

func TestACallWaitsForNews(t *testing.T) {
	h, _, ends := parked(t)
	h.must(func(t *taskqueue.Turn) error {
		_, err := h.queue.Rules.Submit(t, taskqueue.Submission{Key: "w", Name: "w", Tasks: []task.Task{
			{ID: "/t", Argv: []string{"true"}, Walltime: time.Minute, Resources: task.Resources{Cores: 1, Memory: task.MiB}},
		}})
		return err
	})
	before := h.timeline.Now()
	for len(ends) == 0 && h.timeline.Step() {
	}
	if reply := ends["second"]; reply == nil || len(reply.Leases) != 1 || h.timeline.Now() > before+serving.DefaultHolds.Pause {
		t.Errorf("%s after a submission the call ends with %+v", h.timeline.Now()-before, ends)
	}
}

func TestACallEndsByTime(t *testing.T) {
	h, _, ends := parked(t)
	h.timeline.Run(time.Second - 1)
	if len(ends) != 0 {
		t.Errorf("a call ends too early: %v", ends)
	}
	h.timeline.Run(time.Second)
	if reply := ends["second"]; reply == nil || len(reply.Leases) != 0 {
		t.Errorf("a call that was parked for its time ends with %+v", ends)
	}
}

func TestNobodyAnswersForAProcessThatEnded(t *testing.T) {
	h, _, ends := parked(t)
	h.queue.Kill()
	h.timeline.Run(time.Minute)
	if _, lost := ends["second lost"]; !lost || len(ends) != 1 {
		t.Errorf("the calls of a queue that was killed end with %v", ends)
	}
	h, by, ends := parked(t)
	h.queue.HangUp(by)
	if h.timeline.Run(time.Minute); len(ends) != 0 {
		t.Errorf("the calls of a pilot that was killed end with %v", ends)
	}
}

// A queue that rests does nothing of its own accord but to keep signs of life.
func TestAQueueAtRestDoesNothing(t *testing.T) {
	h, _, _ := parked(t)
	ticks := func() (next taskqueue.Instant) {
		next, err := h.queue.Tick()
		if err != nil {
			t.Fatal(err)
		}
		return next
	}
	for range 5 { // until all that is done by the minute is done
		h.timeline.Run(h.timeline.Now() + time.Second)
		ticks()
	}
	h.updates = 0
	every := h.queue.Rules.Config.Workflow.TickEvery
	for range 9 {
		h.timeline.Run(h.timeline.Now() + every)
		if now, _, _ := h.Times(); ticks() > now.Add(every) {
			t.Error("a change would wait for longer than between two ticks")
		}
	}
	if h.updates > 1 {
		t.Errorf("%d updates by ticks in 9 s in which nothing happens", h.updates)
	}
	h.updates = 0
	h.must(func(t *taskqueue.Turn) error { return t.Meta().Set("x", []byte("y")) })
	if ticks(); h.updates != 2 {
		t.Errorf("%d updates, want that which changes something and the tick after it", h.updates)
	}
}

func TestSignsOfLifeAreWrittenNowAndThen(t *testing.T) {
	h, _, _ := parked(t)
	written, before := 0, taskqueue.Instant(0)
	for range 20 {
		h.timeline.Run(h.timeline.Now() + time.Second/2)
		if err := h.queue.SaveSigns(); err != nil {
			t.Fatal(err)
		}
		var site taskqueue.SiteRecord
		if err := h.queue.View(func(t *taskqueue.Turn) error {
			found, err := t.Sites().Load("siteA")
			site = found[0]
			return err
		}); err != nil {
			t.Fatal(err)
		}
		if site.LastSync != before {
			written, before = written+1, site.LastSync
		}
	}
	if written == 0 || written > 4 {
		t.Errorf("a master that waits was written down %d times in 10 s", written)
	}
}
