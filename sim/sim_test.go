package sim_test

import (
	"cmp"
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/pilotage-grid/pilotage/sim"
)

// Events happen in the order of time, then of planning, whatever is cancelled
// in between: a sorted list is the oracle.
func TestTimelineIsASortedList(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type planned struct {
			at     time.Duration
			number int
		}
		timeline, want, got := &sim.Timeline{}, []planned{}, []planned{}
		events := make(map[int]*sim.Event)
		for number := range rapid.IntRange(0, 60).Draw(t, "events") {
			at := time.Duration(rapid.IntRange(0, 9).Draw(t, "at"))
			events[number] = timeline.After(at, func() { got = append(got, planned{timeline.Now(), number}) })
			want = append(want, planned{at, number})
			if victim := rapid.IntRange(0, 3*number+1).Draw(t, "cancel"); events[victim] != nil {
				timeline.Cancel(events[victim])
				want = slices.DeleteFunc(want, func(p planned) bool { return p.number == victim })
			}
		}
		slices.SortStableFunc(want, func(a, b planned) int { return cmp.Compare(a.at, b.at) })
		timeline.Run(20)
		if !slices.Equal(got, want) || timeline.Now() != 20 {
			t.Fatalf("got %v, want %v", got, want)
		}
	})
}

func TestFlowsShareLinksFairly(t *testing.T) {
	timeline := &sim.Timeline{}
	network := sim.NewNetwork(timeline)
	wide, narrow := network.Link(100), network.Link(20)
	ends := make(map[string]time.Duration)
	send := func(name string, bytes float64, route ...sim.LinkID) *sim.Flow {
		return network.Send(bytes, route, func() { ends[name] = timeline.Now() })
	}
	send("through both", 200, wide, narrow) // 20 a second
	send("wide", 400, wide)                 // 80 a second, done after 5 s
	stopped := send("stopped", 1e9, wide)
	timeline.Run(0)
	if left := network.Stop(stopped); left != 1e9 {
		t.Errorf("%v bytes are left of what was stopped at once", left)
	}
	send("nothing", 0, wide)
	timeline.Run(5 * time.Second)
	send("later", 800, wide) // 80 a second until 10 s, then 100: done at 14 s
	timeline.Run(time.Minute)
	for name, want := range map[string]float64{"through both": 10, "wide": 5, "nothing": 0, "later": 14} {
		if got := ends[name].Seconds(); math.Abs(got-want) > 1e-6 {
			t.Errorf("%s ends at %v s, want %v", name, got, want)
		}
	}
	if moved := network.Moved(wide); math.Abs(moved-1400) > 1e-3 || network.Flows() != 0 || ends["stopped"] != 0 {
		t.Errorf("%v bytes over the wide link, %d flows", moved, network.Flows())
	}
}

func TestLinksChangeUnderTheirFlows(t *testing.T) {
	timeline := &sim.Timeline{}
	network := sim.NewNetwork(timeline)
	link := network.Link(100)
	var end time.Duration
	network.Send(1000, []sim.LinkID{link}, func() { end = timeline.Now() })
	timeline.Run(4 * time.Second)
	network.Resize(link, 50) // 600 are left
	timeline.Run(8 * time.Second)
	network.Resize(link, 400) // 400 are left
	timeline.Run(time.Minute)
	if math.Abs(end.Seconds()-9) > 1e-6 {
		t.Errorf("it ends at %s, want 9 s", end)
	}
}

// No link carries more than it can, and what is sent arrives.
func TestFlowsConserveBytes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		timeline := &sim.Timeline{}
		network := sim.NewNetwork(timeline)
		var links []sim.LinkID
		var sent [3]float64
		for range 3 {
			links = append(links, network.Link(10))
		}
		arrived, flows := 0, rapid.IntRange(1, 12).Draw(t, "flows")
		for range flows {
			bytes := float64(rapid.IntRange(1, 100).Draw(t, "bytes"))
			first := rapid.IntRange(0, 2).Draw(t, "first")
			route := links[first : first+rapid.IntRange(1, 3-first).Draw(t, "links")]
			for i := range route {
				sent[first+i] += bytes
			}
			start := time.Duration(rapid.IntRange(0, 5).Draw(t, "start")) * time.Second
			timeline.After(start, func() { network.Send(bytes, route, func() { arrived++ }) })
		}
		for timeline.Step() {
			if timeline.Events() > 1000 {
				t.Fatal("no end")
			}
		}
		for i, id := range links {
			moved := network.Moved(id)
			if math.Abs(moved-sent[i]) > 1e-3 || moved > 10*timeline.Now().Seconds()+1e-3 {
				t.Fatalf("link %d: %v bytes moved of %v in %s", i, moved, sent[i], timeline.Now())
			}
		}
		if arrived != flows {
			t.Fatalf("%d of %d flows arrived", arrived, flows)
		}
	})
}

// The work that is done by the promised end is what was to be done.
func TestLoadTakesAsLongAsTheWorkNeeds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		load := sim.Load{Period: time.Minute, Seed: rapid.Uint64().Draw(t, "seed")}
		now := time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "now"))
		alone := time.Duration(rapid.Int64Range(0, int64(20*time.Minute)).Draw(t, "alone"))
		takes, done := load.Takes(now, alone), 0.0
		for at := now; at < now+takes; {
			end := min((at/time.Minute+1)*time.Minute, now+takes)
			done += float64(end-at) * (1 - load.At(at))
			at = end
		}
		if math.Abs(done-float64(alone)) > 1e3 {
			t.Fatalf("%s from %s: %v ns of work done, want %v", takes, now, done, float64(alone))
		}
	})
	if idle := (sim.Load{}); idle.Takes(5, 7) != 7 || idle.At(3) != 0 {
		t.Error("no load slows down")
	}
}

func TestRecordTellsRunsApart(t *testing.T) {
	hash := func(numbers ...int64) string {
		r := sim.NewRecord()
		r.Note(1, "a", numbers...)
		return r.Hash()
	}
	if first, again := hash(1, 2), hash(1, 2); first != again || first == hash(2, 1) {
		t.Error("hashes do not follow what was noted")
	}
	r := sim.NewRecord()
	r.Bar(sim.Bar{To: 5})
	if len(r.Bars) != 0 {
		t.Error("bars are kept that nobody wants")
	}
	if sim.Random(1, "a").Uint64() == sim.Random(1, "b").Uint64() {
		t.Error("streams of different names are one")
	}
}
