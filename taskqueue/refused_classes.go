package taskqueue

import (
	"cmp"
	"slices"

	"github.com/pilotage-grid/pilotage/task"
)

// maxRefusals bounds the refused classes that a site's record keeps.
const maxRefusals = 256

// takeRefusals keeps which classes no live pilot of a site can run, and why,
// for explain and so that they are not offered for a while.
func (m *members) takeRefusals(site *SiteRecord, refused []task.Refusal) {
	for _, refusal := range refused {
		site.Refused = slices.DeleteFunc(site.Refused, func(r RefusedClass) bool { return r.Class == refusal.Class })
		site.Refused = append(site.Refused, RefusedClass{
			Class: refusal.Class, Clauses: refusal.Clauses, Pilots: refusal.Pilots, At: m.Clock,
		})
		m.sites.touch(site.Name)
	}
	if over := len(site.Refused) - maxRefusals; over > 0 {
		slices.SortStableFunc(site.Refused, func(x, y RefusedClass) int { return cmp.Compare(x.At, y.At) })
		site.Refused = site.Refused[over:]
	}
}
