package node

import (
	"fmt"
	"sync"

	"github.com/pilotage-grid/pilotage/dht"
	"github.com/pilotage-grid/pilotage/identity"
	"github.com/pilotage-grid/pilotage/task"
)

// grants knows the queue's signature of the highest epoch, and lets nobody in office
// under an epoch that the queue has not granted. It is safe for concurrent use.
type grants struct {
	site     task.Site
	verifier *identity.Verifier

	mutex sync.Mutex
	epoch uint64
	known dht.Grant
	open  bool // the queue signs nothing: it is of the release before
}

// learn takes what the queue itself has told.
func (g *grants) learn(term task.Term, signature []byte) {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	g.open = len(signature) == 0 && g.known.Signature == nil
	if len(signature) > 0 && term.Epoch >= g.epoch && term.Ballot == 0 {
		g.epoch, g.known = term.Epoch, dht.Grant{Peer: term.Peer, Signature: signature}
	}
}

// attach adds the queue's signature to what says who is master.
func (g *grants) attach(message dht.Message) dht.Message {
	switch m := message.(type) {
	case dht.Office:
		m.Grant = g.of(m.Term.Epoch)
		return m
	case dht.Cast:
		m.Grant = g.of(m.Term.Epoch)
		return m
	}
	return message
}

func (g *grants) of(epoch uint64) dht.Grant {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	if epoch != g.epoch {
		return dht.Grant{}
	}
	return g.known
}

// check refuses a message that names an epoch that the queue has not granted, or
// another master than it was granted to. Masters of elections without the queue go by
// the epoch before theirs.
func (g *grants) check(message dht.Message) error {
	switch m := message.(type) {
	case dht.Office:
		return g.judge(m.Term, m.Master, m.Grant)
	case dht.Cast:
		return g.judge(m.Term, m.Master, m.Grant)
	}
	return nil
}

func (g *grants) judge(term task.Term, master dht.Member, grant dht.Grant) error {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	switch {
	case g.open || term.Epoch < g.epoch: // the core goes by the higher one
		return nil
	case master.Peer != term.Peer:
		return fmt.Errorf("term %s with the master %s: %w", term, master.Peer, identity.ErrNotSigned)
	case term.Epoch == g.epoch && (term.Ballot > 0 || term.Peer == g.known.Peer):
		return nil
	case term.Ballot == 0 && grant.Peer != term.Peer:
		return fmt.Errorf("term %s: %w", term, identity.ErrNotSigned)
	}
	granted := task.Term{Epoch: term.Epoch, Peer: grant.Peer}
	if err := g.verifier.VerifyTerm(g.site, granted, grant.Signature); err != nil {
		return err
	}
	g.epoch, g.known = term.Epoch, grant
	return nil
}
