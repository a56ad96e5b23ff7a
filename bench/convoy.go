package bench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	pb "github.com/pilotage-grid/pilotage/proto/pilotage/v1"
	"github.com/pilotage-grid/pilotage/task"
)

// convoy are the pilots of a run, each a process of its own as a batch system
// starts it: TCP between them, files on a disk, payloads that are processes.
// Rounds and solutions are not seen from outside.
type convoy struct {
	queue    *queueProcess
	sites    int
	pilots   []*process
	joining  sync.Mutex     // while pilots join, guards
	numbers  map[string]int // by pilot id
	observed observations
	ended    []bool // by kill

	stopWatching context.CancelFunc
	watching     sync.WaitGroup
}

// launch starts the processes. The first of each site is its master.
func (o Overlay) launch(ctx context.Context, q *queueProcess) (*convoy, error) {
	c := &convoy{queue: q, sites: o.Sites, numbers: make(map[string]int), observed: newObservations(), ended: make([]bool, o.Pilots)}
	if err := c.join(ctx, o); err != nil {
		return nil, errors.Join(err, c.close())
	}
	watching, stop := context.WithCancel(context.WithoutCancel(ctx))
	c.stopWatching = stop
	c.watching.Go(func() { c.watchOffices(watching) })
	return c, nil
}

func (c *convoy) join(ctx context.Context, o Overlay) error {
	for i := range o.Pilots {
		pilot, err := c.queue.startPilot(fmt.Sprintf("pilot-%04d", i), overlaySite(i%o.Sites),
			"--slots", "1", "--memory", "1GiB", "--disk", "1GiB", "--cache-size", o.capacity(convoyCache).String())
		if err != nil {
			return err
		}
		c.pilots = append(c.pilots, pilot)
		if i < o.Sites {
			if err := c.ready(ctx, i); err != nil {
				return err
			}
		}
	}
	group, ctx := errgroup.WithContext(ctx)
	for i := o.Sites; i < o.Pilots; i++ {
		group.Go(func() error { return c.ready(ctx, i) })
	}
	return group.Wait()
}

// ready waits for one pilot; several may be waited for at once.
func (c *convoy) ready(ctx context.Context, i int) error {
	said, err := c.pilots[i].waitReady(ctx)
	c.joining.Lock()
	defer c.joining.Unlock()
	c.numbers[said["pilot"]] = i
	return err
}

// convoyCache is room for all files of a run; little more is taken from the
// disk than what is made.
const convoyCache = 16 * task.GiB

// officesEvery is how often the queue is asked who is master: failovers are
// seen to such a time.
const officesEvery = 50 * time.Millisecond

// watchOffices notes who takes office.
func (c *convoy) watchOffices(ctx context.Context) {
	ticker := time.NewTicker(officesEvery)
	defer ticker.Stop()
	terms := make([]string, c.sites)
	for {
		for i := range c.sites {
			reply, err := c.queue.sites.GetSite(ctx, &pb.GetSiteRequest{Name: overlaySite(i)})
			if err != nil || reply.GetSite().GetTerm() == terms[i] || reply.GetSite().GetMaster() == "" {
				continue
			}
			terms[i] = reply.GetSite().GetTerm()
			c.observed.inOffice(i, c.numbers[reply.GetSite().GetMaster()])
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

func (c *convoy) begin() { c.observed.reset() }

func (c *convoy) collect() {}

func (c *convoy) kill(i int) {
	c.ended[i] = true
	c.pilots[i].Signal(syscall.SIGKILL)
	c.observed.lost(i%c.sites, i, false)
}

func (c *convoy) hang(i int) {
	c.pilots[i].Signal(syscall.SIGSTOP)
	c.observed.lost(i%c.sites, i, true)
}

func (c *convoy) resume(i int) { c.pilots[i].Signal(syscall.SIGCONT) }

func (c *convoy) seen() *observations { return &c.observed }

func (c *convoy) tell(ctx context.Context, r *OverlayResult) error {
	c.observed.tell(r, 0)
	for i := range c.sites {
		reply, err := c.queue.sites.GetSite(ctx, &pb.GetSiteRequest{Name: overlaySite(i)})
		if err != nil {
			return fmt.Errorf("the state of %s: %w", overlaySite(i), err)
		}
		r.Cache.Evictions += reply.GetSite().GetEvictions()
	}
	return nil
}

func (c *convoy) usage() (cpu time.Duration, resident int64, err error) {
	for i, p := range c.pilots {
		if c.ended[i] {
			continue
		}
		used, memory, err := p.usage()
		if err != nil {
			return 0, 0, err
		}
		cpu, resident = cpu+used, resident+memory
	}
	return cpu, resident, nil
}

// close ends all pilots in an orderly way, masters last.
func (c *convoy) close() error {
	if c.stopWatching != nil {
		c.stopWatching()
		c.watching.Wait()
	}
	masters := c.observed.masters()
	for _, last := range []bool{false, true} {
		var leaving sync.WaitGroup
		for i, p := range c.pilots {
			if masters[i] == last {
				leaving.Go(func() {
					p.Signal(syscall.SIGCONT)
					p.stop()
				})
			}
		}
		leaving.Wait()
	}
	return nil
}
