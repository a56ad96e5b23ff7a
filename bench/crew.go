package bench

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"

	"github.com/pilotage-grid/pilotage/dht"
	"github.com/pilotage-grid/pilotage/dht/memnet/live"
	"github.com/pilotage-grid/pilotage/dht/node"
	"github.com/pilotage-grid/pilotage/pilot/agent"
	"github.com/pilotage-grid/pilotage/task"
)

// crew are pilots of one process: whole agents, each with its
// worker, its master's core, its node in the overlay and its conversation with
// the queue. Only what lies on a worker node is in memory.
type crew struct {
	yard     *yard
	carrier  *live.Carrier // nil over TCP
	log      *slog.Logger
	logFile  *os.File
	observed observations
	lines    lines                   // of extra messages
	sent     map[string]live.Traffic // before the work began

	sites int
	plots []*plot
	group *errgroup.Group
	stop  context.CancelFunc
}

// patient are timings for so many nodes on few cores: they only bound how long
// the hung are waited for, and here whoever is slow is not hung.
func patient(pilots int) dht.Config {
	times := func(d time.Duration) time.Duration { return d * time.Duration(min(max(1, pilots/250), 10)) }
	return dht.Config{
		Beat: times(3 * time.Second), PingTimeout: times(5 * time.Second),
		Election:  dht.ElectionConfig{Silence: times(9 * time.Second)},
		Members:   dht.MembershipConfig{Ping: times(10 * time.Second)},
		Broadcast: dht.BroadcastConfig{HopAck: times(2 * time.Second), ReplyHop: times(3 * time.Second)},
		Locations: dht.LocationConfig{FindStep: times(2 * time.Second)},
	}
}

// timing of the overlay. With masters taken away from no more pilots than one
// process serves well it is production's, since that is measured. With more, beats
// and probes of the master are, with all else that goes by their times;
// members are given longer to answer, or they take each other for dead.
func (o Overlay) timing() dht.Config {
	slow := patient(o.Pilots)
	switch {
	case o.KillMasters+o.HangMasters == 0:
		return slow
	case o.Pilots <= patientFrom:
		return dht.Config{}
	}
	slow.Beat, slow.PingTimeout, slow.Election.Silence = 0, 0, 0
	return slow
}

// patientFrom is the number of pilots beyond which members are given longer in any
// case: with all time-outs of production 1,500 pilots on two cores took each other
// for dead and did not end within seven minutes.
const patientFrom = 500

// joinsAtOnce bounds how many pilots register at the same time.
const joinsAtOnce = 32

// collectSeldom has the garbage of all pilots lie until half of the memory that
// is to be had is used: a collection in a process of thousands takes all of them
// seconds on a busy machine, where in production each has a small heap of its
// own.
func collectSeldom() {
	debug.SetGCPercent(-1)
	debug.SetMemoryLimit(max(leastMemory, availableMemory()/2))
}

// leastMemory is what a run may use however little there is.
const leastMemory = 2 << 30

// hire starts the pilots of a crew.
func (o Overlay) hire(ctx context.Context, q *queueProcess) (*crew, error) {
	collectSeldom()
	c := &crew{sites: o.Sites, observed: newObservations(), yard: newYard(o.FileSize, o.capacity(unlimited))}
	var err error
	if c.logFile, err = os.Create(filepath.Join(q.folder, "pilots.log")); err != nil {
		return nil, err
	}
	c.log = slog.New(slog.NewTextHandler(c.logFile, &slog.HandlerOptions{Level: slog.LevelWarn}))
	if c.lines, err = o.openLines(q); err != nil {
		return nil, errors.Join(err, c.logFile.Close())
	}
	if o.Transport == TransportLight {
		c.carrier, err = live.NewCarrier()
	}
	if err != nil {
		return nil, errors.Join(err, c.lines.close(), c.logFile.Close())
	}
	// Pilots end by stop, not with ctx: they say goodbye while the queue runs.
	living, stop := context.WithCancel(context.WithoutCancel(ctx))
	c.stop = stop
	if err := c.join(ctx, living, o, q); err != nil {
		return nil, errors.Join(err, c.close())
	}
	return c, nil
}

func (c *crew) join(ctx, living context.Context, o Overlay, q *queueProcess) error {
	turn, ready := make(chan struct{}, joinsAtOnce), make(chan struct{}, o.Pilots)
	var joined context.Context
	c.group, joined = errgroup.WithContext(ctx)
	await := func(what <-chan struct{}) error {
		select {
		case <-what:
			return nil
		case <-joined.Done():
			return context.Cause(joined)
		}
	}
	for i := range o.Pilots {
		p := c.yard.newPlot(i)
		p.extra = o.voice(c.lines, i)
		c.plots = append(c.plots, p)
		select {
		case turn <- struct{}{}:
		case <-joined.Done():
			return context.Cause(joined)
		}
		staying, leave := context.WithCancel(living)
		p.leave = leave
		c.group.Go(func() error {
			once := sync.OnceFunc(func() { <-turn })
			defer once()
			defer close(p.gone)
			defer leave()
			err := c.run(staying, o, q, i, p, func() { once(); ready <- struct{}{} })
			if errors.Is(err, errKilled) {
				return nil
			}
			return err
		})
		if i < o.Sites { // the first pilot of a site is its master
			if err := await(ready); err != nil {
				return err
			}
		}
	}
	for range o.Pilots - o.Sites {
		if err := await(ready); err != nil {
			return err
		}
	}
	return nil
}

// run is one pilot.
func (c *crew) run(ctx context.Context, o Overlay, q *queueProcess, number int, p *plot, joined func()) error {
	access, err := q.access("pilot-" + overlaySite(number%o.Sites))
	if err != nil {
		return err
	}
	host, _ := os.Hostname()
	config := agent.Config{
		Access: access, Log: c.log,
		NodeConfig:    agent.NodeConfig{Host: host, Slots: 1, Resources: task.Resources{Cores: 1, Memory: task.GiB, Disk: task.GiB}},
		LifeConfig:    agent.LifeConfig{Lifetime: 24 * time.Hour, Grace: time.Second},
		NetworkConfig: agent.NetworkConfig{Advertise: "127.0.0.1", Overlay: o.timing(), ToQueue: []grpc.DialOption{p.line.option()}},
		Events:        witness{&c.observed, number % o.Sites, number, joined}.see,
	}
	if c.carrier != nil {
		config.Carrier = node.Carrier(c.carrier)
	}
	defer p.close()
	pilot, err := agent.Enroll(ctx, config, p.place())
	if err != nil {
		return err
	}
	parts, err := p.equip(pilot.Enrollment())
	if err != nil {
		return pilot.TakeBack(ctx, err)
	}
	return pilot.Work(ctx, parts)
}

// leavesAtOnce bounds how many pilots leave at the same time, so that each is
// heard.
const leavesAtOnce = 128

// close lets all pilots leave, masters last: a site without pilots needs no
// other one.
func (c *crew) close() error {
	masters := c.observed.masters()
	turn := make(chan struct{}, leavesAtOnce)
	for i, p := range c.plots {
		if p.leave == nil || masters[i] {
			continue
		}
		turn <- struct{}{}
		p.leave()
		c.group.Go(func() error {
			<-p.gone
			<-turn
			return nil
		})
	}
	for range leavesAtOnce {
		turn <- struct{}{} // all have gone
	}
	c.stop()
	err := c.group.Wait()
	if c.carrier != nil {
		err = errors.Join(err, c.carrier.Close())
	}
	return errors.Join(err, c.lines.close(), c.logFile.Close())
}

// traffic is what all pilots have sent to each other, by kind; nil over TCP, where
// nobody counts.
func (c *crew) traffic() map[string]live.Traffic {
	if c.carrier == nil {
		return nil
	}
	return c.carrier.SentByAll()
}

func (c *crew) collect() { runtime.GC() }

func (c *crew) begin() {
	c.collect() // what joining has left behind is not to be collected under work
	c.sent = c.traffic()
	c.observed.reset()
}

func (c *crew) kill(i int) {
	c.observed.lost(i%c.sites, i, false)
	c.plots[i].line.cut()
	if c.carrier != nil {
		c.carrier.Kill(c.plots[i].peer)
	}
	c.plots[i].kill() // its goroutines end one after the other
}

func (c *crew) hang(i int) {
	c.plots[i].line.freeze()
	if c.carrier != nil {
		c.carrier.Hang(c.plots[i].peer)
	}
	c.observed.lost(i%c.sites, i, true)
}

func (c *crew) resume(i int) {
	if c.carrier != nil {
		c.carrier.Resume(c.plots[i].peer)
	}
	c.plots[i].line.thaw()
}

func (c *crew) seen() *observations { return &c.observed }

func (c *crew) tell(_ context.Context, r *OverlayResult) error {
	traffic := c.traffic()
	messages := make(map[string]float64, len(traffic))
	var bytes uint64
	for kind, sent := range traffic {
		messages[kind] = float64(sent.Messages-c.sent[kind].Messages) / float64(r.Tasks)
		bytes += sent.Bytes - c.sent[kind].Bytes
	}
	delete(messages, "other") // of which writes are counted
	c.observed.tell(r, bytes)
	r.Traffic = &TrafficFigures{MessagesPerTask: messages}
	r.Traffic.Searches, r.Traffic.SearchTime = c.yard.searchTimes()
	r.Cache.Evictions = c.yard.evictions()
	return nil
}

func (c *crew) usage() (cpu time.Duration, resident int64, err error) {
	return processUsage(os.Getpid())
}

func overlaySite(n int) string { return fmt.Sprintf("site%d", n+1) }
