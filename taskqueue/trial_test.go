package taskqueue_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

// answer is a pilot's word in the trial that its site's settings name.
func (c *crew) answer(m *member, reached bool) task.SiteSettings {
	c.t.Helper()
	now, _ := c.settings()
	return c.answerTrial(m, now.Trial, reached)
}

func (c *crew) answerTrial(m *member, trial uint64, reached bool) (settings task.SiteSettings) {
	c.t.Helper()
	c.must(func(t *taskqueue.Turn) (err error) {
		settings, err = c.rules.Tried(t, taskqueue.Tried{Site: c.site, Pilot: m.id, Trial: trial, Reached: reached})
		return err
	})
	return settings
}

// goOn lets time go by in which the queue ticks and pilots pull.
func (c *crew) goOn(d time.Duration) {
	c.t.Helper()
	for ; d > 0; d -= time.Second {
		c.tick(time.Second)
		c.must(func(t *taskqueue.Turn) error { return c.rules.HeardPull(t, c.site, task.Capacity{}) })
	}
}

// awaitTrial returns how long it takes until the next trial begins.
func (c *crew) awaitTrial() time.Duration {
	c.t.Helper()
	for waited := time.Duration(0); waited < 3*time.Hour; waited += time.Second {
		if now, _ := c.settings(); now.Trial != 0 {
			return waited
		}
		c.goOn(time.Second)
	}
	c.t.Fatalf("no trial begins")
	return 0
}

// fallenBack is a site of some pilots that has fallen back.
func fallenBack(t *testing.T, pilots int, change ...func(*taskqueue.SiteRecord)) (*crew, []*member) {
	t.Helper()
	g := newGrid(t)
	a := g.addSite("A", change...)
	var members []*member
	for i := range pilots {
		members = append(members, a.join(task.PeerID(fmt.Sprint("peer", i)), 1))
	}
	if now, _ := a.settings(); now.Mode == "distributed" {
		a.sync() // the master has met all of them
	}
	a.cutOff(members[1:])
	return a, members
}

func (c *crew) cutOff(members []*member) {
	c.t.Helper()
	for _, m := range members {
		if _, err := c.unreachable(m); err != nil {
			c.t.Fatalf("%v", err)
		}
	}
	if _, fallback := c.settings(); fallback == "" {
		c.t.Fatalf("the site has not fallen back")
	}
}

// A site that has fallen back is tried after pauses that double, and goes back
// to its mode when most of its pilots reach one another.
func TestFallbackEndsByItself(t *testing.T) {
	for _, mode := range []taskqueue.Mode{taskqueue.ModeDistributed, taskqueue.ModeCentralized} {
		a, pilots := fallenBack(t, 4, func(s *taskqueue.SiteRecord) { s.Mode = mode })
		config := taskqueue.DefaultConfig().Fallback
		pause := config.TrialAfter
		for range 10 {
			if waited := a.awaitTrial(); (waited - pause).Abs() > 2*time.Second {
				t.Errorf("%s: the trial begins after %s, want %s", mode, waited, pause)
			}
			a.answer(pilots[0], true) // two of four are not most
			a.answer(pilots[1], false)
			a.answer(pilots[2], true)
			if now := a.answer(pilots[3], false); now.Mode != "isolated" || now.Trial != 0 {
				t.Errorf("%s: mode %s, trial %d after a trial in vain", mode, now.Mode, now.Trial)
			}
			pause = min(2*pause, config.TrialMost)
		}
		a.awaitTrial()
		former, _ := a.settings()
		a.answer(pilots[0], true)
		a.answer(pilots[1], true)
		if now := a.answer(pilots[2], true); now.Mode != "isolated" {
			t.Errorf("%s: the trial ended before all have answered", mode)
		}
		if now := a.answer(pilots[3], false); now.Mode != string(mode) || now.Trial != 0 {
			t.Errorf("%s: mode %s, trial %d after three of four have reached the others", mode, now.Mode, now.Trial)
		}
		if now := a.answerTrial(pilots[3], former.Trial, false); now.Mode != string(mode) {
			t.Errorf("%s: a late answer changed the mode to %s", mode, now.Mode)
		}
		if site := a.siteRecord("A"); site.Master != pilots[0].id {
			t.Errorf("%s: the master that is reached has lost its office", mode)
		}
		a.check()
	}
}

// Pilots that do not answer keep a trial open for TrialTime, and count as not
// reached; those that have gone do not count.
func TestTrialWithoutAnswers(t *testing.T) {
	a, pilots := fallenBack(t, 4)
	a.awaitTrial()
	a.answer(pilots[0], true)
	a.answer(pilots[1], true)
	a.goOn(taskqueue.DefaultConfig().Fallback.TrialTime + time.Second)
	if now, _ := a.settings(); now.Mode != "isolated" || now.Trial != 0 {
		t.Errorf("mode %s, trial %d after two of four have answered", now.Mode, now.Trial)
	}
	a.awaitTrial()
	a.answer(pilots[0], true)
	a.answer(pilots[1], true)
	a.must(func(t *taskqueue.Turn) error {
		return a.rules.Leave(t, taskqueue.Leaving{Pilot: pilots[3].id, Site: a.site, Reason: "over"})
	})
	a.goOn(taskqueue.DefaultConfig().Fallback.TrialTime + time.Second)
	if now, _ := a.settings(); now.Mode != "distributed" {
		t.Errorf("mode %s after two of three have reached the others", now.Mode)
	}
	a.check()
}

// A site that falls back again soon is tried later each time, and one that has
// worked together for long as at first. An operator's word begins anew.
func TestASiteThatFallsBackAgainIsTriedLater(t *testing.T) {
	a, pilots := fallenBack(t, 3)
	config := taskqueue.DefaultConfig().Fallback
	together := func(pause time.Duration) {
		t.Helper()
		if waited := a.awaitTrial(); (waited - pause).Abs() > 2*time.Second {
			t.Errorf("the trial begins after %s, want %s", waited, pause)
		}
		for _, p := range pilots {
			a.answer(p, true)
		}
		if now, _ := a.settings(); now.Mode != "distributed" {
			t.Fatalf("mode %s when all reach one another", now.Mode)
		}
	}
	for pause := config.TrialAfter; pause <= 8*config.TrialAfter; pause *= 2 {
		together(pause)
		a.goOn(time.Minute)
		a.cutOff(pilots[1:])
	}
	together(16 * config.TrialAfter)
	for range 12 {
		a.goOn(5 * time.Minute)
		a.sync()
	}
	a.cutOff(pilots[1:])
	together(config.TrialAfter)
	a.cutOff(pilots[1:])
	a.set(taskqueue.SiteRecord{SiteSettings: taskqueue.SiteSettings{SE: "file:///se/A"}})
	if now, _ := a.settings(); now.Mode != "distributed" {
		t.Errorf("mode %s after an operator has set another one", now.Mode)
	}
	a.cutOff(pilots[1:])
	together(config.TrialAfter)
}

// What an operator has set is not tried; neither is a pilot that is alone.
func TestNothingIsTriedThatIsMeant(t *testing.T) {
	a, pilots := fallenBack(t, 3)
	a.awaitTrial()
	former, _ := a.settings()
	a.set(taskqueue.SiteRecord{SiteSettings: taskqueue.SiteSettings{SE: "file:///se/A", Mode: taskqueue.ModeIsolated}})
	for _, p := range pilots {
		a.answerTrial(p, former.Trial, true)
	}
	a.goOn(2 * time.Hour)
	if now, fallback := a.settings(); now.Mode != "isolated" || now.Trial != 0 || fallback != "" {
		t.Errorf("mode %s, trial %d, fallback %q: an operator has set isolated", now.Mode, now.Trial, fallback)
	}
	a, pilots = fallenBack(t, 2)
	a.must(func(t *taskqueue.Turn) error {
		return a.rules.Leave(t, taskqueue.Leaving{Pilot: pilots[1].id, Site: a.site, Reason: "over"})
	})
	a.goOn(time.Hour)
	if now, fallback := a.settings(); now.Trial != 0 || fallback == "" {
		t.Errorf("trial %d of one pilot, fallback %q", now.Trial, fallback)
	}
	pilots[1] = a.join("another", 1)
	if waited := a.awaitTrial(); waited > 2*time.Second {
		t.Errorf("a trial begins %s after the second pilot came", waited)
	}
	a.answer(pilots[0], true)
	if now := a.answer(pilots[1], true); now.Mode != "distributed" {
		t.Errorf("mode %s", now.Mode)
	}
}

// A master that the others do not reach has not the office any more when they go
// on together: one of them has.
func TestTheOfficeGoesToOneThatIsReached(t *testing.T) {
	a, pilots := fallenBack(t, 4)
	before := a.siteRecord("A")
	a.awaitTrial()
	a.answer(pilots[0], false)
	for _, p := range pilots[1:] {
		a.answer(p, true)
	}
	after := a.siteRecord("A")
	reached := slices.ContainsFunc(pilots[1:], func(m *member) bool { return m.id == after.Master && m.peer == after.Term.Peer })
	if after.InForce() != taskqueue.ModeDistributed || !reached || !before.Term.Less(after.Term) {
		t.Errorf("mode %s, master %s in term %s after %s", after.InForce(), after.Master, after.Term, before.Term)
	}
	if settings, err := a.unreachable(pilots[0]); err != nil || settings.Mode != "distributed" {
		t.Errorf("mode %s, %v: one pilot is cut off, not the site", settings.Mode, err)
	}
}

// One pilot that is cut off is no reason for the others to work isolated, in
// whatever mode they work.
func TestOnePilotThatIsCutOff(t *testing.T) {
	for _, mode := range []taskqueue.Mode{taskqueue.ModeDistributed, taskqueue.ModeCentralized} {
		g := newGrid(t)
		a := g.addSite("A", func(s *taskqueue.SiteRecord) { s.Mode = mode })
		var pilots []*member
		for i := range 5 {
			pilots = append(pilots, a.join(task.PeerID(fmt.Sprint("peer", i)), 1))
		}
		if mode == taskqueue.ModeDistributed {
			a.sync()
		}
		a.goOn(taskqueue.DefaultConfig().Site.Pilot.AbsentAfter)
		cut := a.join("cut", 1)
		for _, m := range []*member{cut, pilots[3]} {
			if settings, err := a.unreachable(m); err != nil || settings.Mode != string(mode) {
				t.Errorf("mode %s, %v, want %s: few are cut off", settings.Mode, err, mode)
			}
		}
		if settings, err := a.unreachable(pilots[2]); err != nil || settings.Mode != "isolated" {
			t.Errorf("mode %s, %v: three are cut off, and two of them work, one as master", settings.Mode, err)
		}
	}
}
