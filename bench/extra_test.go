package bench

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"

	"github.com/pilotage-grid/pilotage/pilot/exec"
	"github.com/pilotage-grid/pilotage/task"
)

// chatter counts what its pilots are told.
type chatter struct{ assigned, ended, changed, beating atomic.Int64 }

func (c *chatter) Pilot(*grpc.ClientConn) ExtraPilot { return c }
func (c *chatter) Sent() (sent, waiting float64)     { return 0, 0 }
func (c *chatter) Assigned()                         { c.assigned.Add(1) }
func (c *chatter) Ended(outputs int)                 { c.ended.Add(int64(outputs)) }
func (c *chatter) CacheChanged(files int)            { c.changed.Add(int64(files)) }
func (c *chatter) Beat(ctx context.Context)          { c.beating.Add(1); <-ctx.Done(); c.beating.Add(-1) }

// Extra messages hear of each payload, of files that come, are deleted and go
// with the pilot, and of the pilot's end.
func TestExtraMessagesHearOfAll(t *testing.T) {
	yard, _, equipment := pitch(t, 1000, nil)
	plot, heard := yard.plots["https://127.0.0.1:1/plot/0"], &chatter{}
	plot.extra = heard
	spec := exec.Spec{Task: task.Task{Argv: []string{"0"}, Outputs: []task.Output{{LFN: "w-aaaaaaaaaa:x", Name: "out"}}}}
	plot.Run(context.Background(), spec, nil)
	entry, err := equipment[0].Cache.Adopt(context.Background(), "", "x", false)
	if err != nil {
		t.Fatal(err)
	}
	if err := equipment[0].Cache.Drop(entry.Key); err != nil {
		t.Fatal(err)
	}
	if _, err := equipment[0].Cache.Adopt(context.Background(), "", "y", false); err != nil {
		t.Fatal(err)
	}
	plot.close()
	if heard.assigned.Load() != 1 || heard.ended.Load() != 1 || heard.changed.Load() != 2 {
		t.Errorf("%d assigned, %d files made, %d changes; want 1, 1, 2", heard.assigned.Load(), heard.ended.Load(), heard.changed.Load())
	}
	plot.kill()
	if err := plot.serve(context.Background()); !errors.Is(err, errKilled) || heard.beating.Load() != 0 {
		t.Errorf("a killed pilot ends with %v, %d still beat", err, heard.beating.Load())
	}
}
