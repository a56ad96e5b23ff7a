package bench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/pilotage-grid/pilotage/cache/disk"
	"github.com/pilotage-grid/pilotage/pilot/agent"
	"github.com/pilotage-grid/pilotage/pilot/exec"
	"github.com/pilotage-grid/pilotage/task"
)

// yard is where pilots of one process keep what worker nodes and a storage
// element would hold: files without bytes. It is safe for use by many
// goroutines.
type yard struct {
	fileSize task.Bytes
	capacity task.Bytes // of each cache

	mutex  sync.Mutex
	plots  map[string]*plot // by data URL
	stored map[string]bool  // replicas, by URL
	// searches are how long those for the pilots that hold files took.
	searches []time.Duration
}

func newYard(fileSize, capacity task.Bytes) *yard {
	return &yard{fileSize: fileSize, capacity: capacity, plots: make(map[string]*plot), stored: make(map[string]bool)}
}

// plot is one pilot's part of the yard: its cache, its payloads and its uploads.
type plot struct {
	yard   *yard
	url    string
	cache  *memoryCache
	extra  ExtraPilot
	line   line        // to the queue
	peer   task.PeerID // set by equip
	killed chan struct{}
	once   sync.Once
	leave  func()        // has the pilot say goodbye; nil before it starts
	gone   chan struct{} // closed when it has
}

// errKilled ends a pilot as SIGKILL would: without a word to anybody.
var errKilled = errors.New("killed by the bench")

func (y *yard) newPlot(number int) *plot {
	p := &plot{yard: y, extra: silent{}, url: fmt.Sprintf("https://127.0.0.1:1/plot/%d", number), killed: make(chan struct{}), gone: make(chan struct{})}
	y.mutex.Lock()
	defer y.mutex.Unlock()
	y.plots[p.url] = p
	return p
}

// at returns the plot with a data URL; nil when it is given up.
func (y *yard) at(url string) *plot {
	y.mutex.Lock()
	defer y.mutex.Unlock()
	return y.plots[url]
}

// searched notes how long a search for the pilots that hold files took.
func (y *yard) searched(took time.Duration) {
	y.mutex.Lock()
	defer y.mutex.Unlock()
	y.searches = append(y.searches, took)
}

// searchTimes returns how many searches there were, and how long they took.
func (y *yard) searchTimes() (int, Distribution) {
	y.mutex.Lock()
	defer y.mutex.Unlock()
	return len(y.searches), Distribute(y.searches)
}

// evictions sums up what all caches have evicted.
func (y *yard) evictions() (sum uint64) {
	y.mutex.Lock()
	defer y.mutex.Unlock()
	for _, p := range y.plots {
		if p.cache != nil {
			sum += p.cache.Usage().Evictions
		}
	}
	return sum
}

// kill ends the plot's pilot at once.
func (p *plot) kill() { p.once.Do(func() { close(p.killed) }) }

// place is what the pilot's registration names.
func (p *plot) place() agent.Place {
	return agent.Place{DataURL: p.url, Walls: task.Walls{Note: "its payloads are no processes"}}
}

// equip makes what a registered pilot works with.
func (p *plot) equip(pilot agent.Enrollment) (agent.Parts, error) {
	var err error
	p.peer = pilot.Peer
	p.yard.mutex.Lock()
	p.cache, err = newMemoryCache(p.yard.capacity, p.yard.fileSize, func(keys []task.FileKey) {
		p.extra.CacheChanged(len(keys))
		pilot.Evicted(keys)
	})
	p.yard.mutex.Unlock()
	return agent.Parts{Cache: p.cache, Payloads: p, Uploads: p, Fetcher: &memoryFetcher{plot: p, pilot: pilot}, Serve: p.serve}, err
}

// serve has the pilot send its heartbeats, if it has any, until it ends.
func (p *plot) serve(ctx context.Context) error {
	var beating sync.WaitGroup
	defer beating.Wait()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	beating.Go(func() { p.extra.Beat(ctx) })
	select {
	case <-p.killed:
		return errKilled
	case <-ctx.Done():
		return nil
	}
}

// close gives the plot up: nobody finds the files any more.
func (p *plot) close() {
	select {
	case <-p.killed:
		p.yard.mutex.Lock()
		defer p.yard.mutex.Unlock()
		delete(p.yard.plots, p.url)
	default: // kept for the count of evictions; a pilot that left is not asked
		if p.cache != nil { // its files are deleted
			p.extra.CacheChanged(p.cache.Usage().Files)
		}
	}
}

// Put satisfies agent.Uploads.
func (p *plot) Put(_ context.Context, element, name string, _ task.FileKey, _ bool) (string, error) {
	url := element + "/" + name
	p.yard.mutex.Lock()
	defer p.yard.mutex.Unlock()
	p.yard.stored[url] = true
	return url, nil
}

// Find satisfies agent.Uploads.
func (p *plot) Find(_ context.Context, element, name string, _ task.Bytes, _ task.Digest) (string, error) {
	url := element + "/" + name
	if !p.yard.isStored(url) {
		return "", nil
	}
	return url, nil
}

// isStored tells whether the storage element has a replica.
func (y *yard) isStored(url string) bool {
	y.mutex.Lock()
	defer y.mutex.Unlock()
	return y.stored[url]
}

// Run satisfies agent.Payloads.
func (p *plot) Run(ctx context.Context, spec exec.Spec, started func(at time.Time, process int)) exec.Result {
	p.extra.Assigned()
	result := p.run(ctx, spec, started)
	p.extra.Ended(len(result.Outputs))
	return result
}

func (p *plot) run(ctx context.Context, spec exec.Spec, started func(at time.Time, process int)) exec.Result {
	result := exec.Result{OK: true, Folder: spec.Attempt.String(), Started: time.Now()}
	lasts, err := time.ParseDuration(spec.Task.Argv[len(spec.Task.Argv)-1] + "s")
	if err != nil {
		return exec.Result{Failure: task.PayloadFailed, Reason: fmt.Sprintf("the time of %s: %v", spec.Task.ID, err)}
	}
	if started != nil {
		started(result.Started, 0)
	}
	pause(ctx, lasts)
	p.line.wait(p.killed) // a pilot that is stopped does not see its payload end
	result.Ended = time.Now()
	result.Run = result.Ended.Sub(result.Started)
	if ctx.Err() != nil {
		result.OK, result.Failure, result.Reason, result.Signal = false, task.KilledByUser, "cancelled", "SIGKILL"
		return result
	}
	for _, output := range spec.Task.Outputs {
		result.Outputs = append(result.Outputs, exec.Collected{
			LFN: output.LFN, Name: spec.Attempt.String() + "/" + output.Name, Size: p.yard.fileSize,
		})
	}
	return result
}

// Release satisfies agent.Payloads.
func (p *plot) Release(string) error { return nil }

// DropLogs satisfies agent.Payloads.
func (p *plot) DropLogs(task.AttemptID) {}

var (
	_ agent.Payloads = (*plot)(nil)
	_ agent.Uploads  = (*plot)(nil)
	_ agent.Cache    = (*memoryCache)(nil)
	_ agent.Fetcher  = (*memoryFetcher)(nil)
	_ agent.Cache    = (*disk.Cache)(nil)
)
