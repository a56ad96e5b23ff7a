package agent

import (
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/pilotage-grid/pilotage/pilot/worker"
	pb "github.com/pilotage-grid/pilotage/proto/pilotage/v1"
	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/task/taskpb"
)

func (a *Agent) siteSettings() task.SiteSettings {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.settings
}

// takeSettings takes the site's settings from the queue, or from a master that
// has them from there. A master passes changes on to its members. Answers can
// overtake one another: one that was asked for before those in force came may be
// older than they are, and does not change them; the next one tells.
func (a *Agent) takeSettings(asked time.Time, settings task.SiteSettings) {
	if settings.Site == "" {
		return
	}
	a.mu.Lock()
	before := a.settings
	if before != settings {
		if asked.Before(a.settingsCame) {
			a.mu.Unlock()
			return
		}
		a.settings, a.settingsCame = settings, time.Now()
	}
	a.mu.Unlock()
	a.mailbox.post(func() {
		a.stepWorker(worker.SiteChanged{Settings: settings})
		leads := a.leads()
		a.setMode(before.Mode, settings.Mode)
		a.heedTrial(settings.Trial)
		if !leads || before == settings {
			return
		}
		for _, m := range a.node.Members() {
			a.tellSettings(m.Peer)
			a.briefed[m.Peer] = true
		}
	})
}

// leads tells whether this pilot is the master of others.
func (a *Agent) leads() bool { return a.master.InOffice() && !a.office.Own() }

// brief tells a member the settings when it speaks with this master for the
// first time: they may have changed since it registered, or the master before
// may have known others. One that the queue has not confirmed in office does
// not know better than its members.
func (a *Agent) brief(to task.PeerID) {
	if a.briefed[to] || !a.leads() || a.master.Provisional() {
		return
	}
	a.briefed[to] = true
	a.tellSettings(to)
}

// tellSettings tells another pilot the settings of the site.
func (a *Agent) tellSettings(to task.PeerID) {
	if to == a.peer {
		return
	}
	data, err := encodeSettings(a.siteSettings())
	if err != nil {
		a.log.Error("the settings of the site cannot be told", "error", err)
		return
	}
	a.node.Send(to, frame(frameSettings, data))
}

// hearSettings takes the overlay master's word on the site's settings. A pilot
// that works for itself has them from the queue.
func (a *Agent) hearSettings(from task.PeerID, data []byte) {
	if master, _ := a.node.Master(); master.Peer != from || a.office.Own() {
		return
	}
	settings, err := decodeSettings(a.site, data)
	if err != nil {
		a.log.Warn("the settings of the site cannot be read", "from", from, "error", err)
		return
	}
	if settings != a.siteSettings() {
		a.takeSettings(time.Now(), settings)
	}
}

func encodeSettings(settings task.SiteSettings) ([]byte, error) {
	data, err := proto.Marshal(taskpb.Settings(settings))
	if err != nil {
		return nil, fmt.Errorf("encode the settings of site %s: %w", settings.Site, err)
	}
	return data, nil
}

// decodeSettings reads the settings of a site; those of another are an error.
func decodeSettings(site task.Site, data []byte) (task.SiteSettings, error) {
	var in pb.SiteSettings
	if err := proto.Unmarshal(data, &in); err != nil {
		return task.SiteSettings{}, fmt.Errorf("decode the settings of site %s: %w", site, err)
	}
	settings := taskpb.FromSettings(&in)
	if settings.Site != site || settings.Mode == "" {
		return task.SiteSettings{}, fmt.Errorf("settings of site %q in mode %q: those of site %s were to come", settings.Site, settings.Mode, site)
	}
	return settings, nil
}
