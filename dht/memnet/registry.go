package memnet

import (
	"time"

	"github.com/pilotage-grid/pilotage/dht"
	"github.com/pilotage-grid/pilotage/task"
)

// Registry stands for the queue as far as the mastership of a site goes: it
// registers members, hears the masters' Syncs, fences those of an old term
// off, and grants a claim against the term in office when its master resigned,
// was not heard for Silence, or did not come back within BrokenSilence after its
// connection broke (docs/decisions/0009).
type Registry struct {
	// Silence is how long a master may be silent before a claim is granted,
	// BrokenSilence how long one that vanished.
	Silence, BrokenSilence time.Duration
	// Reachable tells which members can talk to the queue; nil: all.
	Reachable func(*Node) bool
	// Granted lists the masters by claim, the first one left out.
	Granted []task.PilotID

	net    *Net
	term   task.Term
	master *Node
	heard  time.Time
	synced bool      // the master was heard in its term
	broken time.Time // when the connection ended by which it was; zero: it stands
}

// NewRegistry gives a network a queue whose masters sync every so often.
func NewRegistry(n *Net, silence, sync time.Duration) *Registry {
	r := &Registry{net: n, Silence: silence, BrokenSilence: 2 * time.Second}
	n.Registry = r
	n.Every(sync, r.hearMasters)
	return r
}

// Office is the master and the term that the queue has in office.
func (r *Registry) Office() (*Node, task.Term) { return r.master, r.term }

func (r *Registry) register(node *Node) (dht.Member, task.Term) {
	alone := true
	for _, other := range r.net.Nodes() {
		alone = alone && other.Closed
	}
	if alone {
		r.crown(node)
	}
	return r.master.Member, r.term
}

func (r *Registry) crown(node *Node) {
	r.term = task.Term{Epoch: r.term.Epoch + 1, Peer: node.Member.Peer}
	r.master, r.heard, r.synced, r.broken = node, r.net.now, false, time.Time{}
}

// Break ends the connection of the master, which dials again with its next Sync.
func (r *Registry) Break() { r.vanished(r.master) }

// vanished hears that a node's connection ended.
func (r *Registry) vanished(node *Node) {
	if node == r.master && r.synced && r.reachable(node) && r.broken.IsZero() {
		r.broken = r.net.now
	}
}

func (r *Registry) reachable(node *Node) bool { return r.Reachable == nil || r.Reachable(node) }

func (r *Registry) reaches(node *Node) bool {
	return node.runs() && r.reachable(node)
}

// hearMasters takes the Syncs of all who take themselves for master.
func (r *Registry) hearMasters() {
	for _, node := range r.net.Nodes() {
		_, term := node.Overlay.Master()
		switch {
		case !node.inOffice() || !r.reaches(node) || term.Ballot > 0:
		case term == r.term:
			r.heard, r.synced, r.broken = r.net.now, true, time.Time{}
		default:
			r.net.Do(node, dht.Fenced{Term: term})
		}
	}
}

func (r *Registry) claim(now time.Time, node *Node, claim dht.Claim) dht.ClaimAnswer {
	if !r.reaches(node) {
		return dht.ClaimAnswer{}
	}
	free := claim.Resigned || now.Sub(r.heard) >= r.Silence || !r.broken.IsZero() && now.Sub(r.broken) >= r.BrokenSilence
	if r.master != node && (claim.Expected != r.term || !free) {
		return dht.ClaimAnswer{Reached: true, Term: r.term, Master: r.master.Member}
	}
	if r.master != node || claim.Ballot > 0 {
		r.crown(node)
		r.Granted = append(r.Granted, node.Member.Pilot)
	}
	return dht.ClaimAnswer{Reached: true, Granted: true, Term: r.term, Master: node.Member}
}
