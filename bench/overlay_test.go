package bench

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/pilotage-grid/pilotage/cache"
	"github.com/pilotage-grid/pilotage/cache/fetch"
	"github.com/pilotage-grid/pilotage/pilot/agent"
	"github.com/pilotage-grid/pilotage/pilot/exec"
	pb "github.com/pilotage-grid/pilotage/proto/pilotage/v1"
	"github.com/pilotage-grid/pilotage/sim/chart"
	"github.com/pilotage-grid/pilotage/task"
)

// 004, section 4: serial N/2 + N/2, splitting N/3 + 2N/3, merging 2N/3 + N/3.
func TestPatternsHaveThePapersSteps(t *testing.T) {
	for pattern, want := range map[Pattern]struct{ first, second, reads, readers int }{
		Serial: {450, 450, 1, 1}, Splitting: {300, 600, 1, 2}, Merging: {600, 300, 2, 1},
	} {
		w, err := twoStep(pattern, 900, time.Second, 7, Overlay{}.payloads())
		if err != nil {
			t.Fatal(err)
		}
		first, readers := 0, map[string]int{}
		for _, one := range w.tasks {
			if len(one.Inputs) == 0 {
				first++
			} else if len(one.Inputs) != want.reads {
				t.Errorf("%s: %s reads %d files, want %d", pattern, one.Id, len(one.Inputs), want.reads)
			}
			for _, in := range one.Inputs {
				readers[in.Lfn]++
			}
			if len(one.Outputs) != 1 {
				t.Errorf("%s: %s writes %d files", pattern, one.Id, len(one.Outputs))
			}
		}
		if first != want.first || len(w.tasks)-first != want.second || len(readers) != want.first {
			t.Errorf("%s: %d and %d tasks, %d files read", pattern, first, len(w.tasks)-first, len(readers))
		}
		for file, count := range readers {
			if count != want.readers {
				t.Errorf("%s: %s has %d readers, want %d", pattern, file, count, want.readers)
			}
		}
		again, _ := twoStep(pattern, 900, time.Second, 7, Overlay{}.payloads())
		other, _ := twoStep(pattern, 900, time.Second, 8, Overlay{}.payloads())
		if again.tasks[5].Argv[1] != w.tasks[5].Argv[1] || other.tasks[5].Argv[1] == w.tasks[5].Argv[1] {
			t.Errorf("%s: times do not follow the seed", pattern)
		}
	}
	if _, err := twoStep("circular", 900, time.Second, 7, Overlay{}.payloads()); err == nil {
		t.Error("an unknown pattern makes a workflow")
	}
}

func TestValidate(t *testing.T) {
	good := Overlay{Transport: TransportLight, Pilots: 2, Sites: 2, Tasks: 10, Workflow: Serial, Mode: pb.SiteMode_SITE_MODE_DISTRIBUTED, FileSize: task.MiB}
	if err := good.Validate(); err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(*Overlay){
		"fewer pilots than sites":    func(o *Overlay) { o.Pilots = 1 },
		"no tasks":                   func(o *Overlay) { o.Tasks = 0 },
		"caches of more than all":    func(o *Overlay) { o.CacheShare = 2 },
		"more killed than there are": func(o *Overlay) { o.KillRate = 2 },
		"transport":                  func(o *Overlay) { o.Transport = "carrier pigeon" },
		"negative prefill":           func(o *Overlay) { o.Prefill = -1 },
		"masters where there are none": func(o *Overlay) {
			o.KillMasters, o.Mode = 1, pb.SiteMode_SITE_MODE_CENTRALIZED
		},
		"stopped masters over TCP": func(o *Overlay) { o.HangMasters, o.Transport = 1, TransportTCP },
		"more masters than pilots": func(o *Overlay) { o.Pilots, o.KillMasters = 6, 5 },
		"the only pilot of a site": func(o *Overlay) { o.HangMasters = 1 },
		"extra messages of processes": func(o *Overlay) {
			o.Extra, o.Transport = &chatter{}, TransportProcesses
		},
		"workflow":                    func(o *Overlay) { o.Workflow = "" },
		"caches by two measures":      func(o *Overlay) { o.CacheFiles, o.CacheShare = 3, 1 },
		"files without bytes":         func(o *Overlay) { o.FileSize = 0 },
		"negative share":              func(o *Overlay) { o.CacheShare = -1 },
		"a cache of too few files":    func(o *Overlay) { o.Workflow, o.CacheFiles = Merging, 2 },
		"too small a share of so few": func(o *Overlay) { o.CacheShare = 0.1 },
	} {
		o := good
		spoil(&o)
		if o.Validate() == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}

func TestCachesByShareOfTheWorkingSet(t *testing.T) {
	for share, want := range map[float64]int{0: 7, 0.1: 4, 0.5: 20, 0.04: 2} {
		o := Overlay{Pilots: 100, Tasks: 4000, FileSize: task.MiB, CacheShare: share}
		if share == 0 {
			o.CacheFiles = want
		}
		if got := o.capacity(unlimited); got != task.Bytes(want)*o.FileSize {
			t.Errorf("share %v of 40 files: caches of %v", share, got)
		}
	}
}

// found answers as the overlay would.
type found map[task.FileKey][]fetch.Holder

func (f found) Locate(context.Context, []task.FileKey, []task.PeerID) (map[task.FileKey][]fetch.Holder, error) {
	return f, nil
}

// pitch makes two pilots of a yard; the second finds what holders says.
func pitch(t *testing.T, capacity task.Bytes, holders found) (y *yard, gone map[task.FileKey]bool, equipment [2]agent.Parts) {
	t.Helper()
	y, gone = newYard(10, capacity), map[task.FileKey]bool{}
	for i := range equipment {
		var err error
		equipment[i], err = y.newPlot(i).equip(agent.Enrollment{
			Site: "siteA", Locator: holders, Cached: func(task.FileKey) {},
			Evicted: func(keys []task.FileKey) {
				for _, key := range keys {
					gone[key] = true
				}
			},
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return y, gone, equipment
}

func TestFilesComeFromPeersThenFromStorage(t *testing.T) {
	holders := found{}
	y, _, e := pitch(t, 1000, holders)
	output := task.OutputID{LFN: "w-aaaaaaaaaa:x"}
	entry, err := e[0].Cache.Adopt(context.Background(), "", "x", false, output)
	if err != nil {
		t.Fatal(err)
	}
	file := task.File{LFN: output.LFN, Size: entry.Size, Digest: entry.Digest}
	stage := func(i int, want task.Source) {
		t.Helper()
		staged, err := e[i].Fetcher.Stage(context.Background(), []task.File{file})
		if err != nil || staged[0].Source != want {
			t.Fatalf("pilot %d: %+v, %v; want source %v", i, staged, err, want)
		}
		staged[0].Release()
	}
	stage(0, task.SourceLocal)
	var failures cache.FetchErrors
	if _, err := e[1].Fetcher.Stage(context.Background(), []task.File{file}); !errors.As(err, &failures) || !failures[0].Lost {
		t.Fatalf("a file that nobody is found to hold: %v", err)
	}
	holders[file.Key()] = []fetch.Holder{{DataURL: y.plots["https://127.0.0.1:1/plot/0"].url}}
	stage(1, task.SourcePeer)
	stage(1, task.SourceLocal)
	if err := errors.Join(e[0].Cache.Drop(entry.Key), e[1].Cache.Drop(entry.Key)); err != nil {
		t.Fatal(err)
	}
	url, err := e[0].Uploads.Put(context.Background(), "file:///se", "x", entry.Key, false)
	if err != nil {
		t.Fatal(err)
	}
	file.Replicas = []task.Replica{{Site: "siteA", URL: url}}
	stage(1, task.SourceSE)
	if reads := e[1].Fetcher.SEReads(); len(reads) != 1 || reads[0].Files != 1 || len(e[1].Fetcher.SEReads()) != 0 {
		t.Errorf("reads of the storage element: %+v", reads)
	}
}

func TestCachesEvictWhatIsStored(t *testing.T) {
	_, gone, e := pitch(t, 20, nil) // two files
	var keys []task.FileKey
	for _, name := range []string{"a", "b"} {
		entry, err := e[0].Cache.Adopt(context.Background(), "", name, false, task.OutputID{LFN: task.LFN(name)})
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, entry.Key)
	}
	if _, err := e[0].Cache.Adopt(context.Background(), "", "c", false); err == nil {
		t.Error("a sole copy gave way")
	}
	e[0].Cache.LetGo(keys[0], task.OutputID{LFN: "a"})
	if _, err := e[0].Cache.Adopt(context.Background(), "", "c", false); err != nil || !gone[keys[0]] || gone[keys[1]] {
		t.Errorf("evicted %v, %v", gone, err)
	}
	if n := e[0].Cache.Usage().Evictions; n != 1 {
		t.Errorf("%d evictions", n)
	}
}

func TestPayloadsTakeTheirTimeAndCanBeKilled(t *testing.T) {
	_, _, e := pitch(t, 20, nil)
	spec := exec.Spec{Task: task.Task{Argv: []string{"/bin/sleep", "0.01"}, Outputs: []task.Output{{LFN: "w-aaaaaaaaaa:x", Name: "out"}}}}
	if r := e[0].Payloads.Run(context.Background(), spec, nil); !r.OK || r.Run < 10*time.Millisecond || len(r.Outputs) != 1 {
		t.Errorf("%+v", r)
	}
	killed, kill := context.WithCancel(context.Background())
	kill()
	spec.Task.Argv[1] = "1000"
	if r := e[0].Payloads.Run(killed, spec, nil); r.OK || r.Failure != task.KilledByUser {
		t.Errorf("a killed payload: %+v", r)
	}
}

// The figures of a run that is known: two makers on p1 and p2, a reader of
// both on p1.
func TestTally(t *testing.T) {
	began := time.Unix(1000, 0)
	at := func(s float64) *timestamppb.Timestamp {
		return timestamppb.New(began.Add(time.Duration(s * float64(time.Second))))
	}
	outcome := func(pilot string, from, to float64) *pb.Outcome {
		return &pb.Outcome{Ok: true, Attempt: &pb.AttemptId{Pilot: pilot}, Started: at(from), Ended: at(to)}
	}
	a, b, reader := outcome("p1", 1, 2), outcome("p2", 1.5, 3), outcome("p1", 3.25, 4)
	a.Outputs, b.Outputs = []*pb.Produced{{Lfn: "a"}}, []*pb.Produced{{Lfn: "b"}}
	reader.Reads = []*pb.Read{
		{Lfn: "a", Source: pb.ReadSource_READ_SOURCE_LOCAL, Intermediate: true},
		{Lfn: "b", Source: pb.ReadSource_READ_SOURCE_PEER, Intermediate: true},
	}
	next := outcome("p2", 3.5, 4)
	next.Delay = durationpb.New(500 * time.Millisecond)
	lost := outcome("p3", 0, 1)
	lost.Ok = false
	tally := newTally(began, 2)
	for _, o := range []*pb.Outcome{a, b, reader, next, lost} {
		tally.take(&pb.TaskInfo{Attempts: []*pb.Attempt{{Outcome: o}}})
	}
	r := OverlayResult{OverlayRun: OverlayRun{CacheFiles: 3}}
	tally.sumUp(&r)
	if r.Cache.WorkingSet != 1.5 || r.Cache.Capacity != 2 { // a and b on p1, b on p2
		t.Errorf("working set of %v files, of which caches hold %v", r.Cache.WorkingSet, r.Cache.Capacity)
	}
	if r.FirstFill != 1.5 || r.FilledSlots != 2 || r.InterTaskDelay.P50 != .5 || r.DelayShare != .5 {
		t.Errorf("filled after %v, %d slots, delay %v of %v", r.FirstFill, r.FilledSlots, r.InterTaskDelay.P50, r.DelayShare)
	}
	if r.SlotChange.P50 != .5 || r.SlotChangeShare != .5 {
		t.Errorf("slots change in %v, of %v", r.SlotChange.P50, r.SlotChangeShare)
	}
	way := &Trace{}
	way.sumUp(tally)
	if most := slices.MaxFunc(way.Running, func(a, b chart.Point) int { return cmp.Compare(a.Y, b.Y) }); most.Y != 2 || way.Running[traceBins].Y != 0 {
		t.Errorf("at most %v payloads run, at the end %v", most, way.Running[traceBins])
	}
	if len(way.Delays) != 1 || way.Delays[0].Y != .5 || math.Abs(way.Delays[0].X-3.5) > .05 {
		t.Errorf("delays over time: %v", way.Delays)
	}
	if r.DependencyDelay.P50 != .25 || r.DependencyShare != 1 {
		t.Errorf("dependency delay %v of %v", r.DependencyDelay.P50, r.DependencyShare)
	}
	if r.Cache.LocalHits != .5 || r.Cache.TotalHits != 1 || r.Cache.BestLocalHits != .5 {
		t.Errorf("hits %+v", r.Cache)
	}
}
