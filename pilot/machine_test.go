package pilot_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/pilotage-grid/pilotage/task"
)

var verbose = flag.Bool("verbose", false, "let a failing storm tell every call and broadcast")

// storm is a world in which anything may happen at any time.
type storm struct {
	*world
	t       *rapid.T
	count   int
	added   int
	files   []string // outputs of what was submitted
	cancels map[task.ID]bool

	capacity task.Bytes // of every pilot's cache; 0: it does not tell
}

// Whatever happens to pilots, masters, messages, files and the queue: when it
// is quiet again every task has ended well, exactly one success counts per
// generation, no slot was ever taken twice, and master and workers agree.
func TestNothingIsLostInStorms(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newStorm(t)
		s.submit(t)
		t.Repeat(map[string]func(*rapid.T){
			"":             func(t *rapid.T) { s.check(t) },
			"pass time":    s.pass,
			"submit":       s.submit,
			"kill":         s.killOne,
			"kill master":  s.killMaster,
			"join":         func(*rapid.T) { s.join() },
			"suspect":      s.suspectOne,
			"cut":          s.cutOne,
			"flap":         s.flap,
			"lose call":    func(t *rapid.T) { s.loseCall = true },
			"lose reply":   func(t *rapid.T) { s.loseReply = true },
			"queue away":   s.queueAway,
			"evict":        s.evictOne,
			"cancel":       s.cancelOne,
			"recall":       s.recallOne,
			"lapse":        func(*rapid.T) { s.queue.lapse() },
			"drain":        s.drainOne,
			"fail payload": s.failOne,
		})
		s.calm(t)
	})
}

func newStorm(t *rapid.T) *storm {
	s := &storm{t: t, cancels: make(map[task.ID]bool)}
	s.world = newWorld(func(format string, args ...any) {
		s.report(t)
		t.Fatalf(format, args...)
	})
	millis := func(label string, low, high int) time.Duration {
		return time.Duration(rapid.IntRange(low, high).Draw(t, label)) * time.Millisecond
	}
	s.verbose = *verbose
	s.journals = rapid.IntRange(0, 15).Draw(t, "journals") == 0
	if seed := rapid.Uint64().Draw(t, "jitter"); seed > 0 {
		s.jitter = rand.New(rand.NewPCG(seed, 1))
	}
	s.latency, s.broadcast, s.syncTime = millis("latency", 0, 20), millis("broadcast", 1, 40), millis("sync", 1, 30)
	s.stageTime, s.upload = millis("stage", 0, 100), millis("upload", 1, 500)
	office := millis("office", 0, 60)
	s.slowStart = func(n *node) time.Duration { return office * time.Duration(n.id[1]-'0') / 9 }
	s.queue.settings.Prefill = rapid.IntRange(0, 2).Draw(t, "prefill")
	s.queue.settings.LocalityWait = time.Duration(rapid.IntRange(0, 3).Draw(t, "locality wait")) * 2 * time.Second
	s.queue.perSlot = rapid.IntRange(2, 6).Draw(t, "tasks per slot")
	if rapid.IntRange(0, 9).Draw(t, "fixed rounds") == 0 {
		s.queue.settings.RoundEvery = 500 * time.Millisecond
	}
	if rapid.IntRange(0, 4).Draw(t, "without storage") == 0 {
		s.queue.settings.SE = ""
	}
	s.queue.settings.Replicate = rapid.SampledFrom([]string{
		"", "", "alpha(1)", "alpha(0)", "plans(0,2)", "plans(1,1,eliminate)", "alpha(2);plans(2,3,eliminate)",
	}).Draw(t, "replica policies")
	s.capacity = task.Bytes(rapid.IntRange(0, 8).Draw(t, "cache")) * task.MiB
	for range rapid.IntRange(2, 4).Draw(t, "pilots") {
		s.join()
	}
	s.elect(s.live()[0])
	return s
}

func (s *storm) report(t *rapid.T) {
	t.Log("what happened:\n" + strings.Join(s.notes[:min(len(s.notes), 1500)], "\n"))
}

func (s *storm) pass(t *rapid.T) {
	s.run(time.Duration(rapid.IntRange(1, 1500).Draw(t, "ms")) * time.Millisecond)
}

// submit adds a few tasks that read outside files and outputs of others.
func (s *storm) submit(t *rapid.T) {
	if s.count > 40 {
		return
	}
	var tasks []task.Task
	for range rapid.IntRange(1, 6).Draw(t, "tasks") {
		s.count++
		short := fmt.Sprintf("t%d", s.count)
		spec := task.Task{
			ID: id(short), Shell: "true", Walltime: time.Hour, Retries: 100, Priority: rapid.IntRange(0, 1).Draw(t, "priority"),
			Resources: task.Resources{Cores: 1, Memory: task.Bytes(rapid.IntRange(1, 3).Draw(t, "memory")) * task.GiB},
			Inputs:    []task.Input{{LFN: name("db"), Name: "db"}},
		}
		reads := make(map[string]bool)
		for range rapid.IntRange(0, 2).Draw(t, "inputs") {
			if len(s.files) > 0 {
				reads[rapid.SampledFrom(s.files).Draw(t, "input")] = true
			}
		}
		for _, file := range slices.Sorted(func(yield func(string) bool) {
			for file := range reads {
				if !yield(file) {
					return
				}
			}
		}) {
			spec.Inputs = append(spec.Inputs, task.Input{LFN: name(file), Name: file})
		}
		for i := range rapid.IntRange(0, 2).Draw(t, "outputs") {
			file := fmt.Sprintf("f%d.%d", s.count, i)
			spec.Outputs = append(spec.Outputs, task.Output{LFN: name(file), Name: file})
			s.files = append(s.files, file)
		}
		s.runs[short] = time.Duration(rapid.IntRange(1, 1200).Draw(t, "run")) * time.Millisecond
		tasks = append(tasks, spec)
	}
	s.note("submit %d tasks", len(tasks))
	s.queue.submit(tasks...)
}

func (s *storm) join() {
	s.added++
	slots := 1 + s.added%3
	s.note("p%d joins with %d slots", s.added, slots)
	s.add(task.PilotID(fmt.Sprintf("p%d", s.added)), slots, nil).capacity = s.capacity
}

// other draws a live pilot that is not master.
func (s *storm) other(t *rapid.T) *node {
	others := slices.DeleteFunc(s.live(), func(n *node) bool { return n == s.office })
	if len(others) == 0 {
		return nil
	}
	return rapid.SampledFrom(others).Draw(t, "pilot")
}

func (s *storm) killOne(t *rapid.T) {
	if n := s.other(t); n != nil {
		s.kill(n)
	}
}

func (s *storm) killMaster(t *rapid.T) {
	if len(s.live()) < 2 || !s.office.alive {
		return
	}
	s.kill(s.office)
	s.run(time.Duration(rapid.IntRange(0, 500).Draw(t, "until the election")) * time.Millisecond)
	s.elect(s.live()[0])
}

func (s *storm) suspectOne(t *rapid.T) {
	if n := s.other(t); n != nil {
		s.suspect(n, time.Duration(rapid.IntRange(10, 1000).Draw(t, "back after"))*time.Millisecond)
	}
}

func (s *storm) cutOne(t *rapid.T) {
	if n := s.other(t); n != nil {
		s.note("messages between %s and %s are lost", s.office.id, n.id)
		s.cut(s.office, n, time.Duration(rapid.IntRange(10, 1000).Draw(t, "good after"))*time.Millisecond)
	}
}

// flap breaks every link of the master for a moment.
func (s *storm) flap(t *rapid.T) {
	s.note("all links of the master flap")
	for _, n := range s.live() {
		s.cut(s.office, n, time.Duration(rapid.IntRange(0, 30).Draw(t, "good after"))*time.Millisecond)
	}
}

// queueAway takes the queue away for a while, maybe with a new master
// meanwhile, which it confirms when it is back.
func (s *storm) queueAway(t *rapid.T) {
	s.note("the queue is away")
	s.queue.away = true
	provisional := rapid.Bool().Draw(t, "new master") && len(s.live()) > 1
	s.pass(t)
	if provisional {
		s.kill(s.office)
		s.elect(s.live()[0])
		s.pass(t)
	}
	s.note("the queue is back")
	s.queue.away = false
	if provisional {
		s.confirm()
	}
}

func (s *storm) evictOne(t *rapid.T) {
	if len(s.files) == 0 {
		return
	}
	file := s.queue.files[name(rapid.SampledFrom(s.files).Draw(t, "file"))]
	for _, n := range s.live() {
		if n.cache[file.Key()] {
			s.note("%s loses %s", n.id, file.LFN.Local())
			n.evict(*file)
			if rapid.Bool().Draw(t, "that is enough") {
				return
			}
		}
	}
}

func (s *storm) anyTask(t *rapid.T) task.ID { return rapid.SampledFrom(s.queue.order).Draw(t, "task") }

// cancelOne cancels a task that nothing else depends on.
func (s *storm) cancelOne(t *rapid.T) {
	id := s.anyTask(t)
	if q := s.queue.tasks[id]; len(q.Outputs) > 0 || q.state >= done {
		return
	}
	s.note("%s is cancelled", id.Name())
	s.cancels[id] = true
	s.queue.cancel(id)
}

func (s *storm) recallOne(t *rapid.T) {
	id := s.anyTask(t)
	s.note("%s is recalled", id.Name())
	s.queue.recall(id)
}

func (s *storm) drainOne(t *rapid.T) {
	if n := s.other(t); n != nil && len(s.live()) > 2 && !n.drained {
		n.drainNow("its lifetime ends", 0)
	}
}

func (s *storm) failOne(t *rapid.T) { s.failures[s.anyTask(t).Name()]++ }

// check holds at every moment.
func (s *storm) check(t *rapid.T) {
	for id, attempts := range s.queue.accepted {
		generations := make(map[uint32]bool)
		for _, attempt := range attempts {
			if generations[attempt.Generation] {
				t.Fatalf("two successes of %s count: %v", id.Name(), attempts)
			}
			generations[attempt.Generation] = true
		}
	}
}

// calm lets the storm pass and looks at what is left.
func (s *storm) calm(t *rapid.T) {
	s.note("calm")
	s.loseCall, s.loseReply = false, false
	s.join() // all others may be draining
	over := func() bool {
		return s.queue.finished() && s.idle() && s.office.master.Settled() && len(s.queue.revoked) == 0
	}
	if !s.runUntil(10*time.Minute, over) {
		s.report(t)
		for _, id := range s.queue.order {
			if q := s.queue.tasks[id]; q.state < done {
				t.Errorf("%s is stuck: state %d, lease %d, missing %v", id.Name(), q.state, q.lease, s.queue.missing(q))
			}
		}
		for _, n := range s.live() {
			if !n.worker.Idle() {
				t.Errorf("%s is not idle", n.id)
			}
		}
		t.Fatalf("stuck: master settled=%v, revoked %v", s.office.master.Settled(), s.queue.revoked)
	}
	s.check(t)
	for id, q := range s.queue.tasks {
		if q.state != done && !s.cancels[id] {
			t.Errorf("%s ended in state %d", id.Name(), q.state)
		}
	}
	s.agree(t)
	for _, n := range s.nodes {
		if n.recorder != nil {
			n.wantSameAgain(t)
		}
	}
}

// agree compares the master's reckoning with what the workers have.
func (s *storm) agree(t *rapid.T) {
	s.run(5 * time.Second)
	reckoned, slots := s.queue.lastSync.Capacity, 0
	for _, n := range s.live() {
		if !n.drained {
			slots += n.self.Slots
		}
	}
	if reckoned.Slots != slots || reckoned.FreeSlots != slots || reckoned.Running+reckoned.Assigned+reckoned.Waiting > 0 {
		s.report(t)
		t.Fatalf("the master reckons %+v, there are %d slots and all are free", reckoned, slots)
	}
}
