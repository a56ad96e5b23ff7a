package grid

import (
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/pilotage-grid/pilotage/matcher"
	"github.com/pilotage-grid/pilotage/pilot/master"
	"github.com/pilotage-grid/pilotage/pilot/message"
	"github.com/pilotage-grid/pilotage/pilot/worker"
	"github.com/pilotage-grid/pilotage/sim"
	"github.com/pilotage-grid/pilotage/sim/staging"
	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/task/workflow/trace"
)

// epoch is the wall clock at the start of a run.
var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// Run plays a workload to its end.
func Run(config Config) (*Result, error) {
	if err := config.check(); err != nil {
		return nil, fmt.Errorf("simulate %s: %w", config.Workload.Name, err)
	}
	w := newWorld(config)
	if err := w.begin(); err != nil {
		return nil, fmt.Errorf("simulate %s: %w", config.Workload.Name, err)
	}
	limit := config.Limit
	if limit <= 0 {
		limit = 10 * 365 * 24 * time.Hour
	}
	for !w.over && w.failure == nil {
		if w.timeline.Now() > limit || !w.timeline.Step() {
			w.fail("%s", w.left())
		}
		w.lookForLife()
	}
	if w.failure != nil {
		return nil, fmt.Errorf("simulate %s: %w", config.Workload.Name, w.failure)
	}
	return w.result(), nil
}

// left says how much of the workload is not done.
func (w *world) left() string {
	all := len(w.config.Workload.Tasks)
	return fmt.Sprintf("%d of %d tasks are not done after %s", all-w.done, all, w.timeline.Now())
}

const (
	// lifeEvery is how often somebody looks whether anything is being done, and
	// looksWithoutLife how often in a row nothing is before a run is given up. All
	// that tasks wait for by time is shorter: lost leases, retries, locality waits.
	lifeEvery        = time.Hour
	looksWithoutLife = 12
)

// life is what is known of a run's progress.
type life struct {
	looked  time.Duration
	done    int
	without int // looks in a row at which nothing was done
}

// lookForLife gives up a run in which no task can run any more: the only node
// that had room for it may have failed.
func (w *world) lookForLife() {
	if w.timeline.Now()-w.life.looked < lifeEvery {
		return
	}
	w.life.looked = w.timeline.Now()
	if w.life.done != w.done || slices.ContainsFunc(w.nodes, func(n *node) bool { return n.alive && len(n.attempts) > 0 }) {
		w.life.done, w.life.without = w.done, 0
		return
	}
	if w.life.without++; w.life.without >= looksWithoutLife {
		w.fail("%s, and none has run for %s: no node that is left can run them", w.left(), looksWithoutLife*lifeEvery)
	}
}

type world struct {
	config   Config
	timeline *sim.Timeline
	network  *sim.Network
	record   *sim.Record
	random   *rand.Rand
	compiler *matcher.Compiler
	queue    *queue
	sites    []*site
	nodes    []*node
	peers    map[task.PeerID]*node
	tasks    map[string]int32 // by name in the queue
	files    map[string]int32 // by name in the queue
	done     int              // tasks
	life     life
	over     bool
	trouble  string // the last that a node had with files
	failure  error
	sums     Result
}

// site is the part of a site that belongs to no pilot.
type site struct {
	*world
	Site
	nodes      []*node
	office     *node
	term       task.Term
	desk       *staging.Desk
	storage    *storage
	wide       sim.LinkID
	gatherings map[worker.BroadcastID]*gathering
}

func newWorld(config Config) *world {
	w := &world{
		config: config, timeline: &sim.Timeline{}, record: sim.NewRecord(), random: sim.Random(config.Seed, "grid"),
		compiler: matcher.NewCompiler(64), peers: make(map[task.PeerID]*node),
	}
	w.record.Keep = config.KeepBars
	w.network = sim.NewNetwork(w.timeline)
	w.queue = newQueue(w)
	for _, described := range config.Sites {
		s := &site{world: w, Site: described, gatherings: make(map[worker.BroadcastID]*gathering)}
		s.storage = &storage{site: s, link: w.network.Link(described.StorageBandwidth)}
		s.wide = w.network.Link(described.WideBandwidth)
		s.desk = newDesk(s)
		w.sites = append(w.sites, s)
	}
	return w
}

// Now and After are the clock of all pilots.
func (w *world) Now() time.Time { return epoch.Add(w.timeline.Now()) }

func (w *world) After(d time.Duration, do func()) (cancel func()) {
	event := w.timeline.After(d, do)
	return func() { w.timeline.Cancel(event) }
}

func (w *world) fail(format string, args ...any) {
	if w.failure == nil {
		w.failure = fmt.Errorf(format, args...)
	}
}

// begin submits the workload and starts all pilots.
func (w *world) begin() error {
	for _, s := range w.sites {
		if err := w.queue.addSite(s); err != nil {
			return err
		}
	}
	if err := w.submit(); err != nil {
		return err
	}
	loads := sim.Random(w.config.Seed, "background")
	for _, s := range w.sites {
		for _, described := range s.Nodes {
			n := newNode(s, described, len(w.nodes), sim.Load{Period: w.config.Background, Seed: loads.Uint64()})
			w.nodes = append(w.nodes, n)
			s.nodes = append(s.nodes, n)
			w.peers[n.peer] = n
			if err := n.join(); err != nil {
				return err
			}
		}
	}
	w.queue.tick()
	return nil
}

// submit brings the workload into the queue.
func (w *world) submit() error {
	plan, _, err := w.config.Workload.Plan(trace.Scale{Time: 1, Size: 1})
	if err != nil {
		return err
	}
	w.tasks, w.files = make(map[string]int32, len(plan.Tasks)), make(map[string]int32, len(w.config.Workload.Files))
	for i := range plan.Tasks {
		t, recorded := &plan.Tasks[i], &w.config.Workload.Tasks[i]
		w.tasks[t.ID.Name()] = int32(i)
		t.ID = "/" + t.ID
		t.Shell, t.Rank = "", w.config.Rank
		t.Argv = []string{"simulated"}
		t.Resources = task.Resources{Cores: recorded.Cores, Memory: max(recorded.Memory, task.MiB)}
		for j, f := range recorded.Inputs {
			w.files[string(t.Inputs[j].LFN)] = f
		}
		for j, f := range recorded.Outputs {
			w.files[string(t.Outputs[j].LFN)] = f
		}
	}
	var external []task.File
	for _, f := range plan.Files {
		file := task.File{LFN: task.LFN(f.Name), Size: f.Size, Digest: digest("external", f.Name)}
		for _, s := range w.sites {
			if s.Holds {
				file.Replicas = append(file.Replicas, task.Replica{Site: s.Name, URL: "file:///" + string(s.Name) + "/" + f.Name})
			}
		}
		external = append(external, file)
	}
	return w.queue.submit(plan, external)
}

func digest(parts ...string) task.Digest {
	h := sha256.New()
	for _, part := range parts {
		_, _ = h.Write(append([]byte(part), 0))
	}
	return task.Digest(h.Sum(nil))
}

// taskOf is the index of a task in the workload.
func (w *world) taskOf(id task.ID) int32 { return w.tasks[id.Name()] }

// elect puts the live pilot with the lowest peer id into a site's office.
func (s *site) elect() {
	var candidate *node
	for _, n := range s.nodes {
		if n.alive && (candidate == nil || n.peer < candidate.peer) {
			candidate = n
		}
	}
	if candidate == nil {
		return
	}
	claimed, err := s.queue.claim(candidate)
	switch {
	case err != nil:
		s.fail("claim of %s: %w", candidate.peer, err)
	case !claimed.Granted:
		s.timeline.After(time.Second, s.elect)
	default:
		s.office, s.term = candidate, claimed.Term
		s.install(master.TookOffice{Term: s.term, Settings: claimed.Settings, Leases: claimed.Leases, Revoked: claimed.Revoked, Alone: s.alone()})
	}
}

func (s *site) alone() bool {
	live := 0
	for _, n := range s.nodes {
		if n.alive {
			live++
		}
	}
	return live < 2
}

// install tells everybody who is master.
func (s *site) install(took master.TookOffice) {
	office := s.office
	s.record.Note(s.timeline.Now(), "office", int64(office.index), int64(took.Term.Epoch))
	office.stepWorker(message.MasterInOffice{Term: s.term, Peer: office.peer})
	office.stepMaster(took)
	office.stepMaster(master.PilotUp{Pilot: office.id, Peer: office.peer})
	for _, n := range s.nodes {
		if n != office && n.alive {
			s.meet(n)
		}
	}
}

// meet introduces a pilot and the master to each other.
func (s *site) meet(n *node) {
	office, term := s.office, s.term
	s.timeline.After(s.Latency, func() {
		if s.term == term {
			n.stepWorker(message.MasterInOffice{Term: term, Peer: office.peer})
		}
	})
	s.timeline.After(2*s.Latency, func() {
		if s.term == term {
			office.stepMaster(master.PilotUp{Pilot: n.id, Peer: n.peer})
		}
	})
}
