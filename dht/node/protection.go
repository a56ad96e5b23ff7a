package node

import (
	"github.com/libp2p/go-libp2p/core/connmgr"
	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/pilotage-grid/pilotage/dht"
	"github.com/pilotage-grid/pilotage/task"
)

// Tags under which connections are protected from trimming.
const (
	masterTag = "pilotage-master"
	workerTag = "pilotage-worker"
)

// protection keeps connections between master and workers from being trimmed. Only the
// loop touches it.
type protection struct {
	manager connmgr.ConnManager
	master  peer.ID
	workers map[task.PeerID]bool // of this master
}

// masterChanged keeps the connection to the master, and when this pilot is master no
// longer, lets go of its workers.
func (p *protection) masterChanged(a dht.MasterChanged) {
	if p.master != "" {
		p.manager.Unprotect(p.master, masterTag)
		p.master = ""
	}
	if a.Self {
		return
	}
	for worker := range p.workers {
		p.worker(worker, false)
	}
	if id, err := peer.Decode(string(a.Master.Peer)); err == nil {
		p.master = id
		p.manager.Protect(id, masterTag)
	}
}

// worker keeps, or no longer keeps, a worker's connection at the master.
func (p *protection) worker(worker task.PeerID, wanted bool) {
	id, err := peer.Decode(string(worker))
	switch {
	case err != nil:
	case wanted:
		p.workers[worker] = true
		p.manager.Protect(id, workerTag)
	default:
		delete(p.workers, worker)
		p.manager.Unprotect(id, workerTag)
	}
}
