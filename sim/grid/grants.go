package grid

import (
	"github.com/pilotage-grid/pilotage/cache"
)

// grants are the homes of all files of a site. In the product each file has its
// own; they share no state between files, so one does for all here.
type grants struct {
	site   *site
	core   *cache.Grants
	wakeup wakeup
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
	w.arm(&g.wakeup, g.core.Deadline(), func() { g.step(cache.Tick{}) })
}
