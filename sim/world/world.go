package world

import (
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/pilotage-grid/pilotage/dht"
	"github.com/pilotage-grid/pilotage/dht/memnet"
	"github.com/pilotage-grid/pilotage/matcher"
	"github.com/pilotage-grid/pilotage/pilot/message"
	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

// Judge is told what is wrong with a run. A testing.TB is one.
type Judge interface {
	Errorf(format string, args ...any)
	// Fatalf does not return: what follows would mean nothing.
	Fatalf(format string, args ...any)
}

// timeline is a run as it goes on: its time and network, its random numbers, its story, and who
// is told what is wrong.
type timeline struct {
	judge  Judge
	net    *memnet.Net
	began  time.Time
	random *rand.Rand
	notes  []string
}

// world is a whole grid in virtual time. The same calls with the same seed give
// the same run.
type world struct {
	*timeline
	seed     uint64
	compiler *matcher.Compiler
	queue    *queue
	sites    []*site
	pilots   []*node // in order of their start
	peers    map[task.PeerID]*node
	keys     int // that pilots have started with; the queue may have kept one whose pilot was not told

	step     func(n *node, event message.Event) []message.Action // of masters
	capacity task.Bytes                                          // of each cache
	bounded  bool                                                // who calls too often is wrong
	alike    bool                                                // all attempts of a task make the same bytes, not each its own
	allFinal bool                                                // outputs that tasks read are final, too
	playing
}

// playing is what tasks run.
type playing struct {
	run1     func(task.ID, *node) time.Duration // how long a payload runs
	fails    func(task.ID, *node) bool          // whether it fails
	logBytes func(task.AttemptID) int           // of a payload's stderr; nil: none
	started  map[task.ID]int
	ended    map[task.ID]int // well
}

// site is a site with its storage element.
type site struct {
	world    *world
	name     task.Site
	stored   map[string]task.Produced // by URL
	storedAt map[string]time.Duration // when pilots did
	down     bool                     // the storage element does not answer
	drops    bool                     // it says that it has stored what it has not
	lies     bool                     // it gives other bytes than what it has: an HTML page with status 200
	mute     bool                     // it takes files, and nobody hears that it has
	slow     time.Duration            // that it takes longer for every file
	spoilt   map[string]bool          // copies that it has lost or damaged
	begun    int                      // attempts that have begun here
	speaks   uint32                   // the protocol of pilots that are started from now on
	coming   int                      // pilots of the next release that may not join yet
	// deleted lists what the queue has deleted.
	deleted []string
	// undone lists what it had deleted when it was put back to a copy: until
	// somebody reads it, the catalogue may name it.
	undone []string
}

const (
	latency     = time.Millisecond      // of a message from pilot to pilot
	callTime    = 5 * time.Millisecond  // of a call to the queue, one way
	uploadTime  = 50 * time.Millisecond // of an output to a storage element
	stageTime   = 10 * time.Millisecond // of an input, from a pilot or from a storage element
	callFailure = 3 * time.Second       // until a call that nobody answers fails
	garbageTime = 30 * time.Second      // between two deletions
	publishTime = 5 * time.Millisecond  // of outputs into a cache
	lookEvery   = 2 * time.Second       // between two looks at sites: few find anything
)

// newWorldOf makes a world whose queue has the given settings.
func newWorldOf(judge Judge, seed uint64, config taskqueue.Config) *world {
	config.Workflow.LookFor = time.Minute // as the product's server does
	net := memnet.New(seed, dht.Config{})
	net.Speaks = make(map[task.PeerID]uint32)
	w := &world{
		timeline: &timeline{judge: judge, net: net, began: net.Now(), random: rand.New(rand.NewPCG(seed, 1))}, seed: seed,
		compiler: matcher.NewCompiler(64), peers: make(map[task.PeerID]*node),
		capacity: 100 * task.GiB,
		step:     func(n *node, event message.Event) []message.Action { return n.master.Step(n.clock(), event) },
		playing: playing{
			run1:    func(task.ID, *node) time.Duration { return time.Second },
			fails:   func(task.ID, *node) bool { return false },
			started: make(map[task.ID]int), ended: make(map[task.ID]int),
		},
	}
	w.net.Latency = latency
	w.queue = newQueue(w, config)
	w.net.Queue = w.claim
	w.net.OnAction = func(member *memnet.Node, action dht.Action) {
		if n := w.peers[member.Member.Peer]; n != nil {
			n.overlayActs(action)
		}
	}
	w.queue.tick()
	w.net.Every(garbageTime, w.queue.tidy)
	w.net.Every(garbageTime, w.queue.deleteGarbage)
	w.net.Every(lookEvery, w.queue.lookAtStorage)
	w.net.Every(signsTime, w.queue.noteSigns)
	w.net.Every(lookEvery, w.queue.lookAfter)
	return w
}

func (t *timeline) now() time.Duration { return t.net.Now().Sub(t.began) }

func (t *timeline) note(format string, args ...any) {
	t.notes = append(t.notes, fmt.Sprintf("%9.3f ", t.now().Seconds())+fmt.Sprintf(format, args...))
}

func (t *timeline) after(d time.Duration, do func()) { t.net.After(d, do) }

// run lets time pass.
func (t *timeline) run(d time.Duration) { t.net.Run(d, nil) }

// runUntil lets time pass until something holds, at most for a while.
func (t *timeline) runUntil(limit time.Duration, holds func() bool) bool {
	return t.net.Run(limit, holds)
}

// addSite adds a site that has a storage element, unless change takes it away.
func (w *world) addSite(name task.Site, change func(*taskqueue.SiteRecord)) *site {
	s := &site{world: w, name: name, stored: make(map[string]task.Produced), storedAt: make(map[string]time.Duration), spoilt: make(map[string]bool)}
	record := taskqueue.SiteRecord{Name: name, SiteSettings: taskqueue.SiteSettings{SE: "file:///" + string(name), RemoteRead: true}}
	if change != nil {
		change(&record)
	}
	w.queue.must(func(t *taskqueue.Turn) error {
		_, err := w.queue.Rules.AddSite(t, record)
		return err
	})
	w.sites = append(w.sites, s)
	return s
}

// start starts pilots one after the other and waits until all of them are
// members.
func (w *world) start(s *site, pilots, slots int) []*node {
	var started []*node
	for range pilots {
		started = append(started, w.startOne(s, slots, nil))
		w.run(20 * time.Millisecond)
	}
	if !w.runUntil(time.Minute, func() bool { return len(w.queue.alive(s.name)) >= pilots }) {
		w.judge.Fatalf("not all pilots of %s came up", s.name)
	}
	return started
}

// part cuts a group of pilots off from all others of their site; nil heals.
func (w *world) part(group []*node) {
	if group == nil {
		w.note("the network is whole again")
		w.net.Heal()
		return
	}
	w.note("%d pilots are cut off from the others", len(group))
	w.net.Partition(func(m *memnet.Node) int {
		if slices.ContainsFunc(group, func(n *node) bool { return n.member == m }) {
			return 1
		}
		return 0
	})
}

// master is the live pilot that the queue has in office; nil if none.
func (s *site) master() *node {
	record := s.world.queue.site(s.name)
	for _, n := range s.world.pilots {
		if n.id == record.Master && n.alive && !record.Resigned {
			return n
		}
	}
	return nil
}

func (s *site) live() (live []*node) {
	for _, n := range s.world.pilots {
		if n.site == s && n.alive {
			live = append(live, n)
		}
	}
	return live
}

// liveIDs names the live pilots in the queue's order.
func (s *site) liveIDs() (ids []task.PilotID) {
	for _, n := range s.live() {
		ids = append(ids, n.id)
	}
	slices.Sort(ids)
	return ids
}

// element finds the storage element that a URL is on.
func (w *world) element(url string) *site {
	for _, s := range w.sites {
		if strings.HasPrefix(url, "file:///"+string(s.name)+"/") {
			return s
		}
	}
	return nil
}

func digestOf(parts ...string) task.Digest {
	return task.Digest(sha256.Sum256([]byte(strings.Join(parts, "\x00"))))
}

// one is a task of one core that a test completes with reads and makes.
func one(name string, change ...func(*task.Task)) task.Task {
	t := task.Task{
		ID: task.ID("/" + name), Argv: []string{"true"}, Walltime: time.Hour, Retries: 3,
		Resources: task.Resources{Cores: 1, Memory: task.MiB},
	}
	for _, c := range change {
		c(&t)
	}
	return t
}

func reads(names ...string) func(*task.Task) {
	return func(t *task.Task) {
		for _, name := range names {
			t.Inputs = append(t.Inputs, task.Input{LFN: task.LFN(name), Name: name})
		}
	}
}

func makes(names ...string) func(*task.Task) {
	return func(t *task.Task) {
		for _, name := range names {
			t.Outputs = append(t.Outputs, task.Output{LFN: task.LFN(name), Name: name})
		}
	}
}

// submit submits a workflow whose final outputs are those that no task reads.
// Inputs that no task makes are external files on every storage element.
func (w *world) submit(name string, tasks ...task.Task) task.WorkflowID {
	made, read := make(map[task.LFN]bool), make(map[task.LFN]bool)
	for i := range tasks {
		for _, out := range tasks[i].Outputs {
			made[out.LFN] = true
		}
		for _, in := range tasks[i].Inputs {
			read[in.LFN] = true
		}
	}
	s := taskqueue.Submission{Key: name, Name: name, By: taskqueue.Person{Name: "test"}, Tasks: tasks}
	for i := range tasks {
		for _, out := range tasks[i].Outputs {
			if !read[out.LFN] || w.allFinal {
				s.Outputs = append(s.Outputs, string(out.LFN))
			}
		}
		for _, in := range tasks[i].Inputs {
			if !made[in.LFN] {
				made[in.LFN] = true
				s.Files = append(s.Files, w.external(in.LFN))
			}
		}
	}
	var submitted taskqueue.Submitted
	w.queue.must(func(t *taskqueue.Turn) (err error) {
		submitted, err = w.queue.Rules.Submit(t, s)
		return err
	})
	return w.queue.workflow(submitted.Workflow).ID // a power cut may have come before or after the sync
}

// external is a file that is on every storage element.
func (w *world) external(name task.LFN) task.File {
	file := task.File{LFN: name, Size: task.MiB, Digest: digestOf("external", string(name))}
	for _, s := range w.sites {
		url := "file:///" + string(s.name) + "/external/" + string(name)
		file.Replicas = append(file.Replicas, task.Replica{Site: s.name, URL: url})
		s.stored[url] = task.Produced{LFN: name, Size: file.Size, Digest: file.Digest, URL: url}
	}
	return file
}

// finish waits until a workflow is finished: all tasks DONE and all final
// outputs stored.
func (w *world) finish(id task.WorkflowID, limit time.Duration) {
	if w.runUntil(limit, func() bool { return w.queue.workflow(id).Finished() }) {
		w.check()
		return
	}
	found := w.queue.workflow(id)
	w.judge.Fatalf("workflow %s is not finished %s after its start: %v, %d outputs not stored", found.Name, w.now(), found.Counts, found.Unstored)
}

// check says what must hold at any time: every copy that the catalogue names is
// there with the bytes of the attempt that won, and every final output that
// counts as stored has one.
func (w *world) check() {
	for _, f := range w.queue.files() {
		for _, replica := range f.Replicas {
			s := w.element(replica.URL)
			if s == nil {
				w.judge.Errorf("%s: the catalogue names %s, which is on no storage element", f.LFN, replica.URL)
				continue
			}
			if copied, there := s.stored[replica.URL]; s.spoilt[replica.URL] || !there && slices.Contains(s.undone, replica.URL) {
				continue
			} else if !there {
				w.judge.Errorf("%s: the catalogue names %s, which is not there", f.LFN, replica.URL)
			} else if copied.Digest != f.Digest {
				w.judge.Errorf("%s: %s has other bytes than the winner's", f.LFN, replica.URL)
			}
		}
	}
}

// tree is work of two levels: makers, and readers of two makers' outputs each.
func tree(makers int) (tasks []task.Task) {
	for i := range makers {
		tasks = append(tasks, one(fmt.Sprintf("make%d", i), reads("db"), makes(fmt.Sprintf("m%d", i))))
	}
	for i := range makers {
		tasks = append(tasks, one(fmt.Sprintf("read%d", i),
			reads(fmt.Sprintf("m%d", i), fmt.Sprintf("m%d", (i+1)%makers)), makes(fmt.Sprintf("r%d", i))))
	}
	return tasks
}
