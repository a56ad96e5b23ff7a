package agent

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"

	"github.com/pilotage-grid/pilotage/dht"
	"github.com/pilotage-grid/pilotage/identity"
	"github.com/pilotage-grid/pilotage/task"
)

// leftQueue notes who leaves.
type leftQueue struct {
	Queue

	left []Leaving
}

func (q *leftQueue) Leave(ctx context.Context, leaving Leaving) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	q.left = append(q.left, leaving)
	return nil
}

// A pilot whose parts cannot be made is in no list of the queue for long, and one that was
// to be master resigns. The queue hears of it also when the pilot was told to stop.
func TestAPilotWithoutPartsIsTakenBack(t *testing.T) {
	key, err := identity.NewPilotKey()
	if err != nil {
		t.Fatal(err)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	why, term := errors.New("the folder\nis another pilot's"), task.Term{Epoch: 7}
	for master, resigns := range map[task.PeerID]bool{key.Peer(): true, "another": false} {
		queue := &leftQueue{}
		a := &Agent{
			shell: &shell{log: slog.New(slog.DiscardHandler)}, key: key, queue: queue,
			membership: Membership{Joined: dht.Joined{Term: term, Master: dht.Member{Peer: master}}},
		}
		if err := a.TakeBack(over, why); !errors.Is(err, why) {
			t.Errorf("it ends with %v", err)
		}
		if want := []Leaving{{Reason: "the folder is another pilot's", Resigns: resigns, Term: term}}; !slices.Equal(queue.left, want) {
			t.Errorf("master %s: the queue heard %+v, want %+v", master, queue.left, want)
		}
	}
}
