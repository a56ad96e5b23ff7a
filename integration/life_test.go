package integration

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	pb "github.com/pilotage-grid/pilotage/proto/pilotage/v1"
)

// How pilots leave: by the end of their lifetime, told by SIGTERM within and
// beyond the grace, drained by an operator. Each departure is recorded.
func TestPilotsLeave(t *testing.T) {
	t.Parallel()
	g := newGrid(t, "siteA", "siteB")
	short := strings.TrimSpace(g.must("submit", "--parsable", "--name", "short", "--require", atB, "--", "true"))
	mortal := g.addPilot("siteB", "--lifetime", lifetime.String(), "--drain", "5s")
	t.Run("on SIGTERM, its payload within the grace", func(t *testing.T) { terminatedInTime(g.in(t)) })
	t.Run("on SIGTERM, its payload ends elsewhere", func(t *testing.T) { terminatedTooSoon(g.in(t)) })
	t.Run("drained by an operator", func(t *testing.T) { drained(g.in(t)) })
	t.Run("at the end of its lifetime", func(t *testing.T) { lifetimeEnds(g.in(t), mortal, short) })
}

// lifetime is that of the pilot at siteB, during which those of siteA leave.
const lifetime = 25 * time.Second

// departure is how long a pilot may take from the signal to its end.
const departure = time.Minute

const (
	atA = `pilot.site == "siteA"`
	atB = `pilot.site == "siteB"`
)

// left checks what `pilot list --all` says of a departed pilot.
func (g *grid) left(id, reason string) {
	g.t.Helper()
	var pilots []struct {
		Contact       struct{ Pilot string }
		State, Reason string
	}
	g.read(&pilots, "pilot", "list", "--all")
	for _, p := range pilots {
		if p.Contact.Pilot == id {
			if p.State != "left" || !strings.Contains(p.Reason, reason) {
				g.t.Errorf("pilot %s is %s, %q; want left, %q", id, p.State, p.Reason, reason)
			}
			return
		}
	}
	g.t.Errorf("pilot %s is not listed", id)
}

func lifetimeEnds(g *grid, p *pilotProcess, short string) {
	g.done(short)
	if code := p.ends(g.t, lifetime+farewell); code != 0 {
		g.t.Errorf("the pilot ended with %d\n%s", code, p.log)
	}
	if lived := p.ended.Sub(p.began); lived > lifetime+farewell {
		g.t.Errorf("the pilot lived %s of its %s", lived, lifetime)
	}
	g.left(p.id, "lifetime")
	// Nobody is there: what comes now waits for the next pilot. A pilot of the
	// other site may be asked first.
	id := strings.TrimSpace(g.must("submit", "--parsable", "--name", "late", "--require", atB, "--", "true"))
	observe(g, "a task that waits, with no pilot left", func() (bool, bool) {
		return true, g.task(id+"/late").GetState() == pb.TaskState_TASK_STATE_READY
	})
	next := g.addPilot("siteB")
	g.done(id)
	next.terminate(g.t, departure)
	g.left(next.id, "told to stop")
}

// farewell is how long a pilot may take to say goodbye on a busy machine.
const farewell = 20 * time.Second

func terminatedInTime(g *grid) {
	p := g.addPilot("siteA", "--grace", "30s")
	release := filepath.Join(g.outside(), "release")
	id := strings.TrimSpace(g.must("submit", "--parsable", "--name", "ends", "--require", atA, "--", "sh", "-c", "until test -e "+release+"; do sleep 0.1; done"))
	g.runs(id + "/ends")
	g.draining(p)
	writeFile(g.t, release, "")
	if code := p.ends(g.t, departure); code != 0 {
		g.t.Errorf("the pilot ended with %d\n%s", code, p.log)
	}
	g.done(id)
	if attempts := g.task(id + "/ends").GetAttempts(); len(attempts) != 1 {
		g.t.Errorf("%d attempts, want the one that ended within the grace", len(attempts))
	}
	g.left(p.id, "told to stop")
}

// draining sends SIGTERM and waits until the pilot drains.
func (g *grid) draining(p *pilotProcess) {
	g.t.Helper()
	if err := p.cmd.Process.Signal(terminateSignal); err != nil {
		g.t.Fatal(err)
	}
	observe(g, "the pilot draining", func() (bool, bool) { return true, strings.Contains(p.log.String(), "the pilot drains") })
}

func terminatedTooSoon(g *grid) {
	first := g.addPilot("siteA", "--grace", "1s")
	marker := filepath.Join(g.outside(), "marker")
	long, hidden := nap(86299), nap(86298)
	id := strings.TrimSpace(g.must("submit", "--parsable", "--name", "moves", "--retries", "0", "--require", atA, "--",
		"sh", "-c", "test -e "+marker+" && exit 0; touch "+marker+"; trap '' TERM; setsid sleep "+hidden+" & sleep "+long))
	if at := g.runs(id + "/moves"); at != first.id {
		g.t.Fatalf("it runs at %s", at)
	}
	second := g.addPilot("siteA")
	first.terminate(g.t, departure)
	if processWith("sleep\x00"+long+"\x00") || processWith("sleep\x00"+hidden+"\x00") {
		g.t.Error("the payload, deaf to SIGTERM, or its child outlives its pilot")
	}
	g.done(id)
	attempts := g.task(id + "/moves").GetAttempts()
	if len(attempts) != 2 || attempts[1].GetOutcome().GetAttempt().GetPilot() != second.id {
		g.t.Errorf("attempts %v, want a second one at %s", attempts, second.id)
	}
	g.left(first.id, "told to stop")
	second.terminate(g.t, departure)
}

func drained(g *grid) {
	p, other := g.addPilot("siteA"), g.addPilot("siteA")
	release := filepath.Join(g.outside(), "release2")
	id := strings.TrimSpace(g.must("submit", "--parsable", "--name", "held", "--require", `pilot.id == "`+p.id+`"`, "--",
		"sh", "-c", "until test -e "+release+"; do sleep 0.1; done"))
	g.runs(id + "/held")
	g.must("pilot", "drain", p.id)
	observe(g, "the pilot draining", func() (bool, bool) { return true, g.pilot(p.id).GetState() == "draining" || !p.running() })
	next := strings.TrimSpace(g.must("submit", "--parsable", "--name", "next", "--require", atA, "--", "true"))
	g.done(next)
	if at := g.task(next + "/next").GetAttempts()[0].GetOutcome().GetAttempt().GetPilot(); at != other.id {
		g.t.Errorf("a draining pilot got a new task: it ran at %s", at)
	}
	writeFile(g.t, release, "")
	if code := p.ends(g.t, departure); code != 0 {
		g.t.Errorf("the drained pilot ended with %d\n%s", code, p.log)
	}
	g.done(id)
	g.left(p.id, "drained: an operator wants it")
	wantText(g.t, "the pilot's log", p.log.String(), "the pilot drains: it finishes what runs, and leaves", "an operator wants it")
	g.expect(5, []string{"p-aaaaaaaa"}, "pilot", "drain", "p-aaaaaaaa")
}
