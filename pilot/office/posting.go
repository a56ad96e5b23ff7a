package office

import (
	"github.com/pilotage-grid/pilotage/pilot/master"
	"github.com/pilotage-grid/pilotage/pilot/message"
	"github.com/pilotage-grid/pilotage/task"
)

// Incumbent is the master of the overlay.
type Incumbent struct {
	Term        task.Term
	Peer        task.PeerID // "" is nobody
	Provisional bool
	Passed      []task.PilotID // members whom this pilot's election found missing
}

// Posting is what both roles are to be told, in this order: the master stands
// down or leaves, the worker gets its master, this pilot takes office.
type Posting struct {
	StandDown bool // of an office for the site
	Leave     bool
	Worker    *message.MasterInOffice
	Take      *master.TookOffice // without settings and leases
}

// CarryOut tells a pilot's two roles of the posting. complete adds what the queue and
// the overlay say of an office that is taken, and lists the members of the site, the
// pilot itself first.
func (p Posting) CarryOut(m *master.Master, toMaster, toWorker func(message.Event), complete func(*master.TookOffice) []master.PilotUp) {
	if p.StandDown && m.InOffice() {
		toMaster(master.StandDown{})
	}
	if p.Leave && m.InOffice() {
		toMaster(master.LeftOffice{})
	}
	if p.Worker != nil {
		toWorker(*p.Worker)
	}
	if p.Take == nil {
		return
	}
	took := *p.Take
	members, again := complete(&took), m.InOffice()
	if took.Own || !p.Leave || again {
		members = members[:1] // the others came, or come, one by one
	}
	toMaster(took)
	for _, member := range members {
		toMaster(member)
	}
}

// forSite is the posting of a pilot that works for its site's master.
func (o *Office) forSite() Posting {
	posting := Posting{Worker: &message.MasterInOffice{Term: o.overlay.Term, Peer: o.overlay.Peer}}
	if o.overlay.Peer != o.self {
		posting.Leave = true
		return posting
	}
	posting.Take = &master.TookOffice{Term: o.overlay.Term, Provisional: o.overlay.Provisional, Missing: o.overlay.Passed}
	return posting
}

// inMode is the posting in the mode in which the site schedules by now.
func (o *Office) inMode() Posting {
	central := o.settings.Central()
	if central == o.own {
		return Posting{}
	}
	if o.own = central; central {
		o.stints++
		term := task.Term{Ballot: o.stints, Peer: o.self}
		return Posting{
			StandDown: true, Leave: true,
			Worker: &message.MasterInOffice{Term: term, Peer: o.self}, Take: &master.TookOffice{Term: term, Alone: true, Own: true},
		}
	}
	posting := Posting{Worker: &message.MasterInOffice{}}
	if o.known {
		posting = o.forSite()
	}
	posting.Leave = true
	return posting
}
