package serving

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/pilotage-grid/pilotage/matcher"
	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
	"github.com/pilotage-grid/pilotage/taskqueue/matchmaker"
)

// Turns are how the rules read and change what the store has: what Update and View are
// given they carry out by taskqueue.In.
type Turns struct {
	Rules        *taskqueue.Rules
	Update, View func(context.Context, func(*taskqueue.Turn) error) error
	Clock        func() taskqueue.Instant
}

// Matching serves the pilots of sites at which the queue matches tasks: the matchmaker
// under its lock, with the rules of which it makes use. It is safe for concurrent use.
type Matching struct {
	turns Turns
	signs *taskqueue.Rules // that write signs of life
	exact *taskqueue.Rules // that write them as exactly as they are known
	desk  *Desk
	stir  func() // CallIn is due

	mutex sync.Mutex
	maker *matchmaker.Matchmaker
	due   map[task.Site]struct{} // tasks may have come up there
	none  bool                   // no site was found at which the queue matches
	modes bool                   // sites were added or changed since
}

// compiledExpressions bounds the cache of compiled requirements and ranks.
const compiledExpressions = 4096

// NewMatching returns one that knows no pilot yet. stir is called when CallIn has
// something to do; it must neither block nor call back.
func NewMatching(turns Turns, desk *Desk, stir func()) *Matching {
	config := &turns.Rules.Config
	return &Matching{
		turns: turns, signs: marking(*config, config.Site.MarkEvery/4), exact: marking(*config, 1), desk: desk, stir: stir,
		maker: matchmaker.New(config, matcher.NewCompiler(compiledExpressions)), due: make(map[task.Site]struct{}),
	}
}

// Changed hands on what a committed turn has changed.
func (m *Matching) Changed(e *taskqueue.Effects) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.maker.Changed(e)
	m.modes = m.modes || e.Modes
	all := len(e.Tasks) > 0 || e.TooMany || e.WakeAll
	for _, site := range m.maker.Sites() {
		if _, wake := e.Wake[string(site)]; all || wake {
			m.due[site] = struct{}{}
		}
	}
	if len(m.due) > 0 {
		m.stir()
	}
}

// Hear takes what a Pull says of its pilot, once, and when no later one has come; of the files that the pilot could not
// read it leaves those that no other one holds. It returns what its site has to offer.
func (m *Matching) Hear(c *Call, in *task.Pull) task.Capacity {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	return m.maker.Hear(m.turns.Clock(), in, m.desk.Newest(c))
}

// Broken notes that a pilot has not waited for the answer to its newest call.
func (m *Matching) Broken(site task.Site, pilot task.PilotID) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.maker.Broken(m.turns.Clock(), site, pilot)
}

// Explain adds what keeps a task from the pilots of sites at which the queue matches.
func (m *Matching) Explain(e *taskqueue.Explanation) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	for i := range e.Sites {
		m.maker.Explain(&e.Sites[i], e.State.ID)
	}
}

func (m *Matching) capacity(site task.Site) task.Capacity {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	return m.maker.Capacity(site)
}

// matchTries is how often a pilot is matched in one look, when all that was chosen for it
// has just gone to another site: nobody would wake it for the tasks behind those.
const matchTries = 8

// Pull is one look at a Pull: it takes the news, then matches and leases tasks. It tells
// whether the pilot is master of its site's overlay, in the term that it names.
func (m *Matching) Pull(ctx context.Context, c *Call, in *task.Pull, capacity task.Capacity) (reply task.PullReply, office bool, err error) {
	var pulled taskqueue.Pulled
	err = m.turns.Update(ctx, func(t *taskqueue.Turn) (err error) {
		pulled, err = m.turns.Rules.Pull(t, in, capacity)
		return err
	})
	for tries := 0; err == nil && tries < matchTries; tries++ {
		var matched []task.ID
		var lease task.Lease
		if matched, err = m.match(ctx, c, in, &pulled); err != nil || len(matched) == 0 {
			break
		}
		lease, err = m.grant(ctx, in, matched)
		if len(lease.Tasks) > 0 {
			pulled.Reply.Leases = append(pulled.Reply.Leases, lease)
			break
		}
	}
	return pulled.Reply, pulled.Site.Master == in.Pilot && pulled.Site.Term == in.Term, err
}

// match chooses tasks for the pilot; one call after the other.
func (m *Matching) match(ctx context.Context, c *Call, in *task.Pull, pulled *taskqueue.Pulled) ([]task.ID, error) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	now := m.turns.Clock()
	m.maker.Describe(now, pulled, in.Self)
	if !pulled.MayTake() || !m.desk.Newest(c) {
		return nil, nil
	}
	if err := m.refresh(ctx, in.Site); err != nil {
		return nil, err
	}
	return m.maker.Match(now, in.Site, in.Pilot, pulled.Unseen), nil
}

// grant leases of the tasks that were chosen those that nobody has taken meanwhile.
func (m *Matching) grant(ctx context.Context, in *task.Pull, matched []task.ID) (lease task.Lease, err error) {
	err = m.turns.Update(ctx, func(t *taskqueue.Turn) (err error) {
		lease, err = m.turns.Rules.Grant(t, in.Site, in.Pilot, matched)
		return err
	})
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.maker.Granted(in.Site, in.Pilot, matched, &lease)
	return lease, err
}

// refresh brings the matchmaker's tasks up to date; its lock is held.
func (m *Matching) refresh(ctx context.Context, site task.Site) error {
	if !m.maker.Stale(m.turns.Clock(), site) {
		return nil
	}
	return m.turns.View(ctx, func(t *taskqueue.Turn) error { return m.maker.Refresh(t, site) })
}

// CallIn wakes pilots for tasks that have come up.
func (m *Matching) CallIn(ctx context.Context) (err error) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	due := m.due
	m.due = make(map[task.Site]struct{})
	for _, site := range m.maker.Sites() {
		if _, is := due[site]; !is {
			continue
		}
		if failed := m.refresh(ctx, site); failed != nil {
			err = fmt.Errorf("read the tasks that wait for site %s: %w", site, failed)
			continue
		}
		m.desk.WakePilots(m.maker.CallIn(site, m.desk.Stance))
	}
	return err
}

// centralSite is a site at which the queue matches tasks, with its live pilots and the
// files that only caches hold and that nobody stores by itself.
type centralSite struct {
	site   taskqueue.SiteRecord
	pilots []taskqueue.PilotRecord
	unsafe []task.File
}

// idle tells whether masters match at all sites. If not so, a look begins.
func (m *Matching) idle() bool {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	if m.none && !m.modes && !m.maker.Known() {
		return true
	}
	m.modes = false
	return false
}

// LookAfter does what at other sites a master does: it notices pilots that are gone, and
// what is gone with them.
func (m *Matching) LookAfter(ctx context.Context) error {
	if m.idle() {
		return nil
	}
	var central []centralSite
	err := m.turns.View(ctx, func(t *taskqueue.Turn) error {
		all := taskqueue.Read(t.Sites().All())
		central = nil
		for i := range all {
			if all[i].InForce().Central() {
				central = append(central, centralSite{
					site:   all[i],
					pilots: taskqueue.Read(t.Pilots().OfSite(all[i].Name, taskqueue.PilotAlive, taskqueue.PilotDraining)),
					unsafe: taskqueue.Read(m.turns.Rules.Unguarded(t, all[i].Name)),
				})
			}
		}
		m.shareOut(t, all)
		return nil
	})
	if err != nil {
		return err
	}
	for i := range central {
		name := central[i].site.Name
		care, ask := m.tend(&central[i])
		if !care.Empty() {
			if err := m.turns.Update(ctx, func(t *taskqueue.Turn) error { return m.turns.Rules.Tend(t, name, &care) }); err != nil {
				return err
			}
		}
		m.desk.WakePilots(ask)
	}
	return m.CallIn(ctx)
}

// shareOut tells the matchmaker which sites are alive, and has it forget those at which
// masters match or that were removed.
func (m *Matching) shareOut(t *taskqueue.Turn, all []taskqueue.SiteRecord) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	var live, storing []task.Site
	central := make(map[task.Site]bool)
	for i := range all {
		if m.turns.Rules.Live(t, &all[i]) {
			live = append(live, all[i].Name)
			if all[i].SE != "" {
				storing = append(storing, all[i].Name)
			}
		}
		central[all[i].Name] = all[i].InForce().Central()
	}
	m.none = !slices.Contains(slices.Collect(maps.Values(central)), true)
	m.maker.Share(live, storing)
	for _, name := range m.maker.Sites() {
		if !central[name] {
			m.maker.Close(name)
		}
	}
}

// tend decides what is to be done for a site, and which pilots should ask again.
func (m *Matching) tend(c *centralSite) (taskqueue.Care, []task.PilotID) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.due[c.site.Name] = struct{}{}
	return m.maker.Tend(m.turns.Clock(), &c.site, c.pilots, c.unsafe, m.desk.Calls)
}
