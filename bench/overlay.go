package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/pilotage-grid/pilotage/cache/storage"
	pb "github.com/pilotage-grid/pilotage/proto/pilotage/v1"
	"github.com/pilotage-grid/pilotage/sim/chart"
	"github.com/pilotage-grid/pilotage/task"
)

// Transport is what carries the bytes between pilots.
type Transport string

// The transports.
const (
	TransportLight Transport = "light" // memory, and a host without swarm: to several thousand pilots
	TransportTCP   Transport = "tcp"   // real connections: to some hundred
	// TransportProcesses has each pilot in a process of its own: TCP, files on a
	// disk, payloads that are processes; to some tens.
	TransportProcesses Transport = "processes"
)

// Overlay says which sites are measured and with what work.
type Overlay struct {
	Setup
	Pilots, Sites, Tasks int
	Workflow             Pattern
	Mode                 pb.SiteMode
	Transport            Transport
	TaskTime             time.Duration // usual; each varies by 30 %
	RoundPeriod          time.Duration // 0: rounds are driven by events
	Prefill              int
	LocalityWait         *time.Duration // nil: the queue's default
	FileSize             task.Bytes     // of each; takes as long to stage in as the default rates say
	CacheFiles           int            // capacity of each cache in files; 0: unlimited
	// CacheShare is that capacity as a share of a pilot's working set instead: of
	// the files that it makes and reads in the run if each task runs where its
	// inputs were made, which are as many as its tasks. 0: CacheFiles holds.
	CacheShare float64
	Harm
	Seed       uint64
	QueueShare float64 // of one processor, that the queue gets while tasks run; 0: all that it can use
	Extra      Extra   // nil: pilots send the product's messages only
	Trace      *Trace  // if not nil, is told how the run goes
}

// Harm is what a bench of the overlay does to its pilots.
type Harm struct {
	KillRate float64 // share of the pilots killed per second
	// KillMasters and HangMasters are how many masters are killed, and stopped
	// for a while, one after the other.
	KillMasters, HangMasters int
}

const (
	// DefaultFileSize is what a task usually writes: a second of stage-in within a site.
	DefaultFileSize = task.Bytes(100e6)
	unlimited       = task.Bytes(1) << 50
)

// Validate tells what of the values makes no sense.
func (o Overlay) Validate() error {
	switch {
	case o.Sites < 1 || o.Pilots < o.Sites:
		return fmt.Errorf("%d pilots for %d sites: at least one for each is needed", o.Pilots, o.Sites)
	case o.TaskTime < 0 || o.RoundPeriod < 0 || o.Prefill < 0 || o.CacheFiles < 0 || o.CacheShare < 0 || o.KillRate < 0 || o.KillMasters < 0 || o.HangMasters < 0:
		return errors.New("task time, round period, prefill, cache, kill rate and masters taken away cannot be negative")
	case o.FileSize < 1 || o.FileSize > task.TiB:
		return fmt.Errorf("files of %d bytes: give 1 byte to 1 TiB", o.FileSize)
	case o.HangMasters > 0 && o.Transport == TransportTCP:
		return errors.New("connections over TCP within a process cannot be held: to stop masters, take the transport light or processes")
	case o.KillMasters+o.HangMasters > 0 && o.Mode != pb.SiteMode_SITE_MODE_DISTRIBUTED:
		return errors.New("only sites in mode distributed have masters to take away")
	case o.KillMasters+o.HangMasters > 0 && o.Pilots/o.Sites <= max(1, (o.KillMasters+o.Sites-1)/o.Sites):
		return fmt.Errorf("%d pilots at %d sites are too few for %d masters to be killed and %d stopped: another one takes office each time",
			o.Pilots, o.Sites, o.KillMasters, o.HangMasters)
	case o.Extra != nil && o.Transport == TransportProcesses:
		return errors.New("pilots that are processes send no extra messages: take another transport")
	case o.CacheShare > 1:
		return fmt.Errorf("a cache share of %g: it is the share of what a pilot makes and reads that its cache holds, at most 1", o.CacheShare)
	case o.CacheFiles > 0 && o.CacheShare > 0:
		return errors.New("caches are as large as so many files, or as a share of the working set: give one of both")
	case o.QueueShare < 0 || o.QueueShare > 1:
		return fmt.Errorf("a queue's share of %g: it is of one processor, at most 1", o.QueueShare)
	case o.KillRate > 1:
		return fmt.Errorf("a kill rate of %g: it is the share of the pilots killed per second, at most 1", o.KillRate)
	case !slices.Contains([]Transport{TransportLight, TransportTCP, TransportProcesses}, o.Transport):
		return fmt.Errorf("transport %q: there are light, tcp and processes", o.Transport)
	}
	if o.LocalityWait != nil && *o.LocalityWait < 0 {
		return errors.New("the locality wait cannot be negative")
	}
	if _, _, err := o.Workflow.steps(o.Tasks); err != nil {
		return err
	}
	// A task whose files do not fit into the cache at once would wait for ever.
	if files, least := o.cacheFiles(), len(o.Workflow.reads(0))+1; (o.CacheFiles > 0 || o.CacheShare > 0) && files < least {
		return fmt.Errorf("caches of %d files: a task of workflow %s reads and writes %d, so give room for that many, or more tasks for each pilot", files, o.Workflow, least)
	}
	return nil
}

// Run measures once. All pilots have joined before the first task is
// submitted.
func (o Overlay) Run(ctx context.Context) (OverlayResult, error) {
	if err := o.Validate(); err != nil {
		return OverlayResult{}, err
	}
	workflow, err := twoStep(o.Workflow, o.Tasks, o.TaskTime, o.Seed, o.payloads())
	if err != nil {
		return OverlayResult{}, err
	}
	queue, err := newQueue(ctx, o.Setup)
	if err != nil {
		return OverlayResult{}, err
	}
	defer queue.close()
	if err := o.addSites(ctx, queue); err != nil {
		return OverlayResult{}, err
	}
	result := OverlayResult{OverlayRun: OverlayRun{
		Pilots: o.Pilots, Sites: o.Sites, Tasks: len(workflow.tasks), Mode: modeName(o.Mode), Workflow: o.Workflow, Seed: o.Seed,
		Transport: o.Transport, TaskSeconds: o.TaskTime.Seconds(), RoundPeriod: o.RoundPeriod.Seconds(),
		Prefill: o.Prefill, FileSize: o.FileSize, CacheFiles: o.cacheFiles(), CacheShare: o.CacheShare, KillRate: o.KillRate,
		KillMasters: o.KillMasters, HangMasters: o.HangMasters,
	}}
	if o.LocalityWait != nil {
		seconds := o.LocalityWait.Seconds()
		result.LocalityWait = &seconds
	}
	if result.Place, err = queue.place(); err != nil {
		return OverlayResult{}, err
	}
	profile, err := o.profile("joining")
	if err != nil {
		return OverlayResult{}, err
	}
	began := time.Now()
	o.say("%d pilots join", o.Pilots)
	pilots, err := o.board(ctx, queue)
	profile()
	if err != nil {
		return OverlayResult{}, err
	}
	result.JoinSeconds = time.Since(began).Seconds()
	o.say("%d pilots have joined in %.1f s", o.Pilots, result.JoinSeconds)
	err = o.measure(ctx, queue, pilots, workflow, &result)
	o.say("the pilots leave")
	if err := errors.Join(err, pilots.close()); err != nil {
		return OverlayResult{}, err
	}
	requests, err := queue.requestsOfPilots(ctx)
	if err != nil {
		return OverlayResult{}, err
	}
	result.countRequests(requests)
	result.LoadAfter = load()
	return result, nil
}

// Draw measures once and draws how the run went over time.
func (o Overlay) Draw(ctx context.Context) (OverlayResult, []*chart.Figure, error) {
	o.Trace = &Trace{}
	result, err := o.Run(ctx)
	if err != nil {
		return OverlayResult{}, nil, err
	}
	title := fmt.Sprintf("%d pilots, %d tasks, %s, %s", result.Pilots, result.Tasks, result.Workflow, result.Mode)
	return result, []*chart.Figure{
		{
			Name: "slots", Title: title, X: "time (s)", Y: "slots",
			Series: []chart.Series{{Name: "running payloads", Points: o.Trace.Running}, Beside("requests to the queue until then", o.Trace.Messages, o.Trace.Running)},
		},
		{
			Name: "delay", Title: title, X: "time (s)", Y: "time that a slot was free (s)",
			Series: []chart.Series{{Name: "slot change", Points: o.Trace.Delays}, Beside("tasks at the queue", o.Trace.Queued, o.Trace.Delays)},
		},
	}, nil
}

func (o Overlay) addSites(ctx context.Context, queue *queueProcess) error {
	for i := range o.Sites {
		folder := queue.folder + "/storage/" + overlaySite(i)
		if err := os.MkdirAll(folder, 0o700); err != nil {
			return err
		}
		prefill := int32(o.Prefill)
		settings := &pb.SiteSettings{
			Name: overlaySite(i), Mode: o.Mode, Prefill: &prefill, RemoteRead: true, StorageUrl: storage.FileURL(folder),
		}
		if o.LocalityWait != nil {
			settings.LocalityWait = durationpb.New(*o.LocalityWait)
		}
		if o.RoundPeriod > 0 {
			settings.RoundPeriod = durationpb.New(o.RoundPeriod)
		}
		if err := queue.addSite(ctx, settings); err != nil {
			return err
		}
	}
	return nil
}

// measure submits the workflow, waits for its end, and takes the figures.
func (o Overlay) measure(ctx context.Context, queue *queueProcess, pilots fleet, workflow submission, result *OverlayResult) error {
	before, err := queue.requestsOfPilots(ctx)
	if err != nil {
		return err
	}
	queueCPU, _, err := queue.usage()
	if err != nil {
		return err
	}
	pilots.begin()
	pilotsCPU, _, err := pilots.usage()
	if err != nil {
		return err
	}
	stopKilling := o.killAtRate(ctx, pilots)
	defer stopKilling()
	stopTaking := o.takeMasters(ctx, pilots)
	defer stopTaking()
	profile, err := o.profile("working")
	if err != nil {
		return err
	}
	defer profile()
	unlimited := queue.limit(ctx, o.QueueShare)
	defer unlimited()
	began := time.Now()
	endTrace := o.Trace.follow(ctx, began, queue.counts(o.Extra))
	defer endTrace()
	id, err := queue.submit(ctx, workflow)
	if err != nil {
		return err
	}
	result.SubmitSeconds = time.Since(began).Seconds()
	ended, err := queue.waitEnded(ctx, id, func(w *pb.Workflow) {
		result.QueueLengthMax = max(result.QueueLengthMax, int(w.GetBlocked()+w.GetReady()))
		o.Trace.sees(w, time.Since(began))
	})
	if err != nil {
		return err
	}
	result.Makespan = time.Since(began).Seconds()
	endTrace()
	unlimited()
	result.Killed = stopKilling()
	result.Master.Killed, result.Master.Hung = stopTaking()
	result.LostTasks = len(workflow.tasks) - int(ended.GetDone())
	after, err := queue.requestsOfPilots(ctx)
	if err != nil {
		return err
	}
	result.countBesideJoining(before, after)
	if err := o.profileMemory("memory"); err != nil {
		return err
	}
	if err := result.countUsage(queue, pilots, queueCPU, pilotsCPU); err != nil {
		return err
	}
	if err := pilots.tell(ctx, result); err != nil {
		return err
	}
	tally := newTally(began, o.Pilots)
	if err := queue.each(ctx, id, tally.take); err != nil {
		return err
	}
	tally.sumUp(result)
	o.Trace.sumUp(tally)
	return nil
}

// modeName is a site's mode as settings name it.
func modeName(mode pb.SiteMode) string {
	switch mode {
	case pb.SiteMode_SITE_MODE_CENTRALIZED:
		return "centralized"
	case pb.SiteMode_SITE_MODE_ISOLATED:
		return "isolated"
	}
	return "distributed"
}
