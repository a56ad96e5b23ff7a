package grid

import (
	"time"

	"github.com/pilotage-grid/pilotage/cache"
	"github.com/pilotage-grid/pilotage/sim"
)

// grants are the homes of all files of a site. In the product each file has its
// own; they share no state between files, so one does for all here.
type grants struct {
	site   *site
	core   *cache.Grants
	wakeup *sim.Event
}

func newGrants(s *site) *grants { return &grants{site: s, core: cache.NewGrants(cache.GrantsConfig{})} }

// tell brings a pilot's word to the home.
func (g *grants) tell(event cache.GrantEvent) {
	g.site.timeline.After(g.site.Latency, func() { g.step(event) })
}

func (g *grants) step(event cache.GrantEvent) {
	w := g.site.world
	for _, action := range g.core.Step(w.now(), event) {
		answer, ok := action.(cache.Answer)
		if !ok {
			continue
		}
		n := w.peers[answer.To]
		w.timeline.After(g.site.Latency, func() {
			n.fetcher.step(cache.HomeAnswered{Ask: answer.Number, Key: answer.Key, Verdict: answer.Verdict, Holders: answer.Holders})
		})
	}
	w.timeline.Cancel(g.wakeup)
	g.wakeup = nil
	if at := g.core.Deadline(); !at.IsZero() {
		g.wakeup = w.timeline.After(max(at.Sub(w.now()), time.Microsecond), func() { g.step(cache.Tick{}) })
	}
}
