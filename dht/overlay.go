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
	denied   map[task.PeerID]bool
	suspect  map[task.PeerID]time.Time // passed over as a hop until then

	office    office
	granted   task.Term // last term known to come from the queue
	pings     map[task.PeerID]*probe
	pingCount uint64
	changes   []change // the master's recent roster changes

	castCount uint64
	casts     map[castKey]*cast
	answers   map[CastID]*answer

	records   records
	announced announcer
	finds     map[uint64]*find
	findCount uint64

	leaving bool
	joined  bool
}

// New makes an overlay that waits for Joined.
func New(config Config) *Overlay {
	o := &Overlay{
		config:  config.withDefaults(),
		denied:  make(map[task.PeerID]bool),
		suspect: make(map[task.PeerID]time.Time),
		pings:   make(map[task.PeerID]*probe),
		casts:   make(map[castKey]*cast),
		answers: make(map[CastID]*answer),
		finds:   make(map[uint64]*find),
	}
	o.records.init(o.config)
	o.announced.init()
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
		o.met(e.Member)
	case Denied:
		o.deny(e.Peers)
	case ClaimAnswer:
		o.claimAnswered(e)
	case Broadcast:
		o.broadcast(e)
	case Reply:
		o.replied(e)
	case SendApp:
		o.sendApp(e)
	case Announce:
		o.announced.add(o.now.Add(o.config.AnnounceDelay), e.Files)
	case Withdraw:
		o.announced.remove(o.now.Add(o.config.AnnounceDelay), e.Files)
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
	var first time.Time
	earliest := func(t time.Time) {
		if !t.IsZero() && (first.IsZero() || t.Before(first)) {
			first = t
		}
	}
	if !o.joined {
		return first
	}
	if !o.leaving {
		earliest(o.officeDeadline())
		earliest(o.announced.deadline())
	}
	for _, p := range o.pings {
		earliest(p.deadline)
	}
	for _, c := range o.casts {
		earliest(c.nextDeadline())
	}
	for _, f := range o.finds {
		earliest(f.deadline)
	}
	earliest(o.records.deadline())
	return first
}

// Master is the member in office as far as this pilot knows.
func (o *Overlay) Master() (Member, task.Term) { return o.office.master, o.office.term }

// Members lists the roster in the order of the ids.
func (o *Overlay) Members() []Member { return o.roster.Members() }

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

// known is the member list that decisions are made on: the roster, or what
// else is known while there is none.
func (o *Overlay) known() *Roster {
	if o.roster.Len() > 1 {
		return &o.roster
	}
	return &o.contacts
}

func (o *Overlay) unreachable(peer task.PeerID) bool {
	return o.denied[peer] || peer != o.self.Peer && o.isSuspect(peer)
}

func (o *Overlay) isSuspect(peer task.PeerID) bool {
	until, found := o.suspect[peer]
	return found && o.now.Before(until)
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

func (o *Overlay) deny(peers []task.PeerID) {
	clear(o.denied)
	for _, peer := range peers {
		o.denied[peer] = true
		o.contacts.Drop(peer)
		o.records.dropHolder(peer)
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
	delete(o.suspect, from) // a sign of life
	switch m := message.(type) {
	case Hello:
		o.hello(from, m)
	case Welcome:
		o.welcome(from, m)
	case RosterWanted:
		o.send(from, Welcome{Master: o.office.master, Roster: o.roster.Snapshot()})
	case Office:
		o.heardOffice(m.Term, m.Master)
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
		o.records.put(o.now, m.Records)
		o.send(from, PutAck{N: m.N})
	case PutAck:
		o.announced.acknowledged(from, m.N)
	case Find:
		o.send(from, Found{N: m.N, Records: o.records.find(o.now, m.Files)})
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
	o.passCasts()
	o.passAnnouncements()
	o.passFinds()
	o.records.sweep(o.now)
}

// gone removes a peer from everything that was known of it.
func (o *Overlay) gone(peer task.PeerID) {
	o.contacts.Drop(peer)
	o.records.dropHolder(peer)
	delete(o.pings, peer)
	o.act(Forget{Peer: peer})
}

// leave says goodbye: records kept for others go to the members that are next
// in line, the master and the contacts hear Bye.
func (o *Overlay) leave() {
	if o.leaving {
		return
	}
	o.leaving = true
	o.handOver()
	for _, m := range o.roster.Members() {
		if m.Peer != o.self.Peer && !o.isSuspect(m.Peer) {
			o.send(m.Peer, Bye{})
		}
	}
	o.act(Left{})
}

// handOver sends the records of other holders to those members that become
// nearest once this pilot is gone.
func (o *Overlay) handOver() {
	skip := func(peer task.PeerID) bool { return peer == o.self.Peer || o.unreachable(peer) }
	batches := make(map[task.PeerID][]Record)
	for _, record := range o.records.all(o.now) {
		if record.Holder == o.self.Peer {
			continue
		}
		heirs := o.known().Nearest(KeyOfFile(record.File), o.config.Replicas, skip)
		if len(heirs) == o.config.Replicas {
			heirs = heirs[len(heirs)-1:] // the nearer ones have it already
		}
		for _, heir := range heirs {
			batches[heir.Peer] = append(batches[heir.Peer], record)
		}
	}
	for _, peer := range sortedPeers(batches) {
		for records := range slices.Chunk(batches[peer], maxBatch) {
			o.send(peer, Put{Records: records})
		}
	}
}

func sortedPeers[V any](m map[task.PeerID]V) []task.PeerID {
	peers := make([]task.PeerID, 0, len(m))
	for peer := range m {
		peers = append(peers, peer)
	}
	slices.Sort(peers)
	return peers
}
