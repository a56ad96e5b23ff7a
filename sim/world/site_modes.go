package world

import (
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/pilotage-grid/pilotage/pilot/message"
	"github.com/pilotage-grid/pilotage/pilot/office"
	"github.com/pilotage-grid/pilotage/pilot/worker"
	pb "github.com/pilotage-grid/pilotage/proto/pilotage/v1"
	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/task/taskpb"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

func (n *node) isolated() bool { return n.office.Settings().Mode == task.ModeIsolated }

// stepOffice drives the core of the pilot's office and carries its actions out.
func (n *node) stepOffice(event message.Event) {
	if !n.alive {
		return
	}
	if n.paused {
		n.backlog = append(n.backlog, func() { n.stepOffice(event) })
		return
	}
	site := office.Site{InOffice: n.master.InOffice(), Provisional: n.master.Provisional()}
	for _, action := range n.office.Step(n.clock(), event, site) {
		switch a := action.(type) {
		case office.Adopt:
			if a.Before.Mode != a.Settings.Mode {
				n.note("%s is in mode %s", n.id, a.Settings.Mode)
			}
			n.stepWorker(worker.SiteChanged{Settings: a.Settings})
			if a.Before.Mode == task.ModeIsolated && !n.isolated() {
				n.cacheChanged(n.files.Held())
			}
		case office.Post:
			n.post(a.Posting)
		case office.ToMaster:
			n.stepMaster(a.Event)
		case office.ToWorker:
			n.stepWorker(a.Event)
		case office.TellSettings:
			n.tellSettings(a.To)
		case office.Try:
			n.trials++
			n.after(office.TrialLead+time.Duration(n.random.Int64N(int64(office.TrialSpread))), func() { n.try(a.Trial) })
		case office.TellUnreachable:
			n.tellUnreachable(a.Reason)
		}
	}
	n.arm(n.office.Deadline(), &n.wakeOffice, func() { n.stepOffice(message.Tick{}) })
}

// takeSettings takes settings of the site that the queue was asked for at some time.
func (n *node) takeSettings(asked time.Time, settings task.SiteSettings) {
	n.stepOffice(office.QueueSaid{Asked: asked, Settings: settings})
}

func (n *node) tellSettings(to task.PeerID) {
	data, err := proto.Marshal(taskpb.Settings(n.office.Settings()))
	if err != nil {
		n.judge.Fatalf("settings: %v", err)
	}
	if to != "" {
		n.send(to, frameSettings, data)
		return
	}
	for _, m := range n.member.Overlay.Members() {
		if m.Peer != n.peer {
			n.send(m.Peer, frameSettings, data)
		}
	}
}

func settingsOf(w *world, data []byte) task.SiteSettings {
	var in pb.SiteSettings
	if err := proto.Unmarshal(data, &in); err != nil {
		w.judge.Fatalf("settings: %v", err)
	}
	return taskpb.FromSettings(&in)
}

func (n *node) tellUnreachable(reason string) {
	asked := n.clock()
	var settings task.SiteSettings
	err := n.queue.Update(func(t *taskqueue.Turn) (err error) {
		settings, err = n.queue.Rules.Unreachable(t, taskqueue.Unreachable{Site: n.site.name, Pilot: n.id, Reason: reason})
		return err
	})
	n.note("%s is cut off from the others: mode %s, %v", n.id, settings.Mode, err)
	if err == nil {
		n.after(callTime, func() { n.takeSettings(asked, settings) })
	}
}

// try answers a trial; whom the network parts do not reach each other. A pilot that did
// not hear of its own registration is there for the queue only.
func (n *node) try(trial uint64) {
	if !n.reaches() {
		return
	}
	var peers []taskqueue.Contact
	n.queue.must(func(t *taskqueue.Turn) (err error) {
		peers, err = n.queue.Rules.Peers(t, n.id)
		return err
	})
	good, bad := 0, 0
	for _, contact := range peers[:min(len(peers), office.TrialPeers)] {
		if peer := n.world.peers[contact.Peer]; peer != nil && peer.alive && n.net.Part(peer.member) == n.net.Part(n.member) {
			good++
		} else {
			bad++
		}
	}
	told, reached := office.JudgeTrial(good, bad)
	if !told {
		return
	}
	n.queue.link.calls++
	asked := n.clock()
	var settings task.SiteSettings
	err := n.queue.Update(func(t *taskqueue.Turn) (err error) {
		settings, err = n.queue.Rules.Tried(t, taskqueue.Tried{
			Site: n.site.name, Pilot: n.id, Trial: trial, Reached: reached, Reason: "they do not answer",
		})
		return err
	})
	n.note("%s reaches %d of %d others: mode %s, %v", n.id, good, good+bad, settings.Mode, err)
	if err == nil {
		n.after(callTime, func() { n.takeSettings(asked, settings) })
	}
}

// setMode sets a site's mode as an operator does.
func (s *site) setMode(mode taskqueue.Mode) {
	s.world.note("an operator sets mode %s", mode)
	record := s.world.queue.site(s.name)
	record.Mode, record.Fallback = mode, ""
	if mode != taskqueue.ModeDistributed {
		record.Replicate = "" // which only a master carries out
	}
	s.world.queue.must(func(t *taskqueue.Turn) error {
		_, err := s.world.queue.Rules.AddSite(t, record)
		return err
	})
}
