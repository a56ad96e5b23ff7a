package matcher

import (
	"errors"
	"fmt"
	"math"
)

// DelayRule lets a task wait for a node that has its inputs (000, section
// IV-B and Algorithm 1).
type DelayRule struct {
	// LocalThreshold is lShold: a node is local to a task if its score, load
	// included, is smaller.
	LocalThreshold float64
	// WaitLimit is wLimit: how many dispatch passes a task lets go by in which
	// it could have had a free node that is not local.
	WaitLimit int
}

// ErrThreshold tells that a local threshold does not separate nodes.
var ErrThreshold = errors.New("the local threshold does not tell local nodes from remote ones")

// Check tells whether the threshold separates a node that has all inputs and
// is fully loaded, score 1-beta, from one that has none and is idle, score
// beta. It wraps ErrThreshold if not. Without waiting (WaitLimit 0) and
// without locality in the score (beta 0) there is nothing to separate.
func (r DelayRule) Check(beta float64) error {
	switch {
	case r.WaitLimit < 0:
		return fmt.Errorf("wait limit is %d: give the number of dispatch passes, 0 for none", r.WaitLimit)
	case r.WaitLimit == 0 || beta == 0:
		return nil
	case beta <= 0.5:
		return fmt.Errorf("%w at any value while beta is %g: with beta above 0.5 locality outweighs load", ErrThreshold, beta)
	case !(r.LocalThreshold > 1-beta && r.LocalThreshold <= beta):
		return fmt.Errorf("%w: it is %g, with beta %g give more than %g and at most %g", ErrThreshold, r.LocalThreshold, beta, 1-beta, beta)
	}
	return nil
}

// NodeScore is a node as the rule sees it.
type NodeScore struct {
	Score float64
	Free  bool // could take the task now
}

// DelayVerdict is what becomes of a task in a pass.
type DelayVerdict uint8

// The verdicts: take the node, wait for a local one, or no node is free.
const (
	NoFreeNode DelayVerdict = iota
	Dispatch
	Wait
)

// Choose is Algorithm 1 of 000: the free node with the smallest score, unless
// it is not local, a busy node is, and the task has waited fewer passes than
// the limit. Where no node at all is local it never waits. Equal scores go to
// the first node.
func (r DelayRule) Choose(nodes []NodeScore, waited int) (node int, verdict DelayVerdict) {
	node, least, busyLocal := -1, math.Inf(1), false
	for i, n := range nodes {
		switch {
		case !n.Free:
			busyLocal = busyLocal || n.Score < r.LocalThreshold
		case node < 0 || n.Score < least:
			node, least = i, n.Score
		}
	}
	switch {
	case node < 0:
		return node, NoFreeNode
	case least < r.LocalThreshold || !busyLocal || waited >= r.WaitLimit:
		return node, Dispatch
	}
	return node, Wait
}
