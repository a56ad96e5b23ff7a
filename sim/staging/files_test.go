package staging_test

import (
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/cache"
	"github.com/pilotage-grid/pilotage/pilot/message"
	"github.com/pilotage-grid/pilotage/pilot/worker"
	"github.com/pilotage-grid/pilotage/sim"
	"github.com/pilotage-grid/pilotage/sim/staging"
	"github.com/pilotage-grid/pilotage/task"
)

// site is a pilot at a site whose only other pilot holds the files that it is said to.
type site struct {
	sim.Timeline
	files *staging.Files
	desk  *staging.Desk
	holds map[task.FileKey]bool
	moved int // transfers from the other pilot
}

// clock is that of a site.
type clock struct{ *site }

func (c clock) Now() time.Time { return time.Unix(1e9, 0).Add(c.Timeline.Now()) }

func (c clock) After(d time.Duration, do func()) (cancel func()) {
	event := c.Timeline.After(d, do)
	return func() { c.Cancel(event) }
}

func (s *site) Locate(a cache.Locate) {
	found := make(map[task.FileKey][]cache.Holder)
	for _, key := range a.Keys {
		if s.holds[key] {
			found[key] = []cache.Holder{{Peer: "other", DataURL: "https://other"}}
		}
	}
	s.After(time.Millisecond, func() { s.files.Tell(cache.Located{Keys: a.Keys, Holders: found}) })
}

func (s *site) TellHome(event cache.GrantEvent) {
	s.After(time.Millisecond, func() { s.desk.Tell(event) })
}

func (s *site) Read(t *staging.Transfer, _ []cache.Holder) {
	s.moved++
	s.After(time.Second, func() { t.End(cache.TransferDone{Arrived: true, From: "other"}) })
}

// nowhere is storage that has nothing.
type nowhere struct{}

func (nowhere) Read(t *staging.Transfer, _ task.Replica) { t.End(cache.TransferDone{}) }
func (nowhere) Put(_ message.Output, done func(string))  { done("") }

func newSite(t *testing.T, capacity task.Bytes) *site {
	s := &site{holds: make(map[task.FileKey]bool)}
	s.desk = staging.NewDesk(clock{s}, func(a cache.Answer) {
		s.files.Tell(cache.HomeAnswered{Ask: a.Number, Key: a.Key, Verdict: a.Verdict, Holders: a.Holders})
	})
	files, err := staging.New(staging.Config{
		Self: cache.Holder{Peer: "self", DataURL: "https://self"}, Site: "siteA", Capacity: capacity, Random: sim.Random(1, "staging"), Clock: clock{s},
		Peers: s, Storage: nowhere{}, Remote: func() bool { return true }, Changed: func([]task.FileKey) {}, BadCopy: func(task.LostFile) {},
	})
	if err != nil {
		t.Fatal(err)
	}
	s.files = files
	return s
}

func made(name task.LFN) task.File {
	digest := task.Digest{1}
	copy(digest[1:], name)
	return task.File{LFN: name, Size: task.MiB, Digest: digest, Producer: task.AttemptID{Task: "w-aaaaaaaaaa/" + task.ID(name), Pilot: "p-other"}}
}

// stage stages files in for an attempt, and tells what came of it.
func (s *site) stage(name string, files ...task.File) message.Event {
	var told message.Event
	s.files.StageIn(worker.StageIn{Attempt: task.AttemptID{Task: task.ID("w-aaaaaaaaaa/" + name)}, Files: files}, func(e message.Event) { told = e })
	s.Run(s.Timeline.Now() + time.Hour)
	return told
}

// Two attempts read a file of another pilot: it moves once, and stays as long as one of
// them needs it, whatever else comes.
func TestAFileMovesOnceAndStaysWhileItIsNeeded(t *testing.T) {
	s := newSite(t, 2*task.MiB)
	x, y, z := made("x"), made("y"), made("z")
	for _, file := range []task.File{x, y, z} {
		s.holds[file.Key()] = true
	}
	for i, want := range []task.Source{task.SourcePeer, task.SourceLocal} {
		staged, ok := s.stage([]string{"a", "b"}[i], x).(worker.StagedIn)
		if !ok || len(staged.Reads) != 1 || staged.Reads[0].Source != want {
			t.Errorf("attempt %d: %+v, want one read from %v", i, staged, want)
		}
	}
	if s.moved != 1 {
		t.Errorf("the file has moved %d times", s.moved)
	}
	for _, other := range []task.File{y, z} {
		if _, ok := s.stage("of "+string(other.LFN), other).(worker.StagedIn); !ok {
			t.Errorf("%s is not staged in", other.LFN)
		}
		s.files.Discard(task.AttemptID{Task: "w-aaaaaaaaaa/of " + task.ID(other.LFN)})
	}
	if _, has := s.files.Size(x.Key()); !has || s.files.Evicted != 1 {
		t.Errorf("what two attempts read is there: %t; %d files went, want one, that nobody reads", has, s.files.Evicted)
	}
}

// What no pilot holds and no storage element has is lost.
func TestAFileThatNobodyHasIsLost(t *testing.T) {
	s := newSite(t, task.GiB)
	failed, ok := s.stage("a", made("x")).(worker.StageFailed)
	if !ok || failed.Failure != task.InputMissing || len(failed.Lost) != 1 {
		t.Errorf("%+v, want x as lost", failed)
	}
	if held := s.files.Held(); len(held) > 0 {
		t.Errorf("the cache has %v", held)
	}
}
