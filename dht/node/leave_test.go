package node

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/dht"
	"github.com/pilotage-grid/pilotage/task"
)

func TestLeaveLosesNoLastMessage(t *testing.T) {
	s := newSite(t, "siteA")
	pilots := joinMany(t, s, 4)
	master, leaver := pilots[0], pilots[2]
	for i := range 300 {
		leaver.Send(master.self.Peer, fmt.Appendf(make([]byte, 4<<10), "%d", i))
	}
	if err := leaver.Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	leaver.close()
	master.await(t, "the last of 300 messages", func() bool { return len(master.inbound[leaver.self.Peer]) == 300 })
	down := waitFor(t, master, "the goodbye", func(m dht.MemberDown) bool { return m.Member.Peer == leaver.self.Peer })
	if !down.Left {
		t.Errorf("the master took the leaver for dead: %s", down.Reason)
	}
	settled(t, []*pilot{pilots[0], pilots[1], pilots[3]})
}

// A killed process is known from its port, on which nobody listens any more: the master
// does not wait for an answer.
func TestAKilledMemberIsMissedAtOnce(t *testing.T) {
	s := newSite(t, "siteA")
	pilots := joinMany(t, s, 3)
	pilots[2].close()
	down := waitFor(t, pilots[0], "the killed member to be down", func(m dht.MemberDown) bool { return m.Member.Peer == pilots[2].self.Peer })
	if want := "its connection broke and nobody listens at its port"; down.Left || down.Reason != want {
		t.Errorf("left: %v, reason %q, want %q", down.Left, down.Reason, want)
	}
}

func TestALeavingMasterIsFollowedByAnother(t *testing.T) {
	s := newSite(t, "siteA")
	pilots := joinMany(t, s, 3)
	if err := pilots[0].Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	pilots[0].close()
	for _, p := range pilots[1:] {
		waitFor(t, p, "a new master", func(m dht.MasterChanged) bool { return m.Term.Epoch == 2 })
	}
	settled(t, pilots[1:])
}

func TestLocationsAreHandedOverOnLeave(t *testing.T) {
	s := newSite(t, "siteA")
	pilots := joinMany(t, s, 5)
	file := task.FileKey("lfn:result.tsv")
	keeper := pilots[0].Nearest(file, 1)[0].Peer
	var holder, leaver, asker *pilot
	for _, p := range pilots {
		switch {
		case p.self.Peer == keeper:
			leaver = p
		case holder == nil:
			holder = p
		default:
			asker = p
		}
	}
	holder.Announce(file)
	found := func() bool {
		holders, err := asker.Locate(t.Context(), []task.FileKey{file}, nil)
		return err == nil && len(holders[file]) == 1
	}
	eventually(t, "the location before", found)
	if err := leaver.Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	leaver.close()
	eventually(t, "the location after its keeper left", found)
}

func TestCallsEndWhenTheNodeIsClosed(t *testing.T) {
	s := newSite(t, "siteA")
	p := s.join()
	p.close()
	if _, err := p.Locate(t.Context(), []task.FileKey{"lfn:a"}, nil); !errors.Is(err, ErrClosed) {
		t.Errorf("Locate: %v, want ErrClosed", err)
	}
	if err := p.Leave(t.Context()); !errors.Is(err, ErrClosed) {
		t.Errorf("Leave: %v, want ErrClosed", err)
	}
	if err := p.Run(t.Context()); err == nil {
		t.Error("Run after Close succeeded")
	}
	if err := p.Close(); err != nil {
		t.Errorf("a second Close: %v", err)
	}
	p.Send("nobody", nil) // and nothing happens
}

func TestLocateEndsWithItsContext(t *testing.T) {
	s := newSite(t, "siteA")
	p := s.listen() // no loop: nobody answers
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := p.Locate(ctx, []task.FileKey{"lfn:a"}, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v, want the context's end", err)
	}
	if len(p.questions.open) != 0 {
		t.Error("the question is still noted")
	}
}
