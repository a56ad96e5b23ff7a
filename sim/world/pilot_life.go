package world

import (
	"errors"
	"time"

	"github.com/pilotage-grid/pilotage/dht"
	"github.com/pilotage-grid/pilotage/pilot/office"
	"github.com/pilotage-grid/pilotage/pilot/worker"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

// How the process of a pilot lives and ends.

// reaches tells whether calls to the queue come through.
func (n *node) reaches() bool { return n.alive && !n.offline && !n.paused && !n.queue.away }

// after calls a function once, unless the pilot is paused then: it does so later.
func (n *node) after(d time.Duration, do func()) { n.world.after(d, func() { n.awake(do) }) }

// awake does something now, or once the pilot goes on.
func (n *node) awake(do func()) {
	if n.paused {
		n.backlog = append(n.backlog, do)
		return
	}
	do()
}

// pause stops a pilot as SIGSTOP does, resume lets it go on.
func (n *node) pause() {
	n.note("%s is stopped", n.id)
	n.paused = true
	n.net.Hang(n.member)
}

func (n *node) resume() {
	if !n.paused {
		return
	}
	n.note("%s goes on", n.id)
	backlog := n.backlog
	n.paused, n.backlog = false, nil
	for _, do := range backlog {
		do()
	}
	if n.alive {
		n.net.Resume(n.member)
	}
}

// kill ends a pilot at once, as SIGKILL does.
func (n *node) kill() {
	n.note("%s is killed", n.id)
	n.end()
}

func (n *node) end() {
	n.alive, n.paused = false, false
	n.worker, n.master = nil, nil // nobody asks them any more: large grids see many pilots come and go
	n.queue.link.hangUp(n)
	n.files.Close()
	for _, p := range n.payloads {
		p.over = true
	}
	n.net.Close(n.member)
}

// stop ends a pilot in an orderly way, as SIGTERM does.
func (n *node) stop(within time.Duration) {
	n.note("%s is told to stop", n.id)
	n.stepWorker(worker.Drain{Reason: "told to stop", Within: within})
	n.after(within, n.farewell)
}

// refused ends a pilot that the queue does not know, as pilot/agent does.
func (n *node) refused(err error) {
	if errors.Is(err, taskqueue.ErrStranger) {
		n.after(0, func() {
			if n.alive {
				n.end()
			}
		})
	}
}

// farewell says goodbye to the queue and to the site.
func (n *node) farewell() {
	if !n.alive || n.leaving {
		return
	}
	chief, term := n.member.Overlay.Master()
	resigns := chief.Peer == n.peer
	if (resigns || n.office.Own()) && !n.master.Settled() && n.settling < office.SettleTime {
		n.settling += 20 * time.Millisecond
		n.after(20*time.Millisecond, n.farewell)
		return
	}
	n.leaving = true
	if lost, _ := n.queue.link.losesNext(); n.reaches() && !lost {
		err := n.queue.Update(func(t *taskqueue.Turn) error {
			return n.queue.Rules.Leave(t, taskqueue.Leaving{Pilot: n.id, Site: n.site.name, Reason: "told to stop", Resigns: resigns, Term: term, Unfinished: !n.drained || n.uploads > 0})
		})
		if err != nil {
			n.note("%s cannot say goodbye: %v", n.id, err)
		}
	}
	n.after(10*time.Millisecond, func() {
		if n.alive {
			n.net.Do(n.member, dht.Leave{})
		}
	})
}

// cutOff takes the way to the queue from a pilot, or gives it back.
func (n *node) cutOff(offline bool) {
	n.note("%s reaches the queue: %v", n.id, !offline)
	n.offline = offline
}
