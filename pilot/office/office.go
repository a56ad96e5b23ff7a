package office

import (
	"time"

	"github.com/pilotage-grid/pilotage/pilot/master"
	"github.com/pilotage-grid/pilotage/pilot/message"
	"github.com/pilotage-grid/pilotage/pilot/worker"
	"github.com/pilotage-grid/pilotage/task"
)

// Office is a pilot's place in its site. It is told the settings of the site and who is
// master, in any order and as often as they change.
type Office struct {
	self     task.PeerID
	settings task.SiteSettings
	came     time.Time // when they came
	queue    time.Time // when the queue itself told settings last
	restored time.Time // when it last told of an earlier mode, as after a restore
	told     word      // of the masters, the last one
	own      bool      // the pilot works for itself
	stints   uint64    // how often it has begun to
	overlay  Incumbent
	known    bool                 // some master was told of
	briefed  map[task.PeerID]bool // members that this master has told the settings
	tried    uint64               // the last trial that was begun
	refusals refusals
}

// word is a master's word on the settings. It waits until a time, zero if it was taken or
// is not to be.
type word struct {
	from     task.PeerID
	settings task.SiteSettings
	until    time.Time
}

// New is the office of a pilot that has registered and works for nobody yet.
func New(self task.PeerID, settings task.SiteSettings) *Office {
	return &Office{self: self, settings: settings, briefed: make(map[task.PeerID]bool)}
}

// Settings are those of the site that are in force.
func (o *Office) Settings() task.SiteSettings { return o.settings }

// Own tells whether the pilot works for itself.
func (o *Office) Own() bool { return o.own }

// Events.
type (
	// Began is the first event.
	Began struct{}
	// QueueSaid brings settings of the site that the queue was asked for at some time.
	QueueSaid struct {
		Asked    time.Time
		Settings task.SiteSettings
	}
	// PilotSaid brings what another pilot says of the settings.
	PilotSaid struct {
		From     task.PeerID
		Settings task.SiteSettings
	}
	// MasterChanged brings the overlay's word on who is master.
	MasterChanged struct{ Master Incumbent }
	// MemberUp brings a member of the overlay.
	MemberUp struct{ Member master.PilotUp }
	// MemberDown tells that the overlay has lost one.
	MemberDown struct{ Member master.PilotDown }
	// Message brings what another pilot, or this one, says to one of the roles.
	Message struct {
		From task.PeerID
		Said message.Message
	}
	// ClaimRefused tells that the queue has another master in office, and why.
	ClaimRefused struct{ Why string }
)

// Actions.
type (
	// Adopt puts settings in force.
	Adopt struct{ Before, Settings task.SiteSettings }
	// Post tells both roles for whom they work.
	Post struct{ Posting Posting }
	// ToMaster gives an event to this pilot's master.
	ToMaster struct{ Event message.Event }
	// ToWorker gives one to its worker.
	ToWorker struct{ Event message.Event }
	// TellSettings tells another pilot the settings; an empty one is all members.
	TellSettings struct{ To task.PeerID }
	// Try tries whether other pilots are reached, at most TrialPeers of them: after
	// TrialLead, spread over TrialSpread.
	Try struct{ Trial uint64 }
	// TellUnreachable tells the queue that this pilot is cut off from the others.
	TellUnreachable struct{ Reason string }
)

// Site is what an office must know of the pilot's place in the site.
type Site struct {
	InOffice    bool // its master's core is in office
	Provisional bool // and the queue has not confirmed that
}

// Deadline is when a Tick is due, zero if none is.
func (o *Office) Deadline() time.Time { return o.told.until }

// Step takes an event and returns what is to be done, in this order.
func (o *Office) Step(now time.Time, event message.Event, site Site) []message.Action {
	leads := site.InOffice && !o.own
	switch e := event.(type) {
	case Began:
		return append(o.post(o.inMode()), o.heedTrial()...)
	case QueueSaid:
		if e.Settings.Site == "" || e.Asked.Before(o.came) {
			return nil // answers overtake one another: this one may be older than what is in force
		}
		if o.queue = now; e.Settings.ModeSince < o.settings.ModeSince {
			o.restored = now
		}
		return o.adopt(now, e.Settings, leads)
	case PilotSaid:
		return o.pilotSaid(now, e, leads)
	case MasterChanged:
		if o.overlay, o.known = e.Master, true; !o.own {
			return o.post(o.forSite())
		}
	case MemberUp:
		if !o.own {
			return []message.Action{ToMaster{e.Member}}
		}
		if o.overlay.Peer == o.self {
			return []message.Action{TellSettings{e.Member.Peer}} // it may not know that pilots work for themselves
		}
	case MemberDown:
		if delete(o.briefed, e.Member.Peer); !o.own {
			return []message.Action{ToMaster{e.Member}}
		}
	case Message:
		return o.route(e, leads && !site.Provisional)
	case ClaimRefused:
		if o.settings.Mode != task.ModeIsolated && o.refusals.add(now) {
			return []message.Action{TellUnreachable{"it hears no master, and the queue does: " + e.Why}}
		}
	case message.Tick:
		if at := o.told.until; !at.IsZero() && !now.Before(at) {
			o.told.until = time.Time{}
			return o.pilotSaid(now, PilotSaid{o.told.from, o.told.settings}, leads)
		}
	}
	return nil
}

// queueSaidFor is how long a pilot holds to the mode that the queue itself told it, when a
// master of its site is behind.
const queueSaidFor = 10 * time.Second

// pilotSaid takes the overlay master's word on the settings. A pilot that works for itself
// has them from the queue. A master that is behind would call the pilot back as often as
// the queue calls it forward: an earlier mode is not taken while the queue itself has just
// said a later one, and no other mode at all while a restored queue has just gone back. A
// master may be right all the same, and says it once: its word waits, and is taken if no
// master has said anything else since.
func (o *Office) pilotSaid(now time.Time, said PilotSaid, leads bool) []message.Action {
	if o.own || said.From != o.overlay.Peer {
		return nil
	}
	o.told = word{from: said.From, settings: said.Settings}
	hold := o.restored
	if said.Settings.ModeSince < o.settings.ModeSince {
		hold = o.queue
	}
	if until := hold.Add(queueSaidFor); said.Settings.Mode != o.settings.Mode && now.Before(until) {
		o.told.until = until
		return nil
	}
	return o.adopt(now, said.Settings, leads)
}

// adopt puts settings in force. A master passes changes on to its members.
func (o *Office) adopt(now time.Time, settings task.SiteSettings, leads bool) []message.Action {
	if settings == o.settings {
		return nil
	}
	actions := []message.Action{Adopt{Before: o.settings, Settings: settings}}
	o.settings, o.came = settings, now
	actions = append(actions, o.post(o.inMode())...)
	actions = append(actions, o.heedTrial()...)
	if leads {
		actions = append(actions, TellSettings{})
	}
	return actions
}

func (o *Office) post(p Posting) []message.Action {
	if p == (Posting{}) {
		return nil
	}
	if p.Take != nil {
		clear(o.briefed)
	}
	return []message.Action{Post{p}}
}

// route gives a message to the role that it is for. A master tells a member the settings
// when it hears it for the first time: they may have changed since the member registered,
// or the master before may have known others. One that the queue has not confirmed does
// not know better than its members.
func (o *Office) route(m Message, confirmed bool) (actions []message.Action) {
	foreign := o.own && m.From != o.self
	switch m.Said.(type) {
	case message.State, message.Report:
		switch {
		case foreign:
			return []message.Action{TellSettings{m.From}}
		case confirmed && !o.briefed[m.From] && m.From != o.self:
			o.briefed[m.From] = true
			actions = append(actions, TellSettings{m.From})
		}
		return append(actions, ToMaster{master.FromPilot{From: m.From, Message: m.Said}})
	}
	if foreign {
		return nil
	}
	return []message.Action{ToWorker{worker.FromMaster{From: m.From, Message: m.Said}}}
}
