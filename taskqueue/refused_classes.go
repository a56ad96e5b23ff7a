package taskqueue

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/pilotage-grid/pilotage/task"
)

// maxRefusals bounds the refused classes that a site's record keeps.
const maxRefusals = 256

// takeRefusals keeps which classes no live pilot of a site can run, and why,
// for explain and so that they are not offered for a while.
func (m *members) takeRefusals(site *SiteRecord, refused []task.Refusal) {
	for _, refusal := range refused {
		if !slices.ContainsFunc(site.Refused, func(r RefusedClass) bool { return r.Class == refusal.Class }) {
			m.Effects.tell(News{Kind: NewsClassRefused, Site: site.Name, Text: refusedText(&refusal)})
		}
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

// refusedText says what no live pilot can run, and which part of it fails most.
func refusedText(r *task.Refusal) string {
	text := fmt.Sprintf("none of %s can run tasks that ask for %s", task.Counted(r.Pilots, "pilot"), r.Class.Resources)
	if r.Class.Require != "" {
		text += " and " + r.Class.Require
	}
	most := task.ClauseCount{}
	for _, c := range r.Clauses {
		if c.Pilots > most.Pilots {
			most = c
		}
	}
	if most.Pilots > 0 {
		text += fmt.Sprintf("; %s does not hold at %d", most.Clause, most.Pilots)
	}
	return task.Brief(text)
}
