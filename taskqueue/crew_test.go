package taskqueue_test

import (
	"crypto/sha256"
	"maps"
	"slices"
	"time"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

// crew plays a site: its pilots and its master.
type crew struct {
	*grid
	site    task.Site
	host    string // of the pilots that join from now on
	members []*member
	master  *member
	term    task.Term

	leases  map[task.LeaseID]map[task.ID]task.LeasedTask
	files   map[task.LFN]task.File
	copies  map[task.LFN][]task.File // what each attempt has made, in its pilot's cache
	running map[task.ID]*attempt
	ended   []task.Outcome // not acknowledged
	next    task.Sync      // what the next Sync will tell
	roll    uint64         // that the queue has called
	reply   task.SyncReply
}

// member is one pilot.
type member struct {
	listed  bool // its master has told the queue of it
	id      task.PilotID
	peer    task.PeerID
	slots   int
	stopped string // why it takes no new work
	counter uint64
}

type attempt struct {
	id     task.AttemptID
	number int
	reads  []task.Read
}

// forget is what happens to a master's memory when it dies.
func (c *crew) forget() {
	c.leases = make(map[task.LeaseID]map[task.ID]task.LeasedTask)
	c.files = make(map[task.LFN]task.File)
	c.copies = make(map[task.LFN][]task.File)
	c.running = make(map[task.ID]*attempt)
	c.next = task.Sync{}
}

func (c *crew) register(peer task.PeerID, slots int) (taskqueue.Registered, error) {
	var out taskqueue.Registered
	err := c.update(func(t *taskqueue.Turn) (err error) {
		out, err = c.rules.Register(t, taskqueue.Registration{
			Site: c.site, Peer: peer, PilotDescription: taskqueue.PilotDescription{
				Slots: slots, Host: c.host, Addresses: []string{"/ip4/10.0.0.1/tcp/1"},
				Resources: task.Resources{Cores: slots, Memory: 64 * task.GiB, Disk: task.TiB},
			},
		})
		return err
	})
	return out, err
}

// join registers a pilot; the first one becomes master.
func (c *crew) join(peer task.PeerID, slots int) *member {
	c.t.Helper()
	out, err := c.register(peer, slots)
	if err != nil {
		c.t.Fatalf("register %s: %v", peer, err)
	}
	m := &member{id: out.Pilot, peer: peer, slots: slots}
	if out.Master.Pilot == m.id {
		c.master, c.term = m, out.Term
	}
	c.members = append(c.members, m)
	return m
}

func (c *crew) slots() int {
	n := 0
	for _, m := range c.members {
		if m.stopped == "" {
			n += m.slots
		}
	}
	return n
}

// pause has a pilot take no new work, or take it again if why is empty.
func (c *crew) pause(m *member, why string) {
	m.stopped = why
	c.next.Pauses = append(c.next.Pauses, task.Pause{Pilot: m.id, Why: why})
}

// sync sends what the master has to tell and takes in the reply.
func (c *crew) sync() task.SyncReply {
	c.t.Helper()
	reply, err := c.trySync()
	if err != nil {
		c.t.Fatalf("sync of %s: %v", c.site, err)
	}
	return reply
}

func (c *crew) trySync() (task.SyncReply, error) {
	s := c.message()
	var reply task.SyncReply
	err := c.update(func(t *taskqueue.Turn) (err error) {
		reply, err = c.rules.Sync(t, s)
		return err
	})
	if err == nil {
		c.next = task.Sync{}
		for _, m := range c.members {
			m.listed = true
		}
		c.take(reply)
	}
	return reply, err
}

// message is the Sync as the master would send it now.
func (c *crew) message() task.Sync {
	s := c.next
	for _, m := range c.members {
		if !m.listed {
			s.Joined = append(s.Joined, m.id)
		}
	}
	s.Site, s.Term, s.Pilot = c.site, c.term, c.master.id
	for id := range c.leases {
		s.Leases = append(s.Leases, id)
	}
	slices.Sort(s.Leases)
	s.Outcomes = slices.Clone(c.ended)
	waiting := 0
	for _, tasks := range c.leases {
		waiting += len(tasks)
	}
	s.Capacity = task.Capacity{
		Pilots: len(c.members), Slots: c.slots(), FreeSlots: max(0, c.slots()-len(c.running)),
		Running: len(c.running), Waiting: waiting,
	}
	for _, m := range c.members {
		if m.stopped != "" {
			s.Capacity.Stopped++
			s.Capacity.StoppedSlots += m.slots
			s.Capacity.StoppedWhy = m.stopped
		}
	}
	return s
}

// take books a reply as a master does.
func (c *crew) take(reply task.SyncReply) {
	if reply.Roll != c.roll && c.roll != 0 {
		for _, m := range c.members {
			m.listed = false
		}
	}
	c.roll = reply.Roll
	c.reply = reply
	c.acknowledge(reply.Acks)
	c.hold(reply.Leases)
	for _, id := range reply.Unknown {
		delete(c.leases, id)
	}
	for _, r := range reply.Revoked {
		if !r.Cancel {
			c.giveBack(r.Lease, r.Task, "recalled")
		}
		delete(c.leases[r.Lease], r.Task)
		if a := c.running[r.Task]; a != nil && r.Cancel && a.id.Lease == r.Lease {
			delete(c.running, r.Task)
		}
		c.next.Confirmed = append(c.next.Confirmed, r)
	}
	for _, f := range reply.Check {
		c.guard(f)
	}
	for _, f := range reply.Drop {
		c.copies[f.LFN] = slices.DeleteFunc(c.copies[f.LFN], func(held task.File) bool { return held.Producer == f.Producer })
		c.next.Lost = append(c.next.Lost, task.LostFile{LFN: f.LFN, Digest: f.Digest, Reason: "nobody needs it any more"})
	}
}

// guard stores a file that the queue asks for, under whatever name it was made,
// or tells that it is lost.
func (c *crew) guard(f task.File) {
	for _, copies := range c.copies {
		for _, held := range copies {
			if held.Producer == f.Producer && held.Digest == f.Digest {
				c.store(f)
				return
			}
		}
	}
	c.next.Lost = append(c.next.Lost, task.LostFile{LFN: f.LFN, Digest: f.Digest, Reason: "nobody holds it"})
}

func (c *crew) acknowledge(acks []task.Ack) {
	for _, ack := range acks {
		for _, o := range c.ended {
			switch {
			case o.Attempt != ack.Attempt:
			case !o.OK:
				delete(c.leases[o.Attempt.Lease], o.Attempt.Task)
			case ack.Verdict == task.AckAccepted:
				c.forgetTask(ack.Attempt)
			default:
				c.disown(o)
			}
		}
		c.ended = slices.DeleteFunc(c.ended, func(o task.Outcome) bool { return o.Attempt == ack.Attempt })
	}
}

func (c *crew) hold(leases []task.Lease) {
	for _, lease := range leases {
		if c.leases[lease.ID] == nil {
			c.leases[lease.ID] = make(map[task.ID]task.LeasedTask)
		}
		for _, lt := range lease.Tasks {
			a := c.running[lt.Task.ID]
			runs := a != nil && a.id.Lease == lease.ID && a.id.Generation == lt.Generation
			if !runs {
				c.leases[lease.ID][lt.Task.ID] = lt
			}
		}
		for _, f := range lease.Files {
			if old := c.files[f.LFN]; !c.reports(old.Producer) {
				c.files[f.LFN] = f
			}
		}
	}
}

// waiting returns the tasks that the master holds unstarted, oldest first. One
// that runs under an older lease, or has, waits for what becomes of that.
func (c *crew) waiting() []task.LeasedTask {
	var all []task.LeasedTask
	for lease, tasks := range c.leases {
		for id, lt := range tasks {
			if a := c.running[id]; (a == nil || a.id.Generation != lt.Generation) && !c.decides(lease, lt) {
				all = append(all, lt)
			}
		}
	}
	slices.SortFunc(all, func(x, y task.LeasedTask) int { return int(x.Age) - int(y.Age) })
	return all
}

// startable tells whether every input of a task is known to exist.
func (c *crew) startable(lt task.LeasedTask) bool {
	for _, in := range lt.Task.Inputs {
		if f := c.files[in.LFN]; len(f.Announced)+len(f.Replicas) == 0 {
			return false
		}
	}
	return true
}

// start begins a task on a pilot.
func (c *crew) start(id task.ID, m *member) *attempt {
	c.t.Helper()
	for lease, tasks := range c.leases {
		lt, held := tasks[id]
		if !held {
			continue
		}
		delete(tasks, id)
		m.counter++
		a := &attempt{
			id:     task.AttemptID{Task: id, Generation: lt.Generation, Lease: lease, Pilot: m.id, Counter: m.counter},
			number: lt.Number,
		}
		for _, in := range lt.Task.Inputs {
			f := c.files[in.LFN]
			a.reads = append(a.reads, task.Read{
				LFN: in.LFN, Size: max(0, f.Size), Digest: f.Digest, Source: task.SourceSE,
				Intermediate: !f.Producer.IsZero(), Producer: f.Producer,
			})
		}
		c.running[id] = a
		c.next.Starts = append(c.next.Starts, task.Start{Attempt: a.id, Number: a.number, Started: epoch})
		return a
	}
	c.t.Fatalf("site %s holds no waiting task %s", c.site, id)
	return nil
}

// succeed makes the outcome of a successful attempt.
func (c *crew) succeed(a *attempt) task.Outcome {
	o := c.outcome(a)
	o.OK = true
	c.view(func(t *taskqueue.Turn) error {
		specs, err := t.Tasks().Describe(a.id.Task)
		if err != nil || len(specs) == 0 {
			return err
		}
		for _, out := range specs[0].Outputs {
			o.Outputs = append(o.Outputs, task.Produced{LFN: out.LFN, Size: 10, Digest: content(a.id, out.LFN)})
		}
		return nil
	})
	c.learn(o)
	return o
}

// learn is what a master knows of a site's files from a successful attempt. An
// output of an earlier one that still exists stays as it is.
func (c *crew) learn(o task.Outcome) {
	for _, p := range o.Outputs {
		made := task.File{LFN: p.LFN, Size: p.Size, Digest: p.Digest, Producer: o.Attempt, Announced: []task.Site{c.site}}
		c.copies[p.LFN] = append(c.copies[p.LFN], made)
		if old := c.files[p.LFN]; old.Producer.Task != o.Attempt.Task || !slices.Contains(old.Announced, c.site) {
			c.files[p.LFN] = made
		}
	}
}

// forgetTask drops a task that an attempt has ended, under whatever lease.
func (c *crew) forgetTask(attempt task.AttemptID) {
	for _, tasks := range c.leases {
		if tasks[attempt.Task].Generation == attempt.Generation {
			delete(tasks, attempt.Task)
		}
	}
}

// disown forgets what an attempt made that the queue does not count. Tasks that
// were to read it go back to the queue, which knows what counts.
func (c *crew) disown(o task.Outcome) {
	for _, p := range o.Outputs {
		c.copies[p.LFN] = slices.DeleteFunc(c.copies[p.LFN], func(f task.File) bool { return f.Producer == o.Attempt })
		if c.files[p.LFN].Producer != o.Attempt {
			continue
		}
		delete(c.files, p.LFN)
		for _, lease := range slices.Sorted(maps.Keys(c.leases)) {
			for _, id := range slices.Sorted(maps.Keys(c.leases[lease])) {
				if slices.ContainsFunc(c.leases[lease][id].Task.Inputs, func(in task.Input) bool { return in.LFN == p.LFN }) {
					c.giveBack(lease, id, "another attempt counts")
				}
			}
		}
	}
}

// giveBack returns an unstarted task to the queue.
func (c *crew) giveBack(lease task.LeaseID, id task.ID, why string) {
	lt, held := c.leases[lease][id]
	if !held {
		return
	}
	delete(c.leases[lease], id)
	c.next.Returns = append(c.next.Returns, task.Returned{Task: id, Generation: lt.Generation, Lease: lease, Reason: why})
}

// reports tells whether the queue has not judged an attempt yet.
func (c *crew) reports(attempt task.AttemptID) bool {
	return slices.ContainsFunc(c.ended, func(o task.Outcome) bool { return o.Attempt == attempt })
}

// decides tells whether an outcome under way to the queue ends a leased task.
func (c *crew) decides(lease task.LeaseID, lt task.LeasedTask) bool {
	return slices.ContainsFunc(c.ended, func(o task.Outcome) bool {
		return o.Attempt.Task == lt.Task.ID && o.Attempt.Generation == lt.Generation && (o.OK || o.Attempt.Lease == lease)
	})
}

// content is what an attempt writes: different with each attempt.
func content(a task.AttemptID, name task.LFN) task.Digest {
	return sha256.Sum256([]byte(a.String() + string(name)))
}

func (c *crew) outcome(a *attempt) task.Outcome {
	return task.Outcome{
		Attempt: a.id, Number: a.number, Site: c.site, Reads: a.reads, Run: time.Second, Delay: 10 * time.Millisecond,
		Started: epoch, Ended: epoch.Add(time.Second), Usage: task.Usage{UserCPU: time.Second},
	}
}

func (c *crew) fail(a *attempt, kind task.FailureKind) task.Outcome {
	o := c.outcome(a)
	o.Failure, o.Reason, o.ExitCode = kind, "exit code 1", 1
	return o
}

// end finishes a running task.
func (c *crew) end(id task.ID, o task.Outcome) {
	delete(c.running, id)
	c.ended = append(c.ended, o)
}

// work starts and finishes everything that the master holds and can run, and
// returns the ids in order.
func (c *crew) work() []task.ID {
	c.t.Helper()
	var done []task.ID
	for progress := true; progress; {
		progress = false
		for _, lt := range c.waiting() {
			if c.startable(lt) {
				a := c.start(lt.Task.ID, c.members[0])
				c.end(lt.Task.ID, c.succeed(a))
				done = append(done, lt.Task.ID)
				progress = true
			}
		}
	}
	return done
}

// upload stores an output at the site's storage element.
func (c *crew) upload(name task.LFN) {
	for _, f := range c.copies[name] { // each pilot stores what it has made
		c.store(f)
	}
}

func (c *crew) store(f task.File) {
	c.next.Stored = append(c.next.Stored, task.Stored{
		LFN: f.LFN, Attempt: f.Producer, URL: c.url(f), Size: f.Size, Digest: f.Digest,
	})
}

// loseFile has the next Sync tell that nobody at the site holds a file.
func (c *crew) loseFile(name task.LFN) {
	c.next.Lost = append(c.next.Lost, task.LostFile{LFN: name, Digest: c.files[name].Digest})
	delete(c.files, name)
	delete(c.copies, name)
}

func (c *crew) url(f task.File) string {
	return "file:///se/" + string(c.site) + "/" + task.StorageName(f.Producer, f.LFN)
}

// held returns the names of the tasks that the master holds unstarted.
func (c *crew) held() []string {
	var names []string
	for _, lt := range c.waiting() {
		names = append(names, lt.Task.ID.Name())
	}
	return names
}
