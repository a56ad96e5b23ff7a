package world

import (
	"context"
	"errors"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/pilotage-grid/pilotage/dht"
	"github.com/pilotage-grid/pilotage/dht/memnet"
	"github.com/pilotage-grid/pilotage/pilot/master"
	"github.com/pilotage-grid/pilotage/pilot/worker"
	pb "github.com/pilotage-grid/pilotage/proto/pilotage/v1"
	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/task/taskpb"
	"github.com/pilotage-grid/pilotage/taskqueue"
	"github.com/pilotage-grid/pilotage/taskqueue/matchmaker"
	"github.com/pilotage-grid/pilotage/taskqueue/store/tables"
)

// queue is the task queue: the product's rules over its tables above a model of a
// disk. It parks calls without news as the product's server does.
type queue struct {
	*world
	disk   *disk
	store  *tables.Store
	config taskqueue.Config
	rules  *taskqueue.Rules
	parked map[task.PilotID]*call
	maker  *matchmaker.Matchmaker
	told   map[task.PilotID]any // what a pilot was last told of the state of things
	broken map[task.Site]taskqueue.Instant
	away   bool // nobody answers, and its clock stands still
	stood  time.Duration
	gone   time.Duration // since when it is away, or its disk takes nothing
	lag    time.Duration // that its disk takes for a commit
	skew   time.Duration // by which its wall clock is wrong

	calls     int // that arrived: Syncs, claims and deliveries
	callBytes int // of their requests
	loseReply int // so many of the next calls are carried out, and their answers are lost
	loseCall  int // so many of the next calls are lost on their way
	delayCall int // so many of the next Syncs and Pulls are carried out after their callers gave up
	doubles   int // so many of the next Syncs and Pulls are carried out twice
}

// call is a Sync that waits for news.
type call struct {
	from   *node
	number uint64
	serve  func() (answer master.SyncAnswered, news bool, standing any, err error)
}

func newQueue(w *world, config taskqueue.Config) *queue {
	q := &queue{
		world: w, disk: newDisk(), config: config,
		parked: make(map[task.PilotID]*call), told: make(map[task.PilotID]any), broken: make(map[task.Site]taskqueue.Instant),
	}
	q.open()
	return q
}

// open begins as a new process does: with what the disk has, and nothing else.
func (q *queue) open() {
	store, err := tables.Open(q.disk, q.disk)
	if err != nil {
		q.judge.Fatalf("the queue's store does not open: %v", err)
	}
	q.store, q.rules = store, taskqueue.NewRules(q.config)
	q.newMaker()
}

// clock stands still while the queue is away or its disk takes nothing, and starts an
// hour in: a mark of 0 means never.
func (q *queue) clock() taskqueue.Instant {
	at := q.now()
	if q.away || q.stuck() {
		at = q.gone
	}
	return taskqueue.Instant(time.Hour + at - q.stood)
}

// wall is what the clock on the wall of the queue's machine says.
func (q *queue) wall() time.Time { return q.net.Now().Add(q.skew) }

// works tells whether the queue does what nobody calls it for.
func (q *queue) works() bool { return !q.away && !q.stuck() }

// stuck tells whether the disk takes nothing.
func (q *queue) stuck() bool { return q.disk.full || q.disk.sick }

// diskFails has the disk be full, or not sync, or neither.
func (q *queue) diskFails(full, sick bool) {
	before := q.stuck()
	q.disk.full, q.disk.sick = full, sick
	switch {
	case q.away || before == q.stuck():
	case before:
		q.note("the queue's disk takes commits again")
		q.stood += q.now() - q.gone
	default:
		q.note("the queue's disk takes no commits: full %v", full)
		q.gone = q.now()
	}
}

// update applies rules in one transaction and wakes whom it concerns.
func (q *queue) update(change func(*taskqueue.Turn) error) error {
	if q.away {
		return errPower // it went away in the midst of what it did
	}
	var effects taskqueue.Effects
	err := q.store.Update(context.Background(), func(tx taskqueue.Tx) error {
		effects = taskqueue.Effects{}
		return change(&taskqueue.Turn{Tx: tx, Clock: q.clock(), Wall: q.wall(), Random: q.random, Effects: &effects})
	})
	if errors.Is(err, errPower) && !q.away {
		q.note("the power of the queue's machine fails at a commit")
		q.stop()
		q.after(time.Second+time.Duration(q.random.Int64N(int64(time.Minute))), q.startAgain)
	}
	if err != nil {
		return err
	}
	q.maker.Changed(&effects)
	if len(effects.Tasks) > 0 || effects.TooMany || effects.WakeAll {
		q.after(0, q.callIn)
	}
	for _, s := range effects.Sites {
		q.note("%s is in mode %s, before %q: %s", s.Site, s.Mode, s.Before, s.Why)
	}
	for _, n := range q.pilots {
		_, site := effects.Wake[string(n.site.name)]
		_, own := effects.Pilots[n.id]
		if q.parked[n.id] != nil && (effects.WakeAll || effects.Modes || site || own) {
			q.after(0, func() { q.wake(n) })
		}
	}
	return nil
}

// must is an update that has to succeed, unless the disk does not let it: false.
func (q *queue) must(change func(*taskqueue.Turn) error) bool {
	err := q.update(change)
	if err != nil && !ofTheDisk(err) {
		q.judge.Fatalf("the queue: %v", err)
	}
	return err == nil
}

// ofTheDisk tells whether the disk, and no rule, has refused a change.
func ofTheDisk(err error) bool {
	return errors.Is(err, errPower) || errors.Is(err, errFull) || errors.Is(err, errSync)
}

// view reads what the queue keeps.
func (q *queue) view(read func(*taskqueue.Turn) error) {
	err := q.store.View(context.Background(), func(tx taskqueue.Tx) error {
		return read(&taskqueue.Turn{Tx: tx, Clock: q.clock(), Wall: q.wall(), Random: q.random, Effects: &taskqueue.Effects{}})
	})
	if err != nil {
		q.judge.Fatalf("look into the queue: %v", err)
	}
}

func (q *queue) workflow(id task.WorkflowID) (found taskqueue.Workflow) {
	q.view(func(t *taskqueue.Turn) error {
		list, err := t.Workflows().Load(id)
		if len(list) > 0 {
			found = list[0]
		}
		return err
	})
	return found
}

func (q *queue) tasks(id task.WorkflowID) (states []taskqueue.TaskState) {
	q.view(func(t *taskqueue.Turn) (err error) {
		states, err = t.Tasks().InWorkflow(id, 0, 1_000_000)
		return err
	})
	return states
}

func (q *queue) attempts(id task.ID) (attempts []taskqueue.Attempt) {
	q.view(func(t *taskqueue.Turn) (err error) {
		attempts, err = t.Attempts().OfTask(id)
		return err
	})
	return attempts
}

func (q *queue) files() (files []taskqueue.FileRecord) {
	q.view(func(t *taskqueue.Turn) (err error) {
		files, err = t.Files().List("", "", 1_000_000)
		return err
	})
	return files
}

func (q *queue) site(name task.Site) (record taskqueue.SiteRecord) {
	q.view(func(t *taskqueue.Turn) error {
		found, err := t.Sites().Load(name)
		record = found[0]
		return err
	})
	return record
}

func (q *queue) pilot(id task.PilotID) (record taskqueue.PilotRecord) {
	q.view(func(t *taskqueue.Turn) error {
		found, err := t.Pilots().Load(id)
		if len(found) > 0 {
			record = found[0]
		}
		return err
	})
	return record
}

func (q *queue) alive(name task.Site) (pilots []task.PilotID) {
	q.view(func(t *taskqueue.Turn) (err error) {
		pilots, err = t.Pilots().IDsOfSite(name, taskqueue.PilotAlive, taskqueue.PilotDraining)
		return err
	})
	return pilots
}

// stop takes the queue away, as SIGKILL and a power cut do; start brings it back
// with what its disk has. Its clock stands still meanwhile, and every call under way
// fails.
func (q *queue) stop() {
	q.note("the queue is away")
	if !q.stuck() {
		q.gone = q.now()
	}
	q.away, q.disk.power = true, noCut
	for _, id := range slices.Sorted(maps.Keys(q.parked)) {
		c := q.parked[id]
		delete(q.parked, id)
		q.fail(c.from, c.number)
	}
	clear(q.told)
	clear(q.broken)
}

func (q *queue) start() {
	q.note("the queue is back")
	q.disk.full, q.disk.sick = false, false
	q.away, q.stood = false, q.stood+q.now()-q.gone
	q.open()
	q.must(func(t *taskqueue.Turn) error { return q.rules.LookAgain(t) })
}

// startAgain brings it back unless somebody else has.
func (q *queue) startAgain() {
	if q.away {
		q.start()
	}
}

// intact tells whether the queue's disk holds what was written, as pilotage taskqueue
// --verify does.
func (q *queue) intact() bool {
	store, err := tables.Open(q.disk, q.disk)
	if err == nil {
		_, err = store.Verify(context.Background())
	}
	return err == nil
}

// backup is a copy of the queue's store and of its clock.
type backup struct {
	disk  *disk
	clock taskqueue.Instant
}

func (q *queue) backup() backup {
	q.note("the queue's store is copied")
	return backup{q.disk.copied(), q.clock()}
}

// restore starts the queue that is away over a copy: it knows nothing of what
// came after it.
func (q *queue) restore(b backup) {
	q.note("it goes on from the copy")
	q.disk = b.disk.copied()
	for _, s := range q.sites {
		s.undone = slices.Clone(s.deleted)
	}
	q.stood += time.Duration(q.clock() - b.clock) // by start the clock goes on as in the copy
	q.start()
}

// tick does what only time brings about, whenever it is due.
func (q *queue) tick() {
	next := q.clock().Add(time.Second)
	if q.works() && q.must(func(t *taskqueue.Turn) error { return q.rules.Tick(t) }) {
		q.view(func(t *taskqueue.Turn) (err error) {
			next, err = q.rules.Deadline(t)
			return err
		})
	}
	q.after(max(next.Sub(q.clock()), 10*time.Millisecond), q.tick)
}

// noteSigns keeps the signs of life of masters whose calls are parked.
func (q *queue) noteSigns() {
	if !q.works() || len(q.parked) == 0 {
		return
	}
	q.must(func(t *taskqueue.Turn) (err error) {
		pulled := make(map[task.Site]bool)
		for _, n := range q.pilots {
			if q.parked[n.id] == nil || !n.reaches() {
				continue
			}
			if name := n.site.name; n.office.Own() && !pulled[name] {
				pulled[name] = true
				err = errors.Join(err, q.rules.HeardPull(t, name, q.maker.Capacity(name)))
			}
			if chief, term := n.member.Overlay.Master(); chief.Peer == n.peer {
				err = errors.Join(err, q.rules.Heard(t, n.site.name, term))
			}
		}
		return err
	})
}

// deleteGarbage deletes losers' copies.
func (q *queue) deleteGarbage() {
	if !q.works() {
		return
	}
	var page, named []task.Replica
	q.view(func(t *taskqueue.Turn) (err error) {
		page, named, err = q.rules.Garbage(t, 100)
		return err
	})
	if len(named) > 0 {
		q.judge.Errorf("the catalogue names what was to be deleted: %v", named)
	}
	tried, failed := named, []task.Replica(nil)
	for _, replica := range page {
		tried = append(tried, replica)
		s := q.element(replica.URL)
		if s == nil || s.down {
			failed = append(failed, replica)
			continue
		}
		q.note("the queue deletes %s", replica.URL)
		delete(s.stored, replica.URL)
		s.deleted = append(s.deleted, replica.URL)
	}
	q.must(func(t *taskqueue.Turn) error {
		if err := t.Files().DropGarbage(tried...); err != nil {
			return err
		}
		if len(failed) == 0 {
			return nil
		}
		return t.Files().AddGarbage(failed...)
	})
}

// tidy looks for what attempts have stored of which nobody has told.
func (q *queue) tidy() {
	if !q.works() {
		return
	}
	var untidy, clean []task.WorkflowID
	q.view(func(t *taskqueue.Turn) (err error) {
		untidy, clean, err = q.rules.Untidy(t, 100)
		return err
	})
	q.must(func(t *taskqueue.Turn) error { return q.rules.Tidied(t, clean...) })
	for _, id := range untidy {
		q.tidyWorkflow(id)
	}
}

func (q *queue) tidyWorkflow(id task.WorkflowID) {
	for after := uint64(0); ; {
		var folders []taskqueue.Folder
		q.view(func(t *taskqueue.Turn) (err error) {
			folders, after, err = q.rules.Untold(t, id, after)
			return err
		})
		for i := range folders {
			s := q.element(folders[i].Element + "/")
			if s.down {
				q.must(func(t *taskqueue.Turn) error { return q.rules.TidyLater(t, id) })
				return
			}
			folders[i].Found = s.list(folders[i].Element + "/" + folders[i].Name + "/")
		}
		q.must(func(t *taskqueue.Turn) error {
			n, err := q.rules.Tidy(t, folders)
			if n > 0 {
				q.note("%d attempts have left copies of which nobody has told", n)
			}
			return err
		})
		if after == 0 {
			q.must(func(t *taskqueue.Turn) error { return q.rules.Tidied(t, id) })
			return
		}
	}
}

// list is what is in a folder of a storage element.
func (s *site) list(folder string) (names []string) {
	for url := range s.stored { // in any order: sorted below
		if below, ok := strings.CutPrefix(url, folder); ok {
			member, _, isFolder := strings.Cut(below, "/")
			if isFolder {
				member += "/"
			}
			names = append(names, member)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// lookAtStorage looks for what the last pilots of sites may have stored without a
// word.
func (q *queue) lookAtStorage() {
	if !q.works() {
		return
	}
	var vacants []taskqueue.Vacant
	q.view(func(t *taskqueue.Turn) (err error) {
		vacants, err = q.rules.Vacants(t)
		return err
	})
	for _, v := range vacants {
		var found []task.Stored
		var missing []task.File
		for _, f := range v.Files {
			url := storageURL(v.Element, f.Producer, f.LFN)
			switch s := q.element(url); {
			case s.down:
			case s.gives(url, f.Digest):
				found = append(found, task.Stored{LFN: f.LFN, Attempt: f.Producer, URL: url, Size: f.Size, Digest: f.Digest})
			default:
				missing = append(missing, f)
			}
		}
		if len(found)+len(missing) > 0 {
			q.note("the queue has looked at the storage of %s: %d files found, %d missing", v.Site, len(found), len(missing))
			q.must(func(t *taskqueue.Turn) error { return q.rules.Looked(t, v.Site, found, missing) })
		}
	}
}

// claim answers a pilot that wants the office.
func (w *world) claim(_ time.Time, member *memnet.Node, c dht.Claim) dht.ClaimAnswer {
	n, q := w.peers[member.Member.Peer], w.queue
	lost, lostReply := q.losesNext()
	if !n.reaches() || lost {
		return dht.ClaimAnswer{}
	}
	q.calls++
	q.noteSigns()
	var result taskqueue.ClaimResult
	err := q.update(func(t *taskqueue.Turn) (err error) {
		result, err = q.rules.Claim(t, taskqueue.Claim{
			Site: n.site.name, Pilot: n.id, Expected: c.Expected, Resigned: c.Resigned, Ballot: c.Ballot, BrokenOff: q.broken[n.site.name],
		})
		return err
	})
	if err != nil {
		w.note("%s: the claim fails: %v", n.id, err)
		n.refused(err)
		return dht.ClaimAnswer{}
	}
	if lostReply || n.deaf {
		w.note("%s does not hear the answer to its claim: granted %v", n.id, result.Granted)
		return dht.ClaimAnswer{}
	}
	w.after(callTime, func() { n.takeSettings(result.Settings) })
	if result.Granted {
		delete(q.broken, n.site.name)
		n.claimed = &result
	} else {
		n.claimRefused()
	}
	answer := dht.ClaimAnswer{Reached: true, Granted: result.Granted, Term: result.Term, Master: n.site.member(result.Master)}
	for _, c := range result.Pilots {
		answer.Members = append(answer.Members, n.site.member(c))
	}
	return answer
}

func (s *site) member(c taskqueue.Contact) dht.Member {
	return dht.Member{Peer: c.Peer, Pilot: c.Pilot, Addresses: c.Addresses, DataURL: c.DataURL}
}

// sync carries a master's call to the queue.
func (q *queue) sync(from *node, c master.CallSync) {
	request := taskpb.Sync(c.Sync)
	q.carry(from, c.N, proto.Size(request), c.Sync.Hold, bringsNews(&c.Sync), func() (answer master.SyncAnswered, news bool, standing any, err error) {
		told, err := taskpb.FromSync(overWire(q, request, &pb.SyncRequest{}), from.id)
		if err != nil {
			return answer, false, nil, err
		}
		var reply task.SyncReply
		err = q.update(func(t *taskqueue.Turn) (err error) {
			reply, err = q.rules.Sync(t, told)
			return err
		})
		if err != nil {
			return answer, false, nil, err
		}
		delete(q.broken, from.site.name)
		answer.Reply, err = taskpb.FromSyncReply(overWire(q, taskpb.SyncReply(reply), &pb.SyncResponse{}))
		return answer, len(reply.Leases)+len(reply.Acks) > 0, standingOf(reply), err
	})
}

// overWire sends a message through its form on the wire.
func overWire[M proto.Message](q *queue, sent proto.Message, received M) M {
	data, err := proto.Marshal(sent)
	if err == nil {
		err = proto.Unmarshal(data, received)
	}
	if err != nil {
		q.judge.Fatalf("%T: %v", sent, err)
	}
	return received
}

// losesNext tells whether the next call is lost, or its answer.
func (q *queue) losesNext() (call, reply bool) {
	call, reply = q.loseCall > 0, q.loseReply > 0
	if call {
		q.loseCall--
		return true, false
	}
	if reply {
		q.loseReply--
	}
	return false, reply
}

// carry brings a call to the queue and parks it there while there is no news.
func (q *queue) carry(from *node, number uint64, size int, hold time.Duration, brings bool, serve func() (master.SyncAnswered, bool, any, error)) {
	lost, lostReply := q.losesNext()
	if q.delayCall > 0 {
		q.delayCall--
		q.carryLate(from, number, serve)
		return
	}
	q.after(callTime, func() {
		if !from.alive {
			return
		}
		if !from.reaches() || lost {
			q.fail(from, number)
			return
		}
		q.calls++
		q.callBytes += size
		from.calls.count(q.now(), from)
		if before := q.parked[from.id]; before != nil { // a newer one ends it
			delete(q.parked, from.id)
			q.answer(before, master.SyncAnswered{})
		}
		c := &call{from: from, number: number, serve: serve}
		answer, news, standing, err := serve()
		if q.doubles > 0 && !q.away {
			q.doubles--
			q.note("the call of %s is carried out twice", from.id)
			answer, news, standing, err = serve()
		}
		switch {
		case q.away: // the power has failed
			q.fail(from, number)
		case lostReply || from.deaf:
			q.note("the answer to %s is lost", from.id)
			q.fail(from, number)
		case err != nil:
			q.refuse(c, err)
		case brings || news || hold <= 0 || !reflect.DeepEqual(q.told[from.id], standing):
			q.told[from.id] = standing
			q.answer(c, answer)
		default:
			q.parked[from.id] = c
			q.after(hold, func() {
				if q.parked[from.id] == c {
					delete(q.parked, from.id)
					q.answer(c, answer)
				}
			})
		}
	})
}

// carryLate carries a call out when its caller has given up, as a queue does that stood
// still with the call in its hands. Newer calls come before it.
func (q *queue) carryLate(from *node, number uint64, serve func() (master.SyncAnswered, bool, any, error)) {
	q.fail(from, number)
	q.after(callFailure+time.Duration(q.random.Int64N(int64(time.Minute))), func() {
		if q.away {
			return
		}
		_, _, _, err := serve()
		q.note("a call of %s that it gave up long ago is carried out: %v", from.id, err)
	})
}

// wake looks again for a pilot whose call is parked.
func (q *queue) wake(n *node) {
	c := q.parked[n.id]
	if c == nil || !n.alive || q.away {
		return
	}
	answer, news, standing, err := c.serve()
	if err == nil && !news && reflect.DeepEqual(q.told[n.id], standing) {
		return
	}
	delete(q.parked, n.id)
	switch {
	case q.away: // the power has failed
		q.fail(c.from, c.number)
		return
	case err != nil:
		q.refuse(c, err)
		return
	}
	q.told[n.id] = standing
	q.answer(c, answer)
}

func (q *queue) answer(c *call, answer master.SyncAnswered) {
	answer.N = c.number
	q.after(callTime+q.lag, func() {
		if !c.from.reaches() || c.from.deaf {
			q.fail(c.from, c.number)
			return
		}
		if answer.Reply.Settings.Site != "" {
			c.from.takeSettings(answer.Reply.Settings)
		}
		c.from.stepMaster(answer)
	})
}

func (q *queue) refuse(c *call, err error) {
	var stale *taskqueue.StaleTermError
	answer := master.SyncAnswered{Err: err.Error(), Stale: errors.As(err, &stale)}
	if !answer.Stale {
		q.note("the queue refuses the call of %s: %v", c.from.id, err)
		c.from.refused(err)
	}
	q.answer(c, answer)
}

// fail ends a call that nobody answers.
func (q *queue) fail(from *node, number uint64) {
	q.after(callFailure, func() { from.stepMaster(master.SyncAnswered{N: number, Err: "the queue does not answer"}) })
}

// bringsNews tells whether a call is answered at once.
func bringsNews(s *task.Sync) bool {
	return len(s.Outcomes)+len(s.Starts)+len(s.Returns)+len(s.Stored)+len(s.Lost)+len(s.Departed)+
		len(s.Refused)+len(s.Confirmed)+len(s.Report.SEReads) > 0
}

// standingOf is what a reply says of the state of things.
func standingOf(reply task.SyncReply) task.SyncReply {
	reply.Leases, reply.Acks, reply.ReportSeq = nil, nil, 0
	return reply
}

// deliver takes outcomes of a pilot without a master.
func (q *queue) deliver(n *node, d worker.DeliverToQueue) {
	lost, lostReply := q.losesNext()
	q.after(callTime, func() {
		if !n.alive || !n.reaches() || lost {
			return
		}
		q.calls++
		n.calls.count(q.now(), n)
		request := &pb.DeliverOutcomesRequest{Site: string(n.site.name), Outcomes: taskpb.Outcomes(d.Outcomes), Stored: taskpb.StoredList(d.Stored)}
		q.callBytes += proto.Size(request)
		delivered := worker.DeliveredToQueue{}
		err := q.update(func(t *taskqueue.Turn) (err error) {
			delivered.Acks, err = q.rules.Deliver(t, taskqueue.Delivery{
				Site: n.site.name, Pilot: n.id, Outcomes: slices.Clone(d.Outcomes), Stored: slices.Clone(d.Stored),
			})
			return err
		})
		if err != nil {
			q.note("the queue refuses the delivery of %s: %v", n.id, err)
			n.refused(err)
			return
		}
		if lostReply || n.deaf {
			q.note("the answer to the delivery of %s is lost", n.id)
			return
		}
		for _, s := range d.Stored {
			delivered.Stored = append(delivered.Stored, s.Output())
		}
		q.after(callTime, func() { n.stepWorker(delivered) })
	})
}

func (q *queue) leasesOf(name task.Site) (leases []taskqueue.Lease) {
	q.view(func(t *taskqueue.Turn) (err error) {
		leases, err = t.Leases().OfSite(name)
		return err
	})
	return leases
}
