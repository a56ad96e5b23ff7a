package taskqueue

import (
	"slices"
	"time"

	"github.com/pilotage-grid/pilotage/matcher/health"
	"github.com/pilotage-grid/pilotage/task"
)

// NodeRecord is a node that its site's master has set back, kept for the next
// master and shown to people.
type NodeRecord struct {
	task.NodeMark
	Until Instant // when its pause is over
}

// NodeNews tells that a node was set back, or is no more.
type NodeNews struct {
	Site    task.Site
	Node    string
	SetBack bool
	Pause   time.Duration
	Why     string // the last error
}

// maxNodes bounds the nodes that are kept for the next master.
const maxNodes = 64

// takeNodes keeps what a master that judges thinks of the nodes of its site.
func (b *book) takeNodes(site *SiteRecord, s *task.Sync) {
	if !s.Judges {
		return
	}
	marks := s.Nodes[:min(len(s.Nodes), maxNodes)]
	same := func(r NodeRecord, m task.NodeMark) bool {
		return r.Name == m.Name && r.Pauses == m.Pauses && r.Failed == m.Failed
	}
	if slices.EqualFunc(site.Nodes, marks, same) {
		return
	}
	find := func(name string) int {
		return slices.IndexFunc(marks, func(m task.NodeMark) bool { return m.Name == name })
	}
	for _, before := range site.Nodes {
		if find(before.Name) < 0 {
			b.Effects.Nodes = append(b.Effects.Nodes, NodeNews{Site: site.Name, Node: before.Name})
		}
	}
	var nodes []NodeRecord
	for _, m := range marks {
		at := slices.IndexFunc(site.Nodes, func(r NodeRecord) bool { return r.Name == m.Name })
		if at < 0 || site.Nodes[at].Pauses < m.Pauses {
			b.Effects.Nodes = append(b.Effects.Nodes, NodeNews{Site: site.Name, Node: m.Name, SetBack: true, Pause: m.Left, Why: m.Why})
		}
		until := b.Clock.Add(m.Left)
		m.Left = 0
		nodes = append(nodes, NodeRecord{NodeMark: m, Until: until})
	}
	site.Nodes = nodes
	b.sites.touch(site.Name)
}

// nodes tells a new master what its predecessor thought of the nodes, as far as
// that is not long ago.
func (b *book) nodes(site *SiteRecord, s *task.Sync) (marks []task.NodeMark) {
	if s.Judges {
		return nil
	}
	for _, n := range site.Nodes {
		if b.Clock.Sub(n.Until) < health.Memory {
			n.Left = max(0, n.Until.Sub(b.Clock))
			marks = append(marks, n.NodeMark)
		}
	}
	return marks
}
