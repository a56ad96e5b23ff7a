package integration

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"
)

// countTime bounds how long the queue may take to know which pilots live: a
// master that has not met a pilot waits two minutes for it. When there is no
// time for that, the dead may be counted as well.
const countTime = 3 * time.Minute

// judgePilots compares the pilots that run with those that the queue has for living, by
// name: as many are not enough, while a dead one stands for one that lives.
func (n *nemesis) judgePilots() {
	const check = "live pilots are counted right"
	limit := countTime
	if !n.patient {
		limit = 20 * time.Second
	}
	n.findings.look(check, len(n.pilotStations()))
	again := time.NewTicker(time.Second)
	defer again.Stop()
	var wrong census
	for began := time.Now(); ; <-again.C {
		if wrong = n.countedWrong(); wrong.right(n.patient) {
			break
		}
		if time.Since(began) > limit {
			n.findings.add(check, "live and not counted: %v; dead and counted: %v; %s", wrong.missing, wrong.dead, wrong.numbers)
			break
		}
	}
	n.findings.figure("pilots that are dead and counted: %d", len(wrong.dead))
}

// census is in what the queue's lists of pilots are wrong.
type census struct {
	missing, dead []string
	numbers       string // other ones than there are names
}

// right tells whether nothing is wrong; where there is no time for that, the dead may be
// on the lists as well.
func (c census) right(patient bool) bool {
	return len(c.missing) == 0 && c.numbers == "" && (len(c.dead) == 0 || !patient)
}

// take compares who lives at a site with whom the queue lists there and how many it counts.
func (c *census) take(site string, live, listed []string, counted int) {
	for _, pilot := range live {
		if !slices.Contains(listed, pilot) {
			c.missing = append(c.missing, cmp.Or(pilot, "one of "+site+" without a name"))
		}
	}
	for _, pilot := range listed {
		if !slices.Contains(live, pilot) {
			c.dead = append(c.dead, pilot)
		}
	}
	if counted != len(listed) {
		c.numbers += fmt.Sprintf("%s counts %d pilots and lists %d ", site, counted, len(listed))
	}
}

func (n *nemesis) countedWrong() (wrong census) {
	var sites []struct {
		Settings struct{ Name string }
		Pilots   int
	}
	var pilots []struct {
		Contact struct{ Pilot string }
		Site    string
	}
	n.read(&sites, "site", "list")
	n.read(&pilots, "pilot", "list")
	for _, site := range n.sites {
		var live, listed []string
		for _, s := range site.stations {
			live = append(live, s.pilot())
		}
		for _, p := range pilots {
			if p.Site == site.name {
				listed = append(listed, p.Contact.Pilot)
			}
		}
		counted := 0
		for _, l := range sites {
			if l.Settings.Name == site.name {
				counted = l.Pilots
			}
		}
		wrong.take(site.name, live, listed, counted)
	}
	return wrong
}

// A dead pilot that is counted does not stand for a live one that is not.
func TestTheNemesisCountsPilotsByName(t *testing.T) {
	var wrong census
	wrong.take("siteA", []string{"p1", "p2"}, []string{"p1", "p0"}, 2)
	if !slices.Equal(wrong.missing, []string{"p2"}) || !slices.Equal(wrong.dead, []string{"p0"}) || wrong.right(false) {
		t.Errorf("of p1 and p2, where p0 and p1 are listed: %+v", wrong)
	}
	var right census
	if right.take("siteA", []string{"p1", "p2"}, []string{"p2", "p1"}, 2); !right.right(true) {
		t.Errorf("the same names: %+v", right)
	}
	if right.take("siteB", nil, nil, 1); right.right(false) {
		t.Error("a number without a name is right")
	}
}
