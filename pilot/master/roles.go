package master

import (
	"time"

	"github.com/pilotage-grid/pilotage/pilot/message"
	"github.com/pilotage-grid/pilotage/task"
)

// Office decides for whom a pilot's two roles work: for its site's master, who
// may be this pilot, or, where the queue matches tasks, for itself. It is told
// the site's mode and the overlay's master, in any order and as often as they
// change.
type Office struct {
	self    task.PeerID
	own     bool
	stints  uint64
	overlay Incumbent
	known   bool // some master was told of
}

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
	Take      *TookOffice // without settings and leases
}

// CarryOut tells a pilot's two roles of the posting. complete adds what the queue and
// the overlay say of an office that is taken, and lists the members of the site, the
// pilot itself first.
func (p Posting) CarryOut(m *Master, toMaster, toWorker func(message.Event), complete func(*TookOffice) []PilotUp) {
	if p.StandDown && m.InOffice() {
		toMaster(StandDown{})
	}
	if p.Leave && m.InOffice() {
		toMaster(LeftOffice{})
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

// queueSaidFor is how long a pilot holds to the mode that the queue itself told it,
// whatever a master of its site says.
const queueSaidFor = 10 * time.Second

// ModeWord is whose word on the mode of its site a pilot takes. The zero value has
// heard nothing from the queue.
type ModeWord struct {
	said    time.Time
	masters task.SiteSettings // last word
}

// QueueSaid notes that the queue itself has told the settings.
func (w *ModeWord) QueueSaid(now time.Time) { w.said = now }

// MasterSaid tells how long a master's word is not taken: on the mode it is not while
// the queue itself has just said another. A master that is behind would call the pilot
// back as often as the queue calls it forward. One that is ahead says it once: whoever
// waits takes it then, if it is StillSaid.
func (w *ModeWord) MasterSaid(now time.Time, known, told task.SiteSettings) (wait time.Duration) {
	w.masters = told
	if told.Mode == known.Mode {
		return 0
	}
	return max(0, queueSaidFor-now.Sub(w.said))
}

// StillSaid tells whether no master has said anything else since.
func (w *ModeWord) StillSaid(told task.SiteSettings) bool { return told == w.masters }

// NewOffice is that of a pilot that works for nobody yet.
func NewOffice(self task.PeerID) *Office { return &Office{self: self} }

// Own tells whether the pilot works for itself.
func (o *Office) Own() bool { return o.own }

// Overlay takes the overlay's word on its master. Where pilots work for
// themselves it is only remembered.
func (o *Office) Overlay(master Incumbent) Posting {
	o.overlay, o.known = master, true
	if o.own {
		return Posting{}
	}
	return o.forSite()
}

func (o *Office) forSite() Posting {
	posting := Posting{Worker: &message.MasterInOffice{Term: o.overlay.Term, Peer: o.overlay.Peer}}
	if o.overlay.Peer != o.self {
		posting.Leave = true
		return posting
	}
	posting.Take = &TookOffice{Term: o.overlay.Term, Provisional: o.overlay.Provisional, Missing: o.overlay.Passed}
	return posting
}

// Mode takes the mode in which the site schedules.
func (o *Office) Mode(mode string) Posting {
	central := (task.SiteSettings{Mode: mode}).Central()
	if central == o.own {
		return Posting{}
	}
	o.own = central
	if central {
		o.stints++
		term := task.Term{Ballot: o.stints, Peer: o.self}
		return Posting{
			StandDown: true, Leave: true,
			Worker: &message.MasterInOffice{Term: term, Peer: o.self}, Take: &TookOffice{Term: term, Alone: true, Own: true},
		}
	}
	posting := Posting{Worker: &message.MasterInOffice{}}
	if o.known {
		posting = o.forSite()
	}
	posting.Leave = true
	return posting
}
