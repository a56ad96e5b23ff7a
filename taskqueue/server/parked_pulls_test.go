package server

import (
	"maps"
	"slices"
	"testing"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

func TestPilotsOfSitesThatAreNotMatchedForAreForgotten(t *testing.T) {
	config := taskqueue.DefaultConfig()
	p := newPulls(&config)
	call := func(site task.Site, pilot task.PilotID) *pullTicket {
		ticket, _ := p.arrive(0, &task.Pull{Sync: task.Sync{Site: site, Pilot: pilot}})
		return ticket
	}
	p.leave("stays", call("central", "stays"))
	p.leave("went", call("removed", "went"))
	under := call("removed", "calls")
	want := func(sites []task.Site, pilots ...task.PilotID) {
		t.Helper()
		p.keepOnly(map[task.Site]bool{"central": true, "removed": false})
		if got := p.maker.Sites(); !slices.Equal(got, sites) {
			t.Errorf("sites %v are known, want %v", got, sites)
		}
		if got := slices.Sorted(maps.Keys(p.guests)); !slices.Equal(got, pilots) {
			t.Errorf("pilots %v are known, want %v", got, pilots)
		}
	}
	want([]task.Site{"central"}, "calls", "stays")
	p.leave("calls", under)
	want([]task.Site{"central"}, "stays")
}
