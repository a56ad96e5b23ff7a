package dht

import (
	"slices"
	"time"

	"github.com/pilotage-grid/pilotage/task"
)

// Overlay is one pilot's part in its site's overlay. It is thread-unsafe:
// one loop calls Step with every event and carries the actions out in order.
type Overlay struct {
	config  Config
	self    Member
	selfKey Key
	now     time.Time
	out     []Action

	roster   Roster // as the master publishes it
	contacts Roster // known otherwise: from the queue, from the Kademlia network
	together union  // of both
	denied   map[task.PeerID]bool
	suspect  map[task.PeerID]suspicion

	office    office
	granted   task.Term // last term known to come from the queue
	pings     map[task.PeerID]*probe
	pingCount uint64
	register  register
	lost      []lost // the master's

	casts casts

	records   records
	announced announcer
	finds     finds

	leaving bool
	joined  bool
}

// New makes an overlay that waits for Joined.
func New(config Config) *Overlay {
	o := &Overlay{
		config:  config.withDefaults(),
		denied:  make(map[task.PeerID]bool),
		suspect: make(map[task.PeerID]suspicion),
		pings:   make(map[task.PeerID]*probe),
	}
	o.casts.init()
	o.records.init(o.config)
	o.announced.init()
	o.finds.init()
	return o
}

// Step takes an event and returns what is to be done, in order.
func (o *Overlay) Step(now time.Time, event Event) []Action {
	if now.After(o.now) {
		o.now = now
	}
	o.out = nil
	switch e := event.(type) {
	case Joined:
		o.join(e)
	case Received:
		o.receive(e.From, e.Message)
	case Disconnected:
		o.disconnected(e.Peer)
	case Dialled:
		o.dialled(e)
	case Met:
		o.meet(e.Member)
	case Denied:
		o.deny(e.Peers)
	case ClaimAnswer:
		o.claimAnswered(e)
	case Fenced:
		o.fencedOff()
	case Broadcast:
		o.broadcast(e)
	case Reply:
		o.replied(e)
	case SendApp:
		o.sendApp(e)
	case Announce:
		o.announced.add(o, e.Files)
	case Withdraw:
		o.announced.remove(o, e.Files)
	case Locate:
		o.locate(e)
	case Leave:
		o.leave()
	case Tick:
	}
	o.pass()
	return o.out
}

// Deadline is when Step wants a Tick at the latest; zero means never.
func (o *Overlay) Deadline() time.Time {
	if !o.joined {
		return time.Time{}
	}
	first := earlier(o.casts.deadline(), o.finds.deadline())
	first = earlier(first, o.records.deadline())
	for _, p := range o.pings {
		first = earlier(first, p.deadline)
	}
	if !o.leaving {
		first = earlier(first, o.officeDeadline())
		first = earlier(first, o.announced.deadline())
		first = earlier(first, o.register.due)
	}
	return first
}

// earlier is the first of two times, of which zero means never.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// Master is the member in office as far as this pilot knows.
func (o *Overlay) Master() (Member, task.Term) { return o.office.master, o.office.term }

// Members lists the roster in the order of the ids.
func (o *Overlay) Members() []Member { return o.roster.Members() }

// Size is the number of members on the roster.
func (o *Overlay) Size() int { return o.roster.Len() }

// Member finds a member by peer id, on the roster or among the contacts.
func (o *Overlay) Member(peer task.PeerID) (Member, bool) {
	if peer == o.self.Peer {
		return o.self, true
	}
	if m, ok := o.roster.Get(peer); ok {
		return m, true
	}
	return o.contacts.Get(peer)
}

// Nearest returns up to n live members nearest to a file's key, nearest
// first; this pilot may be among them.
func (o *Overlay) Nearest(file task.FileKey, n int) []Member {
	return o.known().Nearest(KeyOfFile(file), n, o.unreachable)
}

// Routes returns up to n members of every part of the key space, as a Kademlia
// routing table holds them.
func (o *Overlay) Routes(n int) []Member { return o.roster.routes(o.selfKey, n) }

// known is the member list that decisions are made on: the master's roster.
// Where that is missing, or of another term than the one in office, it is
// taken together with whoever else was met: a broadcast then divides a region
// only where somebody is known in both halves (FACTS, Broadcast).
func (o *Overlay) known() *Roster {
	if o.current() {
		return &o.roster
	}
	return o.together.of(&o.roster, &o.contacts)
}

// current tells whether the roster is that of the master in office.
func (o *Overlay) current() bool {
	return o.roster.Len() > 1 && o.roster.version.Term == o.office.term
}

// located returns the locations of files that this pilot keeps.
func (o *Overlay) located(asker task.PeerID, files []task.FileKey) []Record {
	if o.current() {
		return o.records.find(o.now, &o.roster, asker, files)
	}
	return o.records.find(o.now, nil, asker, files)
}

// union keeps the members of two rosters together until one of them changes.
type union struct {
	all  *Roster
	a, b uint64 // their edits
}

func (u *union) of(a, b *Roster) *Roster {
	if u.all == nil || u.a != a.edits || u.b != b.edits {
		u.all, u.a, u.b = a.merged(b), a.edits, b.edits
	}
	return u.all
}

func (o *Overlay) join(e Joined) {
	o.joined = true
	o.self, o.selfKey = e.Self, KeyOfPeer(e.Self.Peer)
	o.contacts.Put(e.Self)
	for _, m := range e.Contacts {
		o.met(m)
	}
	if e.Master.Peer == e.Self.Peer {
		o.takeOffice(e.Term, false)
		return
	}
	o.met(e.Master)
	o.follow(e.Term, e.Master)
}

func (o *Overlay) met(m Member) {
	if m.Peer == "" || o.denied[m.Peer] {
		return
	}
	o.contacts.Put(m)
}

// meet notes a member that the Kademlia network found. A master tells one that
// is not on its roster where to introduce itself.
func (o *Overlay) meet(m Member) {
	o.met(m)
	if m.Peer != "" && m.Peer != o.self.Peer && !o.denied[m.Peer] {
		o.unlisted(m.Peer, nil)
	}
}

func (o *Overlay) deny(peers []task.PeerID) {
	clear(o.denied)
	for _, peer := range peers {
		o.denied[peer] = true
		o.contacts.Drop(peer)
		o.records.hide(o.now, peer)
		if o.inOffice() {
			o.memberDown(peer, false, "denied by the queue")
		}
	}
}

func (o *Overlay) send(to task.PeerID, m Message) {
	o.out = append(o.out, Send{To: to, Message: m})
}

func (o *Overlay) act(a Action) { o.out = append(o.out, a) }

func (o *Overlay) sendApp(e SendApp) {
	if e.To == o.self.Peer {
		o.act(Inbound{From: e.To, Data: e.Data})
		return
	}
	o.send(e.To, App{Data: e.Data})
}

func (o *Overlay) receive(from task.PeerID, message Message) {
	if o.denied[from] || !o.joined {
		return
	}
	o.lives(from)
	o.unlisted(from, message)
	switch m := message.(type) {
	case Hello:
		o.hello(from, m)
	case Welcome:
		o.welcome(from, m)
	case RosterWanted:
		o.rosterWanted(from)
	case Office:
		o.heardOffice(from, m.Term, m.Master)
	case MasterDead:
		o.toldMasterDead(from, m)
	case Ping:
		o.send(from, Pong(m))
	case Pong:
		o.pong(from)
	case Bye:
		o.bye(from)
	case Cast:
		o.cast(from, m)
	case CastAck:
		o.castAck(from, m)
	case CastReply:
		o.castReply(from, m)
	case Put:
		o.records.put(o.now, from, m.Records)
		if !o.leaving { // else an heir has to be told, too
			o.send(from, PutAck{N: m.N})
		}
	case PutAck:
		o.announced.acknowledged(o, from, m.N)
	case Find:
		o.send(from, Found{N: m.N, Records: o.located(from, m.Files)})
	case Found:
		o.found(from, m)
	case App:
		o.act(Inbound{From: from, Data: m.Data})
	}
}

// pass carries out everything that is due.
func (o *Overlay) pass() {
	if !o.joined {
		return
	}
	o.passProbes()
	o.passOffice()
	o.passNewcomers()
	o.passCasts()
	o.passAnnouncements()
	o.passFinds()
	o.records.sweep(o.now)
}

func sortedPeers[V any](m map[task.PeerID]V) []task.PeerID {
	return sortedPeersWhere(m, func(V) bool { return true })
}

func sortedPeersWhere[V any](m map[task.PeerID]V, holds func(V) bool) []task.PeerID {
	var peers []task.PeerID
	for peer, v := range m {
		if holds(v) {
			peers = append(peers, peer)
		}
	}
	slices.Sort(peers)
	return peers
}
