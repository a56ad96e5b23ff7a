package office

import (
	"slices"
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/pilot/message"
	"github.com/pilotage-grid/pilotage/task"
)

const own, chief, stranger task.PeerID = "own", "chief", "stranger"

var start = time.Unix(1e9, 0)

func settingsIn(mode string) task.SiteSettings { return task.SiteSettings{Site: "siteA", Mode: mode} }

// distributed is an office at a site whose master is another pilot.
func distributed() *Office {
	o := New(own, settingsIn("distributed"))
	o.Step(start, Began{}, Site{})
	o.Step(start, MasterChanged{Incumbent{Peer: chief}}, Site{})
	return o
}

// adopted tells whether actions put settings in force.
func adopted(actions []message.Action) bool {
	return slices.ContainsFunc(actions, func(a message.Action) bool { _, ok := a.(Adopt); return ok })
}

// A master that is behind on the mode of the site does not call a pilot back that has
// just heard a later one from the queue. Its word waits, and counts if it says nothing
// else meanwhile. A later mode counts at once.
func TestTheQueuesWordOnTheModeCountsMoreThanAMasters(t *testing.T) {
	said := settingsIn("distributed")
	said.ModeSince = 2
	ahead, behind := PilotSaid{chief, settingsIn(task.ModeIsolated)}, PilotSaid{chief, settingsIn(task.ModeIsolated)}
	ahead.Settings.ModeSince, behind.Settings.ModeSince = 3, 1
	if o := distributed(); !adopted(o.Step(start, behind, Site{})) {
		t.Error("a master's word is not taken by who has heard nothing from the queue")
	}
	o := distributed()
	o.Step(start, QueueSaid{start, said}, Site{})
	if !adopted(o.Step(start.Add(time.Second), ahead, Site{})) {
		t.Error("a master's word on a later mode is not taken at once")
	}
	back := said
	back.ModeSince = 1
	if o.Step(start.Add(2*time.Second), QueueSaid{start.Add(2 * time.Second), back}, Site{}); adopted(o.Step(start.Add(3*time.Second), ahead, Site{})) {
		t.Error("a queue that was restored has gone back, and a master's word from before is taken")
	}
	for _, changes := range []bool{false, true} {
		o := distributed()
		o.Step(start, QueueSaid{start, said}, Site{})
		if adopted(o.Step(start.Add(time.Second), behind, Site{})) {
			t.Fatal("a master's word on the mode is taken at once")
		}
		if due := o.Deadline(); due != start.Add(queueSaidFor) {
			t.Fatalf("a master's word waits until %s", due)
		}
		if changes {
			storage := o.Settings()
			storage.SE = "https://se.example/vo"
			if !adopted(o.Step(start.Add(2*time.Second), PilotSaid{chief, storage}, Site{})) {
				t.Error("a master's word on something else is not taken")
			}
			if !o.Deadline().IsZero() {
				t.Error("a master is held to what it said before")
			}
			continue
		}
		if adopted(o.Step(start.Add(queueSaidFor-1), message.Tick{}, Site{})) {
			t.Error("a master's word is taken too early")
		}
		if !adopted(o.Step(start.Add(queueSaidFor), message.Tick{}, Site{})) || o.Settings() != behind.Settings {
			t.Error("a master's word is never taken")
		}
	}
}

// Only the master's word counts, and of a pilot that works for itself nobody's.
func TestWhoseWordCounts(t *testing.T) {
	changed := settingsIn("distributed")
	changed.SE = "https://se.example/vo"
	if o := distributed(); adopted(o.Step(start, PilotSaid{stranger, changed}, Site{})) {
		t.Error("the word of a pilot counts that is not the master")
	}
	o := New(own, settingsIn(task.ModeIsolated))
	o.Step(start, Began{}, Site{})
	o.Step(start, MasterChanged{Incumbent{Peer: chief}}, Site{})
	if adopted(o.Step(start, PilotSaid{chief, changed}, Site{})) {
		t.Error("a master's word counts where pilots work for themselves")
	}
}

// Two calls are under way when the site's mode changes: the answer that was
// given before the change and arrives after the other does not undo it.
func TestLateAnswersDoNotUndoSettings(t *testing.T) {
	o := New(own, settingsIn("distributed"))
	now := start
	take := func(asked time.Time, mode, want string) {
		t.Helper()
		now = now.Add(time.Second)
		o.Step(now, QueueSaid{asked, settingsIn(mode)}, Site{})
		if got := o.Settings().Mode; got != want {
			t.Errorf("mode %s, want %s", got, want)
		}
	}
	take(start, "centralized", "centralized")
	asked := now
	take(asked, "distributed", "distributed")
	take(asked, "centralized", "distributed")
	take(asked, "distributed", "distributed")
	take(now, "centralized", "centralized")
}

// A master tells its members of changes, and whoever it hears for the first time of what
// is in force, but not before the queue has confirmed it.
func TestWhomAMasterTells(t *testing.T) {
	told := func(actions []message.Action) (to []task.PeerID) {
		for _, a := range actions {
			if tell, ok := a.(TellSettings); ok {
				to = append(to, tell.To)
			}
		}
		return to
	}
	o := distributed()
	o.Step(start, MasterChanged{Incumbent{Peer: own, Provisional: true}}, Site{})
	state := Message{From: stranger, Said: message.State{}}
	if to := told(o.Step(start, state, Site{InOffice: true, Provisional: true})); len(to) > 0 {
		t.Errorf("a provisional master tells %v", to)
	}
	if to := told(o.Step(start, state, Site{InOffice: true})); !slices.Equal(to, []task.PeerID{stranger}) {
		t.Errorf("a master tells %v when it hears %s", to, stranger)
	}
	if to := told(o.Step(start, state, Site{InOffice: true})); len(to) > 0 {
		t.Errorf("a master tells %v again", to)
	}
	changed := o.Settings()
	changed.Prefill++
	if to := told(o.Step(start, QueueSaid{start, changed}, Site{InOffice: true})); !slices.Equal(to, []task.PeerID{""}) {
		t.Errorf("a master tells %v of a change", to)
	}
}

// A pilot that is refused the mastership again and again tells so after a
// while, and then seldom; one that was refused now and then does not.
func TestCutOff(t *testing.T) {
	cutOff := func(o *Office, at time.Duration) bool {
		return len(o.Step(start.Add(at), ClaimRefused{"pilot-1 is"}, Site{})) > 0
	}
	o := distributed()
	var told []time.Duration
	for at := time.Duration(0); at <= 100*time.Second; at += time.Second / 2 {
		if cutOff(o, at) {
			told = append(told, at)
		}
	}
	if len(told) != 2 || told[0] != cutOffAfter || told[1] != cutOffAfter+cutOffAgain {
		t.Errorf("told after %v, want after %s and %s more", told, cutOffAfter, cutOffAgain)
	}
	o = distributed()
	for at := time.Duration(0); at <= time.Hour; at += cutOffPause + time.Second {
		if cutOff(o, at) {
			t.Fatalf("told after %s of single refusals", at)
		}
	}
}

// A trial is begun once.
func TestATrialIsBegunOnce(t *testing.T) {
	o := New(own, settingsIn(task.ModeIsolated))
	trials := 0
	step := func(at time.Duration, trial uint64) {
		settings := o.Settings()
		settings.Trial = trial
		for _, a := range o.Step(start.Add(at), QueueSaid{start.Add(at), settings}, Site{}) {
			if _, ok := a.(Try); ok {
				trials++
			}
		}
	}
	o.Step(start, Began{}, Site{})
	for at, trial := range []uint64{0, 7, 7, 0, 7, 8} {
		step(time.Duration(at+1)*time.Second, trial)
	}
	if trials != 2 {
		t.Errorf("%d trials begun of two", trials)
	}
}
