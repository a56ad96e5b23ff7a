package cache

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/pilotage-grid/pilotage/task"
)

// world is several pilots' planners and one home in virtual time. Everything
// between them takes random time; messages of one pair keep their order.
type world struct {
	t      *rapid.T
	random *rand.Rand
	now    time.Time
	serial int
	events []happening

	homeSilent bool
	trouble    bool // sources fail and files are missing
	grants     *Grants
	pilots     []*simulated
	last       map[string]time.Time // when the last message of a pair arrives
	reading    map[task.FileKey]int
	stored     map[task.FileKey]bool
}

type happening struct {
	at     time.Time
	number int
	do     func()
}

type simulated struct {
	name    task.PeerID
	planner *Planner
	cached  map[task.FileKey]bool
	open    map[uint64]bool   // wishes
	running map[uint64]func() // transfers: how to stop them
	keys    map[uint64]task.FileKey
	sources map[task.Source]int
	failed  int
}

func (w *world) after(span time.Duration, do func()) {
	w.serial++
	w.events = append(w.events, happening{w.now.Add(span), w.serial, do})
}

func (w *world) span(most time.Duration) time.Duration {
	return time.Duration(w.random.Int64N(int64(most)))
}

func (w *world) chance(percent int) bool { return w.random.IntN(100) < percent }

// inOrder delivers after what was sent before on the same way.
func (w *world) inOrder(way string, do func()) {
	at := w.now.Add(w.span(20 * time.Millisecond))
	if last := w.last[way]; at.Before(last) {
		at = last
	}
	w.last[way] = at
	w.after(at.Sub(w.now), do)
}

func (w *world) step(p *simulated, event PlanEvent) {
	for _, action := range p.planner.Step(w.now, event) {
		w.perform(p, action)
	}
}

func (w *world) askGrants(event GrantEvent) {
	for _, action := range w.grants.Step(w.now, event) {
		answer := action.(Answer)
		for _, p := range w.pilots {
			if p.name == answer.To {
				w.inOrder("home>"+string(p.name), func() {
					w.step(p, HomeAnswered{Ask: answer.Number, Key: answer.Key, Verdict: answer.Verdict, Holders: answer.Holders})
				})
			}
		}
	}
}

func (w *world) toHome(p *simulated, event GrantEvent) {
	if !w.homeSilent {
		w.inOrder(string(p.name)+">home", func() { w.askGrants(event) })
	}
}

func (w *world) perform(p *simulated, action PlanAction) {
	switch a := action.(type) {
	case Locate:
		w.after(w.span(30*time.Millisecond), func() {
			found := map[task.FileKey][]Holder{}
			for _, key := range a.Keys {
				for _, other := range w.pilots {
					if other.cached[key] && w.chance(70) {
						found[key] = append(found[key], holder(other.name))
					}
				}
			}
			w.step(p, Located{Keys: a.Keys, Holders: found})
		})
	case AskHome:
		w.toHome(p, Ask{Key: a.Key, From: p.name, Tried: a.Tried, Number: a.Ask})
		if w.homeSilent {
			w.after(2*time.Second, func() { w.step(p, HomeAnswered{Ask: a.Ask, Key: a.Key, Verdict: Unanswered}) })
		}
	case RenewGrant:
		w.toHome(p, Renew{Key: a.Key, From: p.name})
	case FinishGrant:
		w.toHome(p, Finish{Key: a.Key, From: holder(p.name), End: a.End})
	case TransferFromPeers:
		w.fromPeers(p, a)
	case TransferFromSE:
		w.fromStorage(p, a)
	case Abandon:
		for id, stop := range p.running {
			if p.keys[id] == a.Key {
				w.after(w.span(5*time.Millisecond), stop)
			}
		}
	case Ready:
		if !p.open[a.Waiter] || !p.cached[a.Key] {
			w.t.Fatalf("%s: waiter %d (open %t) is told that %s is ready (cached %t)", p.name, a.Waiter, p.open[a.Waiter], a.Key, p.cached[a.Key])
		}
		delete(p.open, a.Waiter)
		p.sources[a.Source]++
	case Failed:
		if !p.open[a.Waiter] {
			w.t.Fatalf("%s: waiter %d is told of a failure and does not wait: %v", p.name, a.Waiter, a.Err)
		}
		if !w.trouble {
			w.t.Fatalf("%s: %v", p.name, a.Err)
		}
		delete(p.open, a.Waiter)
		p.failed++
	}
}

func holder(name task.PeerID) Holder { return Holder{Peer: name, DataURL: "https://" + string(name)} }

// begin notes a transfer; the function returned ends it, once.
func (w *world) begin(p *simulated, id uint64, key task.FileKey, ended func()) func(TransferDone) {
	if p.running[id] != nil {
		w.t.Fatalf("transfer %d twice", id)
	}
	p.keys[id] = key
	end := func(done TransferDone) {
		if p.running[id] == nil {
			return
		}
		delete(p.running, id)
		ended()
		done.Transfer = id
		if done.Arrived {
			p.cached[key] = true
		}
		w.step(p, done)
	}
	p.running[id] = func() { end(TransferDone{}) }
	return end
}

func (w *world) fromPeers(p *simulated, a TransferFromPeers) {
	key := a.File.Key()
	if p.cached[key] {
		w.t.Fatalf("%s fetches %s, which it has", p.name, key)
	}
	end := w.begin(p, a.Transfer, key, func() {})
	w.after(w.span(200*time.Millisecond), func() {
		done := TransferDone{}
		for _, h := range a.Holders {
			if h.Peer == p.name {
				w.t.Fatalf("%s fetches from itself", p.name)
			}
			i := slices.IndexFunc(w.pilots, func(o *simulated) bool { return o.name == h.Peer })
			fault := SourceFault{Peer: h.Peer}
			switch {
			case !w.pilots[i].cached[key]:
				fault.Fault = Gone
			case w.chance(20):
				fault.Fault, fault.RetryAfter = Busy, 100*time.Millisecond
				fault.Others = []Holder{holder(w.pilots[w.random.IntN(len(w.pilots))].name)}
			case w.trouble && w.chance(20):
				fault.Fault = Unreachable
			case w.trouble && w.chance(10):
				fault.Fault = Corrupt
			default:
				done.Arrived, done.From = true, h.Peer
				continue
			}
			done.Faults = append(done.Faults, fault)
		}
		end(done)
	})
}

func (w *world) fromStorage(p *simulated, a TransferFromSE) {
	key := a.File.Key()
	w.reading[key]++
	if w.reading[key] > 1 && !w.homeSilent {
		w.t.Fatalf("%s reads %s while another one reads it", p.name, key)
	}
	end := w.begin(p, a.Transfer, key, func() { w.reading[key]-- })
	length := w.span(30 * time.Second)
	for at := 500 * time.Millisecond; at < length; at += 500 * time.Millisecond {
		w.after(at, func() { w.step(p, Progress{Transfer: a.Transfer}) })
	}
	w.after(length, func() {
		switch {
		case !w.stored[key]:
			end(TransferDone{Faults: []SourceFault{{Fault: Gone}}})
		case w.trouble && w.chance(30):
			end(TransferDone{Faults: []SourceFault{{Fault: Unreachable}}})
		default:
			end(TransferDone{Arrived: true})
		}
	})
}

// run lets everything happen until nobody waits. Nothing left to happen while
// somebody waits is a deadlock.
func (w *world) run() {
	for range 200_000 {
		waiting := false
		for _, p := range w.pilots {
			waiting = waiting || len(p.open) > 0
		}
		if !waiting && len(w.events) == 0 {
			return
		}
		w.nextMoment(waiting)
	}
	w.t.Fatal("no end")
}

func (w *world) nextMoment(waiting bool) {
	first := -1
	for i, e := range w.events {
		if first < 0 || e.at.Before(w.events[first].at) || e.at.Equal(w.events[first].at) && e.number < w.events[first].number {
			first = i
		}
	}
	var due func()
	var at time.Time
	consider := func(deadline time.Time, do func()) {
		if !deadline.IsZero() && (due == nil || deadline.Before(at)) {
			due, at = do, deadline
		}
	}
	if first >= 0 {
		consider(w.events[first].at, func() {
			do := w.events[first].do
			w.events = slices.Delete(w.events, first, first+1)
			do()
		})
	}
	consider(w.grants.Deadline(), func() { w.askGrants(Tick{}) })
	for _, p := range w.pilots {
		consider(p.planner.Deadline(), func() { w.step(p, Tick{}) })
	}
	if due == nil {
		if waiting {
			w.t.Fatal("somebody waits and nothing will ever happen")
		}
		return
	}
	if at.After(w.now) {
		w.now = at
	}
	due()
}

func newWorld(t *rapid.T, pilots, files int) (*world, []task.File) {
	w := &world{
		t: t, random: rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1)), now: time.Unix(1_000_000, 0),
		grants: NewGrants(GrantsConfig{}), last: map[string]time.Time{}, reading: map[task.FileKey]int{}, stored: map[task.FileKey]bool{},
	}
	for i := range pilots {
		name := task.PeerID(fmt.Sprintf("p%d", i))
		w.pilots = append(w.pilots, &simulated{
			name: name, planner: NewPlanner(PlannerConfig{
				Self: name, Site: "siteA",
				PlannerLimits: PlannerLimits{MaxTransfers: 3, MaxPerPeer: 2, MaxPerSE: 2}, PlannerPatience: PlannerPatience{HomePatience: time.Hour},
			}, w.random),
			cached: map[task.FileKey]bool{}, open: map[uint64]bool{}, running: map[uint64]func(){}, keys: map[uint64]task.FileKey{},
			sources: map[task.Source]int{},
		})
	}
	var inputs []task.File
	for i := range files {
		file := task.File{LFN: task.LFN(fmt.Sprintf("f%d", i)), Size: 1, Replicas: []task.Replica{{Site: "siteA", URL: fmt.Sprintf("se/%d", i)}}}
		w.stored[file.Key()] = true
		inputs = append(inputs, file)
	}
	return w, inputs
}

// wish lets every pilot want every file, some twice, at random moments; some
// change their mind.
func (w *world) wish(files []task.File, cancels bool) {
	waiter := uint64(0)
	for _, p := range w.pilots {
		for _, file := range files {
			for range 1 + w.random.IntN(2) {
				waiter++
				id := waiter
				p.open[id] = true
				start := w.span(3 * time.Second)
				w.after(start, func() { w.step(p, Want{File: file, Waiter: id, Cached: p.cached[file.Key()], Remote: true}) })
				if cancels && w.chance(20) {
					w.after(start+w.span(5*time.Second), func() {
						delete(p.open, id)
						w.step(p, Cancelled{Waiter: id})
					})
				}
			}
		}
	}
}

// However events interleave: at most one pilot reads a file from the storage
// element while the home answers (checked in fromStorage), every wish is
// fulfilled, and after all are, one read per file has been enough.
func TestOneStorageReadPerFile(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w, files := newWorld(t, rapid.IntRange(1, 6).Draw(t, "pilots"), rapid.IntRange(1, 5).Draw(t, "files"))
		w.wish(files, false)
		w.run()
		reads := 0
		for _, p := range w.pilots {
			reads += min(p.sources[task.SourceSE], 1)
			for _, file := range files {
				if !p.cached[file.Key()] {
					t.Fatalf("%s lacks %s", p.name, file.LFN)
				}
			}
			if p.planner.Waiting() != 0 || len(p.planner.fetches) != 0 || len(p.planner.transfers) != 0 {
				t.Fatalf("%s: the plan is not empty: %+v", p.name, p.planner)
			}
		}
	})
}

// The same with sources that fail, files that are missing, and pilots that
// change their minds: everybody who still waits gets the file or an error.
func TestEveryWishEnds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w, files := newWorld(t, rapid.IntRange(1, 5).Draw(t, "pilots"), rapid.IntRange(1, 5).Draw(t, "files"))
		w.trouble = true
		w.homeSilent = rapid.Bool().Draw(t, "the home is silent")
		if rapid.Bool().Draw(t, "one file is missing") {
			w.stored[files[0].Key()] = false
		}
		w.wish(files, true)
		w.run()
		for _, p := range w.pilots {
			checkIdle(t, p.planner)
		}
	})
}

// checkIdle: whoever ended left no count behind.
func checkIdle(t *rapid.T, p *Planner) {
	t.Helper()
	if len(p.fetches)+len(p.waiting)+len(p.transfers)+len(p.asks) != 0 {
		t.Fatalf("the plan is not empty: %d fetches, %d waiters, %d transfers, %d questions", len(p.fetches), len(p.waiting), len(p.transfers), len(p.asks))
	}
	for peer, state := range p.peers {
		if state.inFlight != 0 {
			t.Fatalf("%d transfers from %s are counted and there is none", state.inFlight, peer)
		}
	}
	for site, reads := range p.elements {
		if reads != 0 {
			t.Fatalf("%d reads of %s are counted and there is none", reads, site)
		}
	}
}
