package world

import (
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/pilotage-grid/pilotage/matcher"
	"github.com/pilotage-grid/pilotage/pilot/master"
	"github.com/pilotage-grid/pilotage/pilot/worker"
	pb "github.com/pilotage-grid/pilotage/proto/pilotage/v1"
	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/task/taskpb"
	"github.com/pilotage-grid/pilotage/taskqueue"
	"github.com/pilotage-grid/pilotage/taskqueue/matchmaker"
)

// What the queue does for sites at which it matches tasks, as the product's
// server does around the same matchmaker.

// newMaker forgets what a queue that ends had in memory only.
func (q *queue) newMaker() {
	q.maker = matchmaker.New(&q.config, matcher.NewCompiler(64))
}

// pull carries the call to the queue of a pilot that is its own master.
func (q *queue) pull(from *node, c master.CallPull) {
	request := taskpb.Pull(c.Pull)
	var told *task.Pull // once it has arrived
	var capacity task.Capacity
	q.carry(from, c.N, proto.Size(request), c.Pull.Hold, bringsNews(&c.Pull.Sync), func() (answer master.SyncAnswered, news bool, standing any, err error) {
		if told == nil {
			pulled, err := taskpb.FromPull(overWire(q, request, &pb.PullRequest{}), from.id)
			if err != nil {
				return answer, false, nil, err
			}
			told = &pulled
			capacity = q.maker.Hear(q.clock(), told)
		}
		reply, err := q.serve(told, capacity)
		if err != nil {
			return answer, false, nil, err
		}
		decoded, err := taskpb.FromPullReply(overWire(q, taskpb.PullReply(reply), &pb.PullResponse{}))
		answer.Reply, answer.CacheVersion = decoded.SyncReply, decoded.CacheVersion
		return answer, len(reply.Leases)+len(reply.Acks) > 0 || reply.CacheVersion != told.Cache.Version, standingOf(reply.SyncReply), err
	})
}

// serve takes the news of a Pull, then matches and leases tasks.
func (q *queue) serve(in *task.Pull, capacity task.Capacity) (task.PullReply, error) {
	var pulled taskqueue.Pulled
	err := q.update(func(t *taskqueue.Turn) (err error) {
		pulled, err = q.rules.Pull(t, in, capacity)
		return err
	})
	if err != nil {
		return task.PullReply{}, err
	}
	q.maker.Describe(q.clock(), &pulled, in.Self)
	for pulled.MayTake() {
		q.refresh(in.Site)
		matched := q.maker.Match(q.clock(), in.Site, in.Pilot, pulled.Unseen)
		if len(matched) == 0 {
			break
		}
		var lease task.Lease
		err := q.update(func(t *taskqueue.Turn) (err error) {
			lease, err = q.rules.Grant(t, in.Site, in.Pilot, matched)
			return err
		})
		if err != nil {
			return task.PullReply{}, err
		}
		q.maker.Granted(in.Site, in.Pilot, matched, &lease)
		if len(lease.Tasks) > 0 {
			pulled.Reply.Leases = append(pulled.Reply.Leases, lease)
			break
		}
	}
	return pulled.Reply, nil
}

func (q *queue) refresh(site task.Site) {
	if q.maker.Stale(q.clock(), site) {
		q.view(func(t *taskqueue.Turn) error { return q.maker.Refresh(t, site) })
	}
}

func (q *queue) waits(id task.PilotID) bool { return q.parked[id] != nil }

// callIn wakes pilots for tasks that have come up.
func (q *queue) callIn() {
	for _, site := range q.maker.Sites() {
		q.refresh(site)
		for _, id := range q.maker.CallIn(site, q.waits) {
			if n := q.named(id); n != nil {
				q.wake(n)
			}
		}
	}
}

func (q *queue) named(id task.PilotID) *node {
	i := slices.IndexFunc(q.pilots, func(n *node) bool { return n.id == id })
	if i < 0 {
		return nil
	}
	return q.pilots[i]
}

// lookAfter does for sites without a master in office what one would do.
func (q *queue) lookAfter() {
	if !q.works() {
		return
	}
	var live, storing []task.Site
	for _, s := range q.sites {
		record := q.site(s.name)
		q.view(func(t *taskqueue.Turn) error {
			if q.rules.Live(t, &record) {
				live = append(live, s.name)
				if record.SE != "" {
					storing = append(storing, s.name)
				}
			}
			return nil
		})
		if record.InForce().Central() {
			q.lookAfterSite(&record)
		} else {
			q.maker.Close(s.name)
		}
	}
	q.maker.Share(live, storing)
	q.callIn()
}

func (q *queue) lookAfterSite(site *taskqueue.SiteRecord) {
	now, name := q.clock(), site.Name
	var pilots []taskqueue.PilotRecord
	var unsafe []task.File
	q.view(func(t *taskqueue.Turn) (err error) {
		if pilots, err = t.Pilots().OfSite(name, taskqueue.PilotAlive, taskqueue.PilotDraining); err == nil {
			unsafe, err = q.rules.Unguarded(t, name)
		}
		return err
	})
	care, ask := q.maker.Tend(now, site, pilots, unsafe, q.waits)
	for _, id := range care.Silent {
		q.note("%s is silent", id)
	}
	if !care.Empty() {
		q.must(func(t *taskqueue.Turn) error { return q.rules.Tend(t, name, &care) })
	}
	for _, id := range ask {
		if n := q.named(id); n != nil {
			q.wake(n)
		}
	}
}

// What a pilot does with the mode of its site, as pilot/agent does.

const (
	cutOffAfter = 20 * time.Second // of refused claims, until the queue is told
	trialLead   = 2 * time.Second
	trialSpread = 8 * time.Second
	trialPeers  = 8
	// ownSettling is how long a pilot that leaves may take to tell the queue all.
	ownSettling = 2 * time.Second
)

func (n *node) isolated() bool { return n.settings.Mode == task.ModeIsolated }

func (n *node) leads() bool { return n.master.InOffice() && !n.office.Own() }

// takeSettings takes the settings of the site from the queue.
func (n *node) takeSettings(settings task.SiteSettings) {
	n.word.QueueSaid(n.net.Now())
	n.adopt(settings)
}

// adopt takes the settings of the site from the queue or from a master.
func (n *node) adopt(settings task.SiteSettings) {
	if n.settings == settings || !n.alive {
		return
	}
	before := n.settings
	n.settings = settings
	n.stepWorker(worker.SiteChanged{Settings: settings})
	if before.Mode != settings.Mode {
		n.note("%s is in mode %s", n.id, settings.Mode)
	}
	leads := n.leads()
	n.post(n.office.Mode(settings.Mode))
	n.heedTrial(settings.Trial)
	if leads {
		for _, m := range n.member.Overlay.Members() {
			n.tellSettings(m.Peer)
			n.briefed[m.Peer] = true
		}
	}
}

func (n *node) brief(to task.PeerID) {
	if !n.briefed[to] && n.leads() && !n.master.Provisional() {
		n.briefed[to] = true
		n.tellSettings(to)
	}
}

func (n *node) tellSettings(to task.PeerID) {
	if to != n.peer {
		data, err := proto.Marshal(taskpb.Settings(n.settings))
		if err != nil {
			n.judge.Fatalf("settings: %v", err)
		}
		n.send(to, frameSettings, data)
	}
}

func (n *node) hearSettings(from task.PeerID, data []byte) {
	if chief, _ := n.member.Overlay.Master(); chief.Peer != from || n.office.Own() {
		return
	}
	var in pb.SiteSettings
	if err := proto.Unmarshal(data, &in); err != nil {
		n.judge.Fatalf("settings: %v", err)
	}
	settings := taskpb.FromSettings(&in)
	if n.word.TakesMasters(n.net.Now(), n.settings, settings) {
		n.adopt(settings)
	}
}

// claimRefused notices that the master in office is not heard here for long.
func (n *node) claimRefused() {
	now := n.now()
	if now-n.refusedLast > cutOffAfter {
		n.refusedSince = now
	}
	n.refusedLast = now
	if n.isolated() || now-n.refusedSince < cutOffAfter || now < n.quiet {
		return
	}
	n.quiet = now + time.Minute
	n.tellUnreachable()
}

func (n *node) tellUnreachable() {
	var settings task.SiteSettings
	err := n.queue.update(func(t *taskqueue.Turn) (err error) {
		settings, err = n.queue.rules.Unreachable(t, taskqueue.Unreachable{Site: n.site.name, Pilot: n.id, Reason: "it hears no master"})
		return err
	})
	n.note("%s is cut off from the others: mode %s, %v", n.id, settings.Mode, err)
	if err == nil {
		n.after(callTime, func() { n.takeSettings(settings) })
	}
}

// heedTrial answers a trial; whom the network parts do not reach each other.
func (n *node) heedTrial(trial uint64) {
	if trial == 0 || trial == n.tried {
		return
	}
	n.tried = trial
	n.after(trialLead+time.Duration(n.random.Int64N(int64(trialSpread))), func() {
		if !n.reaches() {
			return
		}
		var peers []taskqueue.Contact
		n.queue.must(func(t *taskqueue.Turn) (err error) {
			peers, err = n.queue.rules.Peers(t, n.id)
			return err
		})
		good, bad := 0, 0
		for _, contact := range peers[:min(len(peers), trialPeers)] {
			if peer := n.peers[contact.Peer]; peer.alive && n.net.Part(peer.member) == n.net.Part(n.member) {
				good++
			} else {
				bad++
			}
		}
		if good+bad == 0 {
			return
		}
		n.queue.calls++
		var settings task.SiteSettings
		err := n.queue.update(func(t *taskqueue.Turn) (err error) {
			settings, err = n.queue.rules.Tried(t, taskqueue.Tried{
				Site: n.site.name, Pilot: n.id, Trial: trial, Reached: good > bad, Reason: "they do not answer",
			})
			return err
		})
		n.note("%s reaches %d of %d others: mode %s, %v", n.id, good, good+bad, settings.Mode, err)
		if err == nil {
			n.after(callTime, func() { n.takeSettings(settings) })
		}
	})
}

// callPull asks the queue for this pilot alone.
func (n *node) callPull(a master.CallPull) {
	a.Pull.Site = n.site.name
	a.Pull.Self.Arch, a.Pull.Self.OS, a.Pull.Self.Lifetime = "amd64", "linux", 30*24*time.Hour
	if chief, term := n.member.Overlay.Master(); chief.Peer == n.peer {
		a.Pull.Term = term
	}
	n.queue.pull(n, a)
}

// ownCache tells the master what came into the cache of this pilot and what left.
func (n *node) ownCache(keys []task.FileKey) {
	var change master.OwnCache
	for _, key := range keys {
		if n.holds(key) {
			change.Added = append(change.Added, key)
		} else {
			change.Removed = append(change.Removed, key)
		}
	}
	n.stepMaster(change)
}

// setMode sets a site's mode as an operator does.
func (s *site) setMode(mode taskqueue.Mode) {
	s.note("an operator sets mode %s", mode)
	record := s.queue.site(s.name)
	record.Mode, record.Fallback = mode, ""
	if mode != taskqueue.ModeDistributed {
		record.Replicate = "" // which only a master carries out
	}
	s.queue.must(func(t *taskqueue.Turn) error {
		_, err := s.queue.rules.AddSite(t, record)
		return err
	})
}
