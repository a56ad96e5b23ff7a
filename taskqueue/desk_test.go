package taskqueue_test

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/pilotage-grid/pilotage/matcher"
	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
	"github.com/pilotage-grid/pilotage/taskqueue/matchmaker"
)

// desk is what a server does with Pulls.
type desk struct {
	*grid
	maker *matchmaker.Matchmaker
	host  string // of the pilots to come; "": each has its own
}

func newDesk(g *grid) *desk {
	return &desk{grid: g, maker: matchmaker.New(&g.rules.Config, matcher.NewCompiler(100))}
}

// commit runs rules and tells the matchmaker what has changed.
func (d *desk) commit(change func(*taskqueue.Turn) error) {
	d.t.Helper()
	d.must(change)
	d.maker.Changed(&d.effects)
}

// solo is a pilot that is its own master.
type solo struct {
	*desk
	site    task.Site
	id      task.PilotID
	slots   int
	stopped string // why it takes no work
	counter uint64
	leases  []task.LeaseID
	inHand  []task.LeasedTask
	of      map[task.ID]task.LeaseID
	version uint64
	cached  []task.FilePrint
	news    task.Sync
	reply   task.PullReply
}

func (d *desk) solo(site task.Site, peer task.PeerID, slots int) *solo {
	d.t.Helper()
	var out taskqueue.Registered
	d.commit(func(t *taskqueue.Turn) (err error) {
		out, err = d.rules.Register(t, taskqueue.Registration{
			Site: site, Peer: peer, PilotDescription: taskqueue.PilotDescription{
				Host: cmp.Or(d.host, string(peer)), Slots: slots, Resources: task.Resources{Cores: slots, Memory: task.TiB, Disk: task.TiB},
			},
		})
		return err
	})
	return &solo{desk: d, site: site, id: out.Pilot, slots: slots, of: make(map[task.ID]task.LeaseID)}
}

// message is what the pilot tells with its next Pull.
func (s *solo) message() task.Pull {
	p := task.Pull{Sync: s.news}
	s.news = task.Sync{}
	p.Site, p.Pilot, p.Leases = s.site, s.id, s.leases
	p.Capacity = task.Capacity{Pilots: 1, Slots: s.slots, FreeSlots: s.slots - len(s.inHand), Running: len(s.inHand)}
	p.Places = task.Places{FreeSlots: s.slots - len(s.inHand), Free: task.Resources{Cores: s.slots - len(s.inHand), Memory: task.TiB, Disk: task.TiB}}
	if s.stopped != "" {
		p.Places = task.Places{}
		p.Capacity.Slots, p.Capacity.FreeSlots, p.Capacity.Stopped, p.Capacity.StoppedSlots, p.Capacity.StoppedWhy = 0, 0, 1, s.slots, s.stopped
	}
	p.Self.FreeCores = p.Places.Free.Cores
	for _, lt := range s.inHand {
		p.Places.Ending = p.Places.Ending.Max(lt.Task.Resources)
		switch lt.Task.Bound {
		case task.CPUBound:
			p.Self.CPUBound++
		case task.IOBound:
			p.Self.IOBound++
		}
		p.Holding = append(p.Holding, task.Holding{Task: lt.Task.ID, Lease: s.of[lt.Task.ID]})
	}
	p.Cache = task.CacheDelta{Base: s.version, Version: s.version}
	if len(s.cached) > 0 || s.version == 0 {
		p.Cache.Version++
		p.Cache.Added, s.cached = s.cached, nil
	}
	return p
}

// pull tells the queue and takes in its answer.
func (s *solo) pull() []task.ID {
	s.t.Helper()
	p := s.message()
	return s.take(&p, s.serve(&p))
}

// take takes in what the queue answers to a Pull.
func (s *solo) take(p *task.Pull, reply task.PullReply) []task.ID {
	s.reply = reply
	s.version = p.Cache.Version
	if s.reply.CacheVersion != p.Cache.Version {
		s.version = 0
	}
	var got []task.ID
	for _, lease := range s.reply.Leases {
		s.leases = append(s.leases, lease.ID)
		for _, lt := range lease.Tasks {
			if _, again := s.of[lt.Task.ID]; !again {
				s.inHand = append(s.inHand, lt)
				got = append(got, lt.Task.ID)
			}
			s.of[lt.Task.ID] = lease.ID
		}
	}
	for _, id := range s.reply.Unknown {
		s.leases = slices.DeleteFunc(s.leases, func(other task.LeaseID) bool { return other == id })
	}
	return got
}

// serve is a Pull at the queue.
func (d *desk) serve(p *task.Pull) task.PullReply {
	d.t.Helper()
	capacity := d.maker.Hear(d.clock, p, true)
	var pulled taskqueue.Pulled
	d.commit(func(t *taskqueue.Turn) (err error) {
		pulled, err = d.rules.Pull(t, p, capacity)
		return err
	})
	d.maker.Describe(d.clock, &pulled, p.Self)
	if !pulled.MayTake() {
		return pulled.Reply
	}
	if d.maker.Stale(d.clock, p.Site) {
		d.view(func(t *taskqueue.Turn) error { return d.maker.Refresh(t, p.Site) })
	}
	matched := d.maker.Match(d.clock, p.Site, p.Pilot, pulled.Unseen)
	if len(matched) == 0 {
		return pulled.Reply
	}
	var lease task.Lease
	d.commit(func(t *taskqueue.Turn) (err error) {
		lease, err = d.rules.Grant(t, p.Site, p.Pilot, matched)
		return err
	})
	d.maker.Granted(p.Site, p.Pilot, matched, &lease)
	if len(lease.Tasks) > 0 {
		pulled.Reply.Leases = append(pulled.Reply.Leases, lease)
	}
	return pulled.Reply
}

// tend looks after a site as a server does, while no call is under way.
func (d *desk) tend(site task.Site) (care taskqueue.Care) {
	d.t.Helper()
	record := d.siteRecord(site)
	d.commit(func(t *taskqueue.Turn) error {
		live, err := t.Pilots().OfSite(site, taskqueue.PilotAlive)
		if err != nil {
			return err
		}
		unsafe, err := d.rules.Unguarded(t, site)
		if err != nil {
			return err
		}
		care, _ = d.maker.Tend(d.clock, &record, live, unsafe, func(task.PilotID) bool { return false })
		return d.rules.Tend(t, site, &care)
	})
	return care
}

// finish ends a task well; its outputs are in the pilot's cache from now on.
func (s *solo) finish(id task.ID) task.Outcome {
	s.t.Helper()
	i := slices.IndexFunc(s.inHand, func(lt task.LeasedTask) bool { return lt.Task.ID == id })
	if i < 0 {
		s.t.Fatalf("pilot %s does not have %s", s.id, id)
	}
	lt := s.inHand[i]
	s.inHand = slices.Delete(s.inHand, i, i+1)
	s.counter++
	o := task.Outcome{
		Attempt: task.AttemptID{Task: id, Generation: lt.Generation, Lease: s.of[id], Pilot: s.id, Counter: s.counter},
		Number:  lt.Number, OK: true, Run: time.Second, Delay: -1,
	}
	for _, out := range lt.Task.Outputs {
		o.Outputs = append(o.Outputs, task.Produced{LFN: out.LFN, Size: task.Bytes(task.GiB), Digest: content(o.Attempt, out.LFN)})
		s.cached = append(s.cached, task.KeyOf(out.LFN, task.Digest{}).Print())
	}
	s.news.Outcomes = append(s.news.Outcomes, o)
	delete(s.of, id) // it may come again
	return o
}

func inMode(mode taskqueue.Mode) func(*taskqueue.SiteRecord) {
	return func(s *taskqueue.SiteRecord) { s.Mode = mode }
}

func pairs(n int) taskqueue.Submission {
	s := taskqueue.Submission{Name: "pairs"}
	for i := range n {
		s.Tasks = append(s.Tasks, job(fmt.Sprintf("first[%d]", i), nil, []string{fmt.Sprintf("f.%d", i)}))
	}
	for i := range n {
		s.Tasks = append(s.Tasks, job(fmt.Sprintf("second[%d]", i), []string{fmt.Sprintf("f.%d", i)}, []string{fmt.Sprintf("s.%d", i)}))
	}
	return s
}
