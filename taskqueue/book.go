package taskqueue

import (
	"errors"
	"fmt"
	"slices"

	"github.com/pilotage-grid/pilotage/task"
)

// book is the working copy of one turn: records are loaded in sets, changed in
// memory, and saved in sets at the end. It keeps the sums that follow from a
// change (tasks by state, open tasks of a lease, tasks at a site, missing
// inputs) true.
type book struct {
	*Turn
	config *Config

	tasks     shelf[task.ID, TaskState]
	specs     shelf[task.ID, task.Task]
	entered   []task.ID // new tasks, on both shelves and not in the store yet
	files     shelf[task.LFN, FileRecord]
	attempts  shelf[task.AttemptID, Attempt]
	leases    shelf[task.LeaseID, Lease]
	workflows shelf[task.WorkflowID, Workflow]
	sites     shelf[task.Site, SiteRecord]
	pilots    shelf[task.PilotID, PilotRecord]

	siteNames []task.Site // of all sites, once loaded
	readable  map[task.LFN]siteSet
	classes   *classBook

	existed   map[task.LFN]bool      // files changed since the last settling: did they exist then
	changed   []task.LFN             // the same in order
	held      map[task.LFN]task.Site // final outputs that changed since then: whose caches alone had them
	reviewing map[task.ID]struct{}
	reviews   []task.ID
	remaking  []task.ID       // DONE tasks whose lost output is needed
	givenUp   []*task.Outcome // failures that may decide nothing, see takeGivenUp
	ended     []task.ID       // tasks that ended badly: their dependants follow
	revoked   []Revocation
	holders   map[task.LeaseID]task.PilotID // of leases that were emptied
	// uninformed are LEASED tasks with an input that was made elsewhere after
	// their site had got them.
	uninformed map[task.ID]struct{}
	walkable   []task.ID            // BLOCKED readers seen on the way: candidates to lease ahead
	arisen     map[ClassID]struct{} // classes that got READY tasks since the last settling
}

func (b *book) loadTasks(ids ...task.ID) error {
	want := b.tasks.wanted(ids)
	if len(want) == 0 {
		return nil
	}
	states, err := b.Tasks().Load(want...)
	if err != nil {
		return fmt.Errorf("load tasks: %w", err)
	}
	b.holdTasks(states)
	return nil
}

// holdTasks puts scanned states on the shelf, unless the turn has them.
func (b *book) holdTasks(states []TaskState) {
	for i := range states {
		if b.tasks.held[states[i].ID] == nil {
			b.tasks.put(states[i].ID, &states[i])
		}
	}
}

// state returns a task's state, or nil if there is no such task.
func (b *book) state(id task.ID) (*TaskState, error) {
	if err := b.loadTasks(id); err != nil {
		return nil, err
	}
	return b.tasks.held[id], nil
}

func (b *book) describe(ids ...task.ID) error {
	want := b.specs.wanted(ids)
	if len(want) == 0 {
		return nil
	}
	specs, err := b.Tasks().Describe(want...)
	if err != nil {
		return fmt.Errorf("load task descriptions: %w", err)
	}
	for i := range specs {
		b.specs.put(specs[i].ID, &specs[i])
	}
	return nil
}

func (b *book) loadFiles(names ...task.LFN) error {
	want := b.files.wanted(names)
	if len(want) == 0 {
		return nil
	}
	files, err := b.Files().Load(want...)
	if err != nil {
		return fmt.Errorf("load files: %w", err)
	}
	for i := range files {
		b.files.put(files[i].LFN, &files[i])
	}
	return nil
}

func (b *book) loadAttempts(ids ...task.AttemptID) error {
	want := b.attempts.wanted(ids)
	if len(want) == 0 {
		return nil
	}
	attempts, err := b.Attempts().Load(want...)
	if err != nil {
		return fmt.Errorf("load attempts: %w", err)
	}
	for i := range attempts {
		b.attempts.put(attempts[i].Outcome.Attempt, &attempts[i])
	}
	return nil
}

func (b *book) loadLeases(ids ...task.LeaseID) error {
	want := b.leases.wanted(ids)
	if len(want) == 0 {
		return nil
	}
	leases, err := b.Leases().Load(want...)
	if err != nil {
		return fmt.Errorf("load leases: %w", err)
	}
	for i := range leases {
		b.leases.put(leases[i].ID, &leases[i])
	}
	return nil
}

func (b *book) loadPilots(ids ...task.PilotID) error {
	want := b.pilots.wanted(ids)
	if len(want) == 0 {
		return nil
	}
	pilots, err := b.Pilots().Load(want...)
	if err != nil {
		return fmt.Errorf("load pilots: %w", err)
	}
	for i := range pilots {
		b.pilots.put(pilots[i].ID, &pilots[i])
	}
	return nil
}

func (b *book) workflow(id task.WorkflowID) (*Workflow, error) {
	if held := b.workflows.held[id]; held != nil {
		return held, nil
	}
	if len(b.workflows.wanted([]task.WorkflowID{id})) > 0 {
		found, err := b.Workflows().Load(id)
		if err != nil {
			return nil, fmt.Errorf("load workflow %s: %w", id, err)
		}
		if len(found) > 0 {
			b.workflows.put(id, &found[0])
		}
	}
	if held := b.workflows.held[id]; held != nil {
		return held, nil
	}
	return nil, notFound("workflow", id)
}

// site returns a site, or an error that wraps ErrNotFound.
func (b *book) site(name task.Site) (*SiteRecord, error) {
	if len(b.sites.wanted([]task.Site{name})) > 0 {
		found, err := b.Sites().Load(name)
		if err != nil {
			return nil, fmt.Errorf("load site %s: %w", name, err)
		}
		if len(found) > 0 {
			b.sites.put(name, &found[0])
		}
	}
	if held := b.sites.held[name]; held != nil {
		return held, nil
	}
	return nil, fmt.Errorf("site %s: %w: an operator adds it with `pilotage site add %s`", name, ErrNotFound, name)
}

// loadSites loads all sites; b.siteNames lists them.
func (b *book) loadSites() error {
	if b.siteNames != nil {
		return nil
	}
	all, err := b.Sites().All()
	if err != nil {
		return fmt.Errorf("load sites: %w", err)
	}
	b.siteNames = make([]task.Site, len(all))
	for i := range all {
		b.siteNames[i] = all[i].Name
		if b.sites.held[all[i].Name] == nil {
			b.sites.put(all[i].Name, &all[i])
		}
	}
	return nil
}

// review asks for a task's readiness to be judged anew when the book settles.
func (b *book) review(id task.ID) {
	if _, noted := b.reviewing[id]; !noted {
		b.reviewing[id] = struct{}{}
		b.reviews = append(b.reviews, id)
	}
}

// revoke asks a site for a task, now and in every Sync until it answers.
func (b *book) revoke(site task.Site, lease task.LeaseID, id task.ID, cancel bool) {
	b.revoked = append(b.revoked, Revocation{Site: site, Lease: lease, Task: id, Cancel: cancel})
	b.wake(site)
}

// mostStirred is how many tasks one turn's effects list.
const mostStirred = 20_000

// stir tells those who match tasks that one is READY, or was.
func (b *book) stir(id task.ID) {
	e := b.Effects
	switch {
	case e.TooMany:
	case len(e.Tasks) >= mostStirred:
		e.Tasks, e.TooMany = nil, true
	default:
		if e.Tasks == nil {
			e.Tasks = make(map[task.ID]struct{})
		}
		e.Tasks[id] = struct{}{}
	}
}

func (b *book) wakePilot(id task.PilotID) {
	if b.Effects.Pilots == nil {
		b.Effects.Pilots = make(map[task.PilotID]struct{})
	}
	b.Effects.Pilots[id] = struct{}{}
}

func (b *book) wake(site task.Site) {
	if b.Effects.Wake == nil {
		b.Effects.Wake = make(map[string]struct{})
	}
	b.Effects.Wake[string(site)] = struct{}{}
}

func (b *book) progress(id task.WorkflowID) {
	if b.Effects.Workflows == nil {
		b.Effects.Workflows = make(map[string]struct{})
	}
	b.Effects.Workflows[string(id)] = struct{}{}
}

// close settles and saves everything that changed.
func (b *book) close() error {
	if err := b.settle(); err != nil {
		return err
	}
	return b.save()
}

// save writes what changed; the book stays usable.
func (b *book) save() error {
	if b.Effects != nil && len(b.workflows.order) > 0 {
		for _, id := range b.workflows.order {
			b.progress(id)
		}
	}
	for _, write := range []func() error{
		func() error { return saveAll(b.workflows.take(), b.Workflows().Save) },
		b.saveTasks,
		func() error { return saveAll(b.files.take(), b.Files().Save) },
		func() error { return saveAll(b.attempts.take(), b.Attempts().Save) },
		b.saveLeases,
		func() error { return saveAll(b.sites.take(), b.Sites().Save) },
		func() error { return saveAll(b.pilots.take(), b.Pilots().Save) },
		b.saveRevocations,
	} {
		if err := write(); err != nil {
			return fmt.Errorf("save: %w", err)
		}
	}
	return nil
}

func saveAll[V any](values []V, save func(...V) error) error {
	if len(values) == 0 {
		return nil
	}
	return save(values...)
}

// saveTasks writes each task once: a new one with its description, of the
// others the state.
func (b *book) saveTasks() error {
	changed, entered := b.tasks.take(), b.entered
	b.entered = nil
	if len(entered) == 0 {
		return saveAll(changed, b.Tasks().Save)
	}
	specs, states := make([]task.Task, len(entered)), make([]TaskState, len(entered))
	fresh := make(map[task.ID]struct{}, len(entered))
	for i, id := range entered {
		specs[i], states[i] = *b.specs.held[id], *b.tasks.held[id]
		fresh[id] = struct{}{}
	}
	err := b.Tasks().Add(specs, states)
	if errors.Is(err, ErrTaskExists) {
		return invalid("two tasks of the workflow have the same name: %w", err)
	}
	if err != nil {
		return err
	}
	return saveAll(slices.DeleteFunc(changed, func(s TaskState) bool {
		_, added := fresh[s.ID]
		return added
	}), b.Tasks().Save)
}

// saveLeases deletes leases that hold no task any more.
func (b *book) saveLeases() error {
	var open []Lease
	var over []task.LeaseID
	for _, lease := range b.leases.take() {
		if lease.Open > 0 {
			open = append(open, lease)
		} else {
			over = append(over, lease.ID)
		}
	}
	for _, id := range over {
		if pilot := b.leases.held[id].Pilot; pilot != "" {
			if b.holders == nil {
				b.holders = make(map[task.LeaseID]task.PilotID)
			}
			b.holders[id] = pilot
		}
		b.leases.put(id, nil)
	}
	if err := saveAll(open, b.Leases().Save); err != nil {
		return err
	}
	return saveAll(over, b.Leases().Delete)
}

// saveRevocations also wakes the pilots whose leases they are of.
func (b *book) saveRevocations() error {
	revoked := b.revoked
	b.revoked = nil
	for _, r := range revoked {
		if b.sites.held[r.Site] != nil && !b.sites.held[r.Site].InForce().Central() {
			continue
		}
		if err := b.loadLeases(r.Lease); err != nil {
			return err
		}
		pilot := b.holders[r.Lease]
		if lease := b.leases.held[r.Lease]; lease != nil {
			pilot = lease.Pilot
		}
		if pilot != "" {
			b.wakePilot(pilot)
		}
	}
	return saveAll(revoked, b.Leases().Revoke)
}

// forget drops the copies of tasks and files after a save, so that a long
// sweep does not grow.
func (b *book) forget() {
	b.tasks, b.specs, b.files, b.attempts = shelf[task.ID, TaskState]{}, shelf[task.ID, task.Task]{},
		shelf[task.LFN, FileRecord]{}, shelf[task.AttemptID, Attempt]{}
	b.readable = nil
	b.walkable = nil
}
