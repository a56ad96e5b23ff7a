package pilot_test

import (
	"slices"
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/pilot/master"
	"github.com/pilotage-grid/pilotage/pilot/message"
	"github.com/pilotage-grid/pilotage/task"
)

// fileOf is what an attempt has made; all attempts make the same bytes.
func fileOf(attempt task.AttemptID) task.File {
	return task.File{LFN: "w-aaaaaaaaaa:x", Size: task.MiB, Digest: task.Digest{1}, Producer: attempt, Announced: []task.Site{siteName}}
}

// relieved counts the pilots that hear that an output is their business no more.
func relieved(actions []message.Action, attempt task.AttemptID) (count int) {
	for _, tell := range all[message.Tell](actions) {
		if acks, is := tell.Message.(message.Acks); is {
			for _, output := range acks.Relieved {
				if output.Attempt == attempt {
					count++
				}
			}
		}
	}
	return count
}

// untilLost answers calls to the queue until one tells that files are lost, and returns
// that one's number and what has happened until then.
func (s *siteBench) untilLost(actions []message.Action) (call uint64, before []message.Action) {
	s.t.Helper()
	before = actions
	for range 40 {
		for _, sync := range all[master.CallSync](actions) {
			if len(sync.Sync.Lost) > 0 {
				return sync.N, before
			}
		}
		actions = nil
		open := s.open
		s.open = nil
		for _, n := range open {
			actions = append(actions, s.follow(master.SyncAnswered{N: n})...)
		}
		s.now = s.now.Add(500 * time.Millisecond)
		actions = append(actions, s.follow(message.Tick{})...)
		before = append(before, actions...)
	}
	s.t.Fatal("the queue is not told of a loss")
	return 0, nil
}

// Who has lost what it was to keep hears that nobody has it when the queue knows: a
// master may die before it has told that, and the next one is to hear of the loss.
func TestAKeeperIsRelievedOfALostFileWhenTheQueueHasHeard(t *testing.T) {
	s := newSiteBench(t, "a", "b")
	file := fileOf(attemptOf("other", "p1"))
	gone := message.Report{Status: message.Status{Gone: []task.File{file}}}
	call, actions := s.untilLost(s.follow(s.news("p1", gone)))
	actions = append(actions, s.follow(s.news("p1", gone))...)
	if n := relieved(actions, file.Producer); n > 0 {
		t.Errorf("before the queue has heard the keeper is relieved %d times", n)
	}
	if n := relieved(s.follow(master.SyncAnswered{N: call}), file.Producer); n != 1 {
		t.Errorf("when the queue has heard the keeper is relieved %d times", n)
	}
}

// Who has lost what it was to keep, and what nobody needs, hears so when the queue knows,
// although another pilot drops the file at once.
func TestAKeeperIsRelievedOfAFileThatNobodyNeedsWhenTheQueueHasHeard(t *testing.T) {
	s := newSiteBench(t, "a", "b")
	file := fileOf(attemptOf("other", "p1"))
	file.LFN = "w-aaaaaaaaaa:y" // which none of the site's tasks makes
	s.has = map[task.PilotID]task.FileKey{"p2": file.Key()}
	s.follow(s.news("p1", message.Report{Status: message.Status{Gone: []task.File{file}}}))
	drop := master.SyncAnswered{N: s.call, Reply: task.SyncReply{Drop: []task.File{file}}}
	call, actions := s.untilLost(s.follow(drop))
	told := func(actions []message.Action) bool {
		return slices.ContainsFunc(all[message.Tell](actions), func(tell message.Tell) bool {
			return tell.To == "p1" && relieved([]message.Action{tell}, file.Producer) > 0
		})
	}
	if told(actions) {
		t.Error("the keeper is relieved before the queue has heard")
	}
	if !told(s.follow(master.SyncAnswered{N: call})) {
		t.Error("the keeper is not relieved when the queue has heard")
	}
}

// Who has lost what it was to keep, and what another pilot has in its cache, hears so when
// that one keeps it: before, it may leave the cache again.
func TestAKeeperIsRelievedWhenAnotherOneKeepsTheFile(t *testing.T) {
	s := newSiteBench(t, "a", "b")
	file := fileOf(attemptOf("other", "p1"))
	s.has = map[task.PilotID]task.FileKey{"p2": file.Key()}
	actions := s.follow(master.SyncAnswered{N: s.call, Reply: task.SyncReply{Settings: task.SiteSettings{Site: siteName, SE: "file:///se"}}})
	actions = append(actions, s.follow(s.news("p1", message.Report{Status: message.Status{Gone: []task.File{file}}}))...)
	for range 10 {
		s.now = s.now.Add(500 * time.Millisecond)
		actions = append(actions, s.follow(message.Tick{})...)
	}
	ordered := 0
	for _, tell := range all[message.Tell](actions) {
		if _, is := tell.Message.(message.StoreOrder); is && tell.To == "p2" {
			ordered++
		}
	}
	if ordered != 1 {
		t.Fatalf("the holder is told %d times to store the file", ordered)
	}
	if n := relieved(actions, file.Producer); n > 0 {
		t.Errorf("before another pilot keeps the file its keeper is relieved %d times", n)
	}
	kept := message.Report{Kept: []message.KeptAnswer{{Output: task.OutputID{Attempt: file.Producer, LFN: file.LFN}}}}
	if n := relieved(s.follow(s.news("p2", kept)), file.Producer); n != 1 {
		t.Errorf("when another pilot keeps the file its keeper is relieved %d times", n)
	}
}

// A pilot has lost what it was to keep while another attempt's file of that name is being
// looked for: its turn comes when that search has ended.
func TestALostFileIsLookedForAfterAnotherOneOfItsName(t *testing.T) {
	s := newSiteBench(t, "a", "b")
	earlier, later := fileOf(attemptOf("other", "p2")), fileOf(attemptOf("other", "p1"))
	later.Digest = task.Digest{2}
	s.has = map[task.PilotID]task.FileKey{"p2": earlier.Key()}
	settings := task.SiteSettings{Site: siteName, SE: "file:///se"}
	s.follow(master.SyncAnswered{N: s.call, Reply: task.SyncReply{Settings: settings, Check: []task.File{earlier}}})
	for range 4 {
		s.now = s.now.Add(500 * time.Millisecond)
		s.follow(message.Tick{})
	}
	s.follow(s.news("p1", message.Report{Status: message.Status{Gone: []task.File{later}}}))
	stored := task.Stored{LFN: earlier.LFN, Attempt: earlier.Producer, URL: "file:///se/x", Size: earlier.Size, Digest: earlier.Digest}
	actions := s.follow(s.news("p2", message.Report{Status: message.Status{Stored: []task.Stored{stored}}}))
	looked := false
	for range 4 {
		s.now = s.now.Add(500 * time.Millisecond)
		actions = append(actions, s.follow(message.Tick{})...)
	}
	for _, cast := range all[master.CastList](actions) {
		looked = looked || slices.Contains(cast.List.Ask, later.Key())
	}
	if !looked {
		t.Error("when the first file is stored nobody looks for the other one")
	}
}
