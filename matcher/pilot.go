package matcher

import (
	"fmt"
	"time"

	"github.com/pilotage-grid/pilotage/task"
)

// Pilot describes a pilot as requirements and ranks see it.
type Pilot struct {
	ID        task.PilotID
	Site      task.Site
	Host      string
	Resources task.Resources // totals, whether free or in use
	Slots     int
	Features  []string // what the VO or the site says the node has, e.g. "avx2"
	Arch      string   // as Go names it, e.g. "amd64"
	OS        string   // as Go names it, e.g. "linux"
	Load      float64  // load average per CPU, 0 when idle
	Lifetime  time.Duration

	// What changes while it runs, for ranks that balance (004, section II,
	// micro-scheduling).
	CoreSpeed float64 // of one core, in GHz; 0 when not known
	Live

	Walls task.Walls
}

// Live is what payloads make of a pilot. A payload counts from when it is given
// a slot.
type Live struct {
	FreeCores int // not in use by payloads
	CPUBound  int // payloads that say that they are
	IOBound   int
}

// lacking returns the first resource of which the pilot has too little in
// total, as a clause such as "memory 2GiB <= pilot's 1GiB", or "".
func (p *Pilot) lacking(need task.Resources) string {
	resource, found := p.Resources.Lacking(need)
	if !found {
		return ""
	}
	return fmt.Sprintf("%s %s <= pilot's %s", resource.Name, resource.Text(resource.Get(need)), resource.Text(resource.Get(p.Resources)))
}
