package matchmaker

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/pilotage-grid/pilotage/matcher"
	"github.com/pilotage-grid/pilotage/matcher/health"
	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

// Matchmaker matches READY tasks to pilots, one request at a time, for sites
// where the queue does so (modes centralized and isolated). It keeps an image
// of the READY tasks of each such site, which Refresh brings up to date with
// what was committed, and what the pilots have told last. All of it can be
// lost: tasks are read again, pilots are asked for whole summaries. What it
// chooses becomes true by Rules.Grant, which checks it.
//
// It is not safe for concurrent use.
type Matchmaker struct {
	config   *taskqueue.Config
	compiler *matcher.Compiler
	sites    map[task.Site]*site
	classes  map[taskqueue.ClassID]*taskqueue.Eligibility
	live     []task.Site // sites that count in shares, by name
	storing  []task.Site // of them, those with a storage element
}

// site is what is known of one site.
type site struct {
	record    taskqueue.SiteRecord
	pool      *matcher.Pool
	pilots    map[task.PilotID]*pilot
	again     map[task.ID]taskqueue.Instant // when tasks are to be read again
	fresh     []task.ID                     // put up since CallIn looked last
	filled    bool                          // the pool was read from the store
	cut       bool                          // there are more READY tasks than the pool holds
	later     taskqueue.Instant             // when all are to be read again, as those that pause beyond the window begin to be due; 0: there are none
	since     taskqueue.Instant             // when the pilots' silence began to count
	retracted taskqueue.Instant             // when prefilled tasks were asked for last
	solver    matcher.Solver
	nodes     health.Nodes
	turned    map[string]bool // nodes of other health than when their pilots were asked last
}

// New returns one that knows no site yet.
func New(config *taskqueue.Config, compiler *matcher.Compiler) *Matchmaker {
	return &Matchmaker{config: config, compiler: compiler, sites: make(map[task.Site]*site), classes: make(map[taskqueue.ClassID]*taskqueue.Eligibility)}
}

func (m *Matchmaker) of(name task.Site, now taskqueue.Instant) *site {
	r := m.sites[name]
	if r == nil {
		r = &site{
			record: taskqueue.SiteRecord{Name: name}, pool: matcher.NewPool(m.compiler), pilots: make(map[task.PilotID]*pilot),
			again: make(map[task.ID]taskqueue.Instant), since: now,
			solver: matcher.Sequential, turned: make(map[string]bool),
		}
		m.sites[name] = r
	}
	return r
}

// pilot is one that was heard and is not gone; nil if it is not.
func (m *Matchmaker) pilot(name task.Site, id task.PilotID) (*site, *pilot) {
	if r := m.sites[name]; r != nil {
		return r, r.pilots[id]
	}
	return nil, nil
}

// Describe takes the records of a pilot and its site, as they are stored. It answers
// the pilot which summary of its cache is known, and which files it is asked to store,
// or to look for: once, as its answer may have come before the next look at these files.
func (m *Matchmaker) Describe(now taskqueue.Instant, pulled *taskqueue.Pulled, self task.Puller) {
	site, pilot := &pulled.Site, &pulled.Pilot
	r := m.of(site.Name, now)
	r.take(site)
	r.nodes.Restore(moment(now), r.record.Marks(now))
	r.look(now)
	if g := r.pilots[pilot.ID]; g != nil {
		if g.record.State != pilot.State || g.record.Stopped != pilot.Stopped || g.record.Resources != pilot.Resources {
			r.lookAgain()
		}
		if g.record = *pilot; len(g.holding) > 0 {
			r.nodes.Given(moment(now), g.node())
		}
		pulled.Reply.CacheVersion, pulled.Reply.Check = g.version, g.checks
		g.checks = nil
	}
	r.pool.Describe(matcher.Pilot{
		ID: pilot.ID, Site: site.Name, Host: pilot.Host, Resources: pilot.Resources, Slots: pilot.Slots,
		Features: pilot.Features, Walls: pilot.Walls, Arch: self.Arch, OS: self.OS, Load: self.Load, Lifetime: self.Lifetime,
		CoreSpeed: self.CoreSpeed,
		Live:      matcher.Live{FreeCores: self.FreeCores, CPUBound: self.CPUBound, IOBound: self.IOBound},
	})
}

// take follows a site's settings; others than before have all its tasks read
// again.
func (r *site) take(site *taskqueue.SiteRecord) {
	same := r.record.InForce() == site.InForce() && r.record.SE == site.SE && r.record.RemoteRead == site.RemoteRead &&
		r.record.Rank == site.Rank && slices.Equal(r.record.Reach, site.Reach)
	if r.record.Solver != site.Solver {
		r.solver = solverOf(site)
	}
	if r.record = *site; !same {
		r.filled = false
	}
}

// Close forgets a site at which the queue matches no tasks any more.
func (m *Matchmaker) Close(site task.Site) { delete(m.sites, site) }

// Changed notes what a committed turn has changed.
func (m *Matchmaker) Changed(e *taskqueue.Effects) {
	for i := range e.Ends {
		end := &e.Ends[i]
		if r := m.sites[end.Site]; r != nil && r.nodes.Restored() { // else nobody has asked for work there
			r.nodes.Note(moment(end.At), end.End)
			r.look(end.At)
		}
	}
	if e.TooMany {
		m.Reset()
	}
	for _, r := range m.sites {
		for id := range e.Tasks {
			r.again[id] = 0
		}
	}
}

// Match chooses tasks for a pilot's places, less those that it was given and
// did not know of when it told them. They are offered to nobody else before
// Granted tells what came of it. Prefill waits while slots are free elsewhere.
func (m *Matchmaker) Match(now taskqueue.Instant, site task.Site, pilot task.PilotID, unseen int) []task.ID {
	r, g := m.pilot(site, pilot)
	if g == nil {
		return nil
	}
	r.look(now)
	may := r.allowed(g, g.places, unseen)
	free := matcher.Places{Free: may.Free, FreeSlots: may.FreeSlots, Prefill: may.Prefill, Ending: may.Ending}
	taken := min(unseen, free.FreeSlots)
	free.FreeSlots -= taken
	free.Prefill -= unseen - taken
	idle := r.idle() - g.places.FreeSlots + free.FreeSlots
	free.Prefill = max(0, min(free.Prefill, r.pool.Ready()-idle))
	if r.pool.Live() { // the next task when the pilot has told what this one changes
		free.FreeSlots, free.Prefill = min(1, free.FreeSlots), 0
		if unseen > 0 {
			free.FreeSlots = 0
		}
	}
	matches := r.pool.Match(pilot, free, r.solver)
	if big := r.overdue(g, pilot, free, now.Add(-m.config.Match.ReserveAfter)); big != "" {
		matches = append(matches, matcher.Match{Task: big, Prefill: true})
	}
	var ids []task.ID
	for _, match := range matches {
		if until, refused := g.refused[match.Task]; refused && now < until {
			r.pool.Remove(match.Task)
			r.again[match.Task] = until
			continue
		}
		ids = append(ids, match.Task)
	}
	maps.DeleteFunc(g.refused, func(_ task.ID, until taskqueue.Instant) bool { return now >= until })
	if len(ids) > 0 {
		r.nodes.Given(moment(now), g.node())
		if r.nodes.State(g.node()) == health.Trial {
			g.trial = ids[0]
		}
	}
	return ids
}

// Granted tells what came of a match: what was leased is gone, the rest is
// looked at again. The pilot's places are taken until it tells of others.
func (m *Matchmaker) Granted(site task.Site, pilot task.PilotID, matched []task.ID, lease *task.Lease) {
	r := m.sites[site]
	if r == nil {
		return
	}
	leased := make(map[task.ID]bool, len(lease.Tasks))
	g := r.pilots[pilot]
	for i := range lease.Tasks {
		t := &lease.Tasks[i].Task
		leased[t.ID] = true
		r.pool.Remove(t.ID)
		if g == nil {
			continue
		}
		g.holding = append(g.holding, task.Holding{Task: t.ID, Lease: lease.ID})
		if g.places.FreeSlots > 0 {
			g.places.FreeSlots--
			g.places.Free = g.places.Free.Sub(t.Resources)
		} else {
			g.places.Prefill--
		}
	}
	for _, id := range matched {
		if !leased[id] {
			r.pool.Release(id)
			r.again[id] = 0
		}
	}
}

// Stance is what a pilot's newest call does.
type Stance uint8

// What a pilot's newest call does.
const (
	Away  Stance = iota // there is none that could bring tasks
	Waits               // until it is called in
	Asks                // at this moment, perhaps too early for what has come up
)

// CallIn chooses which pilots should ask again because tasks have come up: for each of
// those tasks one that waits and may run it, with a free slot while there is such a one,
// and of these one that has its files. When nobody waits for a task, those that ask at
// this moment ask once more.
func (m *Matchmaker) CallIn(site task.Site, stance func(task.PilotID) Stance) (calls []task.PilotID) {
	r := m.sites[site]
	if r == nil || len(r.fresh) == 0 {
		return nil
	}
	fresh := r.fresh
	r.fresh = nil
	room, slots, free := make(map[task.PilotID]int), make(map[task.PilotID]int), make(map[task.PilotID]task.Resources)
	var waiting, asking []task.PilotID
	for id, g := range r.pilots {
		places := r.allowed(g, g.places, 0)
		slots[id], free[id] = max(0, places.FreeSlots), places.Free
		if slots[id] == 0 {
			free[id] = places.Free.Add(places.Ending)
		}
		n := cmp.Or(slots[id], places.Prefill)
		switch {
		case n <= 0:
		case stance(id) == Waits:
			room[id], waiting = n, append(waiting, id)
		case stance(id) == Asks:
			asking = append(asking, id)
		}
	}
	slices.Sort(asking)
	slices.SortFunc(waiting, func(a, b task.PilotID) int {
		return cmp.Or(cmp.Compare(min(1, slots[b]), min(1, slots[a])), cmp.Compare(a, b))
	})
	alone := false // a task for which nobody waits
	for _, id := range fresh {
		if !r.pool.Has(id) {
			continue
		}
		waiting = slices.DeleteFunc(waiting, func(id task.PilotID) bool { return room[id] <= 0 })
		takes := func(p task.PilotID) bool { return r.pool.Takes(p, free[p], id) }
		first := slices.IndexFunc(waiting, takes)
		if first < 0 {
			alone = true
			continue
		}
		chosen := waiting[first]
		holders := r.pool.HoldersOf(id)
		if i := slices.IndexFunc(holders, func(holder task.PilotID) bool {
			return room[holder] > 0 && (slots[holder] > 0 || slots[chosen] == 0) && takes(holder)
		}); i >= 0 {
			chosen = holders[i]
		}
		room[chosen]--
		calls = append(calls, chosen)
	}
	if alone {
		calls = append(calls, asking...)
	}
	return calls
}

// guard decides on files that only caches of a site hold and that nobody stores
// by itself: a pilot that holds one is to store it. What nobody holds, once all
// pilots have told all that they hold, one of them looks for at its place on the
// storage element, as masters have it done, and tells where it is, or that it is
// lost. Where nobody can look it is lost.
func (r *site) guard(files []task.File, live []taskqueue.PilotRecord) (lost []task.LostFile) {
	complete := true
	var lookers []*pilot
	for i := range live {
		g := r.pilots[live[i].ID]
		complete = complete && g != nil && g.version > 0 && !g.partial
		if g != nil && r.record.SE != "" {
			lookers = append(lookers, g)
		}
	}
	for _, g := range r.pilots {
		g.checks = nil
	}
	for _, file := range files {
		holders := r.holders(file.LFN, file.Digest)
		switch {
		case len(holders) > 0:
			if g := r.pilots[holders[0]]; g != nil {
				g.checks = append(g.checks, file)
			}
		case complete && len(lookers) > 0:
			g := lookers[int(file.Digest[0])%len(lookers)]
			g.checks = append(g.checks, file)
		case complete:
			lost = append(lost, task.LostFile{
				LFN: file.LFN, Digest: file.Digest, Reason: fmt.Sprintf("no pilot holds %s and no storage element has it", file.LFN.Local()),
			})
		}
	}
	return lost
}

// holders are the pilots that have a file: of one that was made, these very bytes, as what
// another attempt has made has the same name.
func (r *site) holders(name task.LFN, digest task.Digest) []task.PilotID {
	return r.pool.Holders(task.KeyOf(name, digest))
}

// retract lists tasks to be asked back: all that is given early of pilots whose node
// is set back, and as much as there are free slots although no task waits.
func (r *site) retract(now taskqueue.Instant, every time.Duration) (back []task.Revoked) {
	if now.Sub(r.retracted) < every {
		return nil
	}
	idle := 0
	if r.pool.Ready() == 0 {
		idle = max(0, r.idle())
	}
	if idle > 0 {
		r.retracted = now
	}
	for _, id := range slices.Sorted(maps.Keys(r.pilots)) {
		g := r.pilots[id]
		waiting := slices.DeleteFunc(slices.Clone(g.holding), func(h task.Holding) bool { return h.Started })
		keeps := len(waiting)
		switch {
		case r.nodes.State(g.node()) == health.Held:
			keeps = 0
		case g.places.FreeSlots == 0 && g.capacity.Running >= g.capacity.Slots:
			keeps = max(0, len(waiting)-idle)
			idle -= len(waiting) - keeps
		}
		for _, h := range waiting[min(max(0, keeps), len(waiting)):] {
			back, r.retracted = append(back, task.Revoked{Lease: h.Lease, Task: h.Task}), now
		}
	}
	return back
}

// solverOf is how the queue chooses among a site's tasks for the pilot that
// asks. For one pilot, greedy and sequential are the same. Draws depend on the
// site and on what was drawn before.
func solverOf(site *taskqueue.SiteRecord) matcher.Solver {
	choice, err := matcher.ParseSolver(site.Solver)
	if err != nil || choice.WholeSite() {
		return matcher.Sequential
	}
	seed := fnv.New64a()
	_, _ = seed.Write([]byte(site.Name))
	return choice.Solver(rand.New(rand.NewPCG(seed.Sum64(), 0)))
}
