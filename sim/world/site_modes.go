package world

import (
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/pilotage-grid/pilotage/pilot/master"
	"github.com/pilotage-grid/pilotage/pilot/worker"
	pb "github.com/pilotage-grid/pilotage/proto/pilotage/v1"
	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/task/taskpb"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

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
	var in pb.SiteSettings
	if err := proto.Unmarshal(data, &in); err != nil {
		n.judge.Fatalf("settings: %v", err)
	}
	n.masterSaid(from, taskpb.FromSettings(&in))
}

func (n *node) masterSaid(from task.PeerID, settings task.SiteSettings) {
	if chief, _ := n.member.Overlay.Master(); chief.Peer != from || n.office.Own() {
		return
	}
	if wait := n.word.MasterSaid(n.net.Now(), n.settings, settings); wait > 0 {
		n.after(wait, func() {
			if n.word.StillSaid(settings) {
				n.masterSaid(from, settings)
			}
		})
		return
	}
	n.adopt(settings)
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
