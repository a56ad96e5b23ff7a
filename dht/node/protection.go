package node

import (
	"sync"

	"github.com/libp2p/go-libp2p/core/connmgr"
	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/pilotage-grid/pilotage/dht"
	"github.com/pilotage-grid/pilotage/task"
)

// Tags under which connections are protected from trimming.
const (
	masterTag  = "pilotage-master"
	workerTag  = "pilotage-worker"
	laneTag    = "pilotage-lane"    // something was sent lately
	inboundTag = "pilotage-inbound" // the other end has a stream open, one for each channel
)

// protection keeps connections from being trimmed that are in use: between master and
// workers, and wherever one end has sent something lately. All others may end at any time,
// and that says nothing of the peer. Safe for concurrent use.
type protection struct {
	manager connmgr.ConnManager

	mutex   sync.Mutex
	master  peer.ID
	workers map[peer.ID]bool // of this master
}

// relied tells whether this pilot is to hear at once when its connection to a peer breaks.
func (p *protection) relied(id peer.ID) bool {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return id == p.master || p.workers[id]
}

// masterChanged keeps the connection to the master, and when this pilot is master no
// longer, lets go of its workers.
func (p *protection) masterChanged(a dht.MasterChanged) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.master != "" {
		p.manager.Unprotect(p.master, masterTag)
		p.master = ""
	}
	if a.Self {
		return
	}
	for worker := range p.workers {
		p.manager.Unprotect(worker, workerTag)
	}
	clear(p.workers)
	if id, err := peer.Decode(string(a.Master.Peer)); err == nil {
		p.master = id
		p.manager.Protect(id, masterTag)
	}
}

// worker keeps, or no longer keeps, a worker's connection at the master.
func (p *protection) worker(worker task.PeerID, wanted bool) {
	id, err := peer.Decode(string(worker))
	if err != nil {
		return
	}
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if wanted {
		p.workers[id] = true
		p.manager.Protect(id, workerTag)
	} else {
		delete(p.workers, id)
		p.manager.Unprotect(id, workerTag)
	}
}
