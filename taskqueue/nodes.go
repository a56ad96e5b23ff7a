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
func (m *members) takeNodes(site *SiteRecord, s *task.Sync) {
	if s.Judges && !site.InForce().Central() {
		m.keepNodes(site, s.Nodes)
	}
}

// keepNodes keeps what a judge thinks of the nodes of a site.
func (m *members) keepNodes(site *SiteRecord, marks []task.NodeMark) {
	marks = marks[:min(len(marks), maxNodes)]
	if site.Thinks(marks) {
		return
	}
	find := func(name string) int {
		return slices.IndexFunc(marks, func(m task.NodeMark) bool { return m.Name == name })
	}
	for _, before := range site.Nodes {
		if find(before.Name) < 0 {
			m.Effects.Nodes = append(m.Effects.Nodes, NodeNews{Site: site.Name, Node: before.Name})
		}
	}
	var nodes []NodeRecord
	for _, mark := range marks {
		at := slices.IndexFunc(site.Nodes, func(r NodeRecord) bool { return r.Name == mark.Name })
		if at < 0 || site.Nodes[at].Pauses < mark.Pauses {
			m.Effects.Nodes = append(m.Effects.Nodes, NodeNews{Site: site.Name, Node: mark.Name, SetBack: true, Pause: mark.Left, Why: mark.Why})
		}
		until := m.Clock.Add(mark.Left)
		mark.Left = 0
		nodes = append(nodes, NodeRecord{NodeMark: mark, Until: until})
	}
	site.Nodes = nodes
	m.sites.touch(site.Name)
}

// Thinks tells whether a site's record says the same of its nodes, as far as they
// are kept.
func (s *SiteRecord) Thinks(marks []task.NodeMark) bool {
	return slices.EqualFunc(s.Nodes, marks[:min(len(marks), maxNodes)], func(r NodeRecord, m task.NodeMark) bool {
		return r.Name == m.Name && r.Pauses == m.Pauses && r.Failed == m.Failed
	})
}

// nodes tells a new master what its predecessor thought of the nodes, as far as
// that is not long ago.
func (m *members) nodes(site *SiteRecord, s *task.Sync) (marks []task.NodeMark) {
	if s.Judges {
		return nil
	}
	return site.Marks(m.Clock)
}

// Marks are what is thought of a site's nodes, as far as that is not long ago.
func (s *SiteRecord) Marks(now Instant) (marks []task.NodeMark) {
	for _, n := range s.Nodes {
		if now.Sub(n.Until) < health.Memory {
			marks = append(marks, n.mark(now))
		}
	}
	return marks
}

func (n NodeRecord) mark(now Instant) task.NodeMark {
	n.Left = max(0, n.Until.Sub(now))
	return n.NodeMark
}

// setBack words why a pilot gets no work where the queue judges nodes; "" is
// that its node is not set back.
func (s *SiteRecord) setBack(now Instant, pilot *PilotRecord) string {
	for _, n := range s.Nodes {
		if n.Name == pilot.Node() && s.InForce().Central() {
			return task.Brief(health.Words(n.mark(now)))
		}
	}
	return ""
}
