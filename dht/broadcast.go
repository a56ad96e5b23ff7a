package dht

import (
	"slices"
	"time"

	"github.com/pilotage-grid/pilotage/task"
)

// duty is one node's part in a broadcast: deliver here, cover the regions, gather
// the replies (paper 004, section III-B: expected replies and a parent per
// broadcast). The same broadcast may reach a node twice for different stretches
// of the key space, and it covers both.
type duty struct {
	message   Cast
	parents   []task.PeerID // none at the root
	user      uint64        // the root's Broadcast.N
	regions   []*region
	tree      uint64 // see treeSeed; of a space that is divided
	data      [][]byte
	reached   []uint64
	suspects  []task.PeerID
	depth     int
	deadline  time.Time // replies that come later are dropped
	answered  bool      // the local reply is in
	finished  bool
	repairing bool // the root has gone after those that were missed
	peers     int  // that one of the members below sent to in the tree; the most
	forget    time.Time
}

// region is one of at most Fanout stretches of a duty's space.
type region struct {
	space   Range
	current task.PeerID // contact asked last
	tried   []task.PeerID
	acked   bool
	replied bool
	given   bool // nobody is left to ask
	next    time.Time
}

// broadcast is the part that brings a message to every member and the replies
// back, aggregated.
type broadcast struct {
	config  Config
	count   uint64 // of this pilot's own
	duties  map[CastID][]*duty
	active  []*duty // unfinished, in the order they began
	over    []*duty // in the order they are forgotten
	answers map[CastID]*answer
}

// answer is this pilot's own reply to a broadcast.
type answer struct {
	data  []byte
	given bool
}

// forgetAfter is how long a finished duty is remembered, so that duplicates are
// recognised.
const forgetAfter = 20 * time.Second

func (b *broadcast) init(config Config) {
	b.config = config
	b.duties = make(map[CastID][]*duty)
	b.answers = make(map[CastID]*answer)
}

// retire moves a duty that is finished to those that are only remembered.
func (b *broadcast) retire(now time.Time, d *duty) {
	d.finished, d.forget = true, now.Add(forgetAfter)
	d.message.Payload, d.message.Gone, d.message.Suspect = nil, nil, nil // sent on for the last time
	b.active = slices.DeleteFunc(b.active, func(other *duty) bool { return other == d })
	b.over = append(b.over, d)
}

func (b *broadcast) forget(now time.Time) {
	for len(b.over) > 0 && !now.Before(b.over[0].forget) {
		d := b.over[0]
		b.over[0] = nil
		b.over = b.over[1:]
		id := d.message.ID
		b.duties[id] = slices.DeleteFunc(b.duties[id], func(other *duty) bool { return other == d })
		if len(b.duties[id]) == 0 {
			delete(b.duties, id)
			delete(b.answers, id)
		}
	}
}

func (b *broadcast) deadline() (first time.Time) {
	for _, d := range b.active {
		first = earlier(first, d.nextDeadline())
	}
	return first // what is over is forgotten with the next event: nobody is woken for it
}

func (d *duty) nextDeadline() time.Time {
	first := d.deadline
	if d.repairing { // all of its regions wait until then
		return first
	}
	for _, r := range d.regions {
		if !r.acked && !r.replied && !r.given && r.next.Before(first) {
			first = r.next
		}
	}
	return first
}

// start begins a broadcast of this pilot's own to the whole site.
func (b *broadcast) start(s *step, m *membership, message Cast, user uint64) {
	b.count++
	message.ID, message.Space = CastID{Root: m.self.Peer, N: b.count}, WholeSpace()
	message.Budget = b.budget(len(m.known.sorted))
	b.begin(s, m, message, nil, user)
}

// budget is the time in which the replies of so many members should be in:
// one ReplyHop per level of the tree (paper 004: time-outs by depth).
func (b *broadcast) budget(members int) time.Duration {
	levels := 1
	for reach := b.config.Broadcast.Fanout; reach < members; reach *= b.config.Broadcast.Fanout {
		levels++
	}
	return time.Duration(levels) * b.config.Broadcast.ReplyHop
}

// receive takes a duty on that a member hands to this one.
func (b *broadcast) receive(s *step, m *membership, from task.PeerID, message Cast) {
	m.heardSuspicion(s.now, message.Suspect)
	s.send(from, CastAck{ID: message.ID, Space: message.Space})
	for _, d := range b.duties[message.ID] {
		if d.message.Space == message.Space {
			d.again(s, from)
			return
		}
	}
	b.begin(s, m, message, []task.PeerID{from}, 0)
}

// again serves a second parent of the same duty.
func (d *duty) again(s *step, from task.PeerID) {
	if !slices.Contains(d.parents, from) {
		d.parents = append(d.parents, from)
	}
	if d.finished && d.message.Reply {
		s.send(from, d.reply())
	}
}

// begin takes a duty on: delivers, divides, sends.
func (b *broadcast) begin(s *step, m *membership, message Cast, parents []task.PeerID, user uint64) {
	d := &duty{
		message: message, parents: parents, user: user, depth: len(message.Path),
		deadline: s.now.Add(message.Budget), reached: []uint64{m.key.Short()},
	}
	b.duties[message.ID] = append(b.duties[message.ID], d)
	b.active = append(b.active, d)
	b.deliver(s, d)
	spaces := b.divide(m, message)
	if len(spaces) > 0 {
		d.tree = treeSeed(message.ID)
	}
	for _, space := range spaces {
		r := &region{space: space}
		d.regions = append(d.regions, r)
		b.forward(s, m, d, r)
	}
	b.conclude(s, m, d)
}

// deliver hands a payload to the user once, and this pilot's reply to the
// duty as soon as it is there.
func (b *broadcast) deliver(s *step, d *duty) {
	message := d.message
	d.answered = message.Kind != CastPayload || !message.Reply
	if message.Kind != CastPayload {
		return
	}
	mine, delivered := b.answers[message.ID]
	if !delivered {
		mine = &answer{}
		b.answers[message.ID] = mine
		s.act(Deliver{ID: message.ID, From: message.ID.Root, Payload: message.Payload, Reply: message.Reply})
	}
	if message.Reply && mine.given {
		d.answer(mine.data)
	}
}

// answer takes this pilot's own reply.
func (d *duty) answer(data []byte) {
	d.answered = true
	if len(data) > 0 {
		d.data = append(d.data, data)
	}
}

// replied takes the user's reply to a Deliver.
func (b *broadcast) replied(s *step, m *membership, e Reply) {
	mine := b.answers[e.ID]
	if mine == nil || mine.given {
		return
	}
	mine.given, mine.data = true, e.Data
	for _, d := range slices.Clone(b.duties[e.ID]) {
		if !d.answered {
			d.answer(e.Data)
			b.conclude(s, m, d)
		}
	}
}

func (b *broadcast) acknowledged(s *step, m *membership, from task.PeerID, ack CastAck) {
	if d, r := b.asked(ack.ID, ack.Space, from); r != nil {
		r.acked = true
		b.conclude(s, m, d)
	}
}

func (b *broadcast) gather(s *step, m *membership, from task.PeerID, reply CastReply) {
	d, r := b.asked(reply.ID, reply.Space, from)
	if r == nil || r.replied || d.finished {
		return // late
	}
	r.acked, r.replied = true, true
	d.data = append(d.data, reply.Data...)
	d.reached = append(d.reached, reply.Reached...)
	d.suspects = append(d.suspects, reply.Suspect...)
	d.depth, d.peers = max(d.depth, reply.Depth), max(d.peers, reply.Peers)
	m.heardSuspicion(s.now, reply.Suspect)
	b.conclude(s, m, d)
}

// asked finds the region that a member was given; nil: it was not.
func (b *broadcast) asked(id CastID, space Range, peer task.PeerID) (*duty, *region) {
	for _, d := range b.duties[id] {
		for _, r := range d.regions {
			if r.space == space && slices.Contains(r.tried, peer) {
				return d, r
			}
		}
	}
	return nil, nil
}

// disconnected gives the regions of a lost contact to others at once.
func (b *broadcast) disconnected(s *step, m *membership, peer task.PeerID) {
	for _, d := range slices.Clone(b.active) {
		for _, r := range d.regions {
			waiting := !r.acked || d.message.Reply && !r.replied
			if r.current == peer && waiting && !r.given {
				m.distrust(s.now, peer)
				b.forward(s, m, d, r)
			}
		}
		b.conclude(s, m, d)
	}
}

// conclude ends a duty whose every region has answered or was given up.
func (b *broadcast) conclude(s *step, m *membership, d *duty) {
	if d.finished || !d.answered {
		return
	}
	for _, r := range d.regions {
		done := r.replied || r.given || !d.message.Reply && r.acked
		if !done {
			return
		}
	}
	if !d.awaits(m) {
		b.finish(s, m, d)
	}
}

// introduced looks whether a broadcast waited for a member to say its name.
func (b *broadcast) introduced(s *step, m *membership) {
	for _, d := range slices.Clone(b.active) {
		b.conclude(s, m, d)
	}
}

// finish sends the aggregated reply up, or at the root ends the broadcast.
func (b *broadcast) finish(s *step, m *membership, d *duty) {
	wanted, root := d.message.Reply, d.parents == nil
	if wanted && root && b.repair(s, m, d) {
		return
	}
	if !d.repairing {
		d.peers = b.peersOf(d)
	}
	b.retire(s.now, d)
	switch {
	case !wanted:
		d.regions = nil
	case root:
		b.done(s, m, d)
	default:
		for _, parent := range d.parents {
			s.send(parent, d.reply())
		}
	}
}

// peersOf is how many peers one member sent a broadcast to, at most: this one,
// in all its duties, or one below.
func (b *broadcast) peersOf(d *duty) int {
	own := make(map[task.PeerID]bool)
	for _, mine := range b.duties[d.message.ID] {
		for _, r := range mine.regions {
			for _, peer := range r.tried {
				own[peer] = true
			}
		}
	}
	return max(d.peers, len(own))
}

func (d *duty) reply() CastReply {
	return CastReply{
		ID: d.message.ID, Space: d.message.Space, Data: d.data,
		Reached: d.reached, Suspect: d.suspects, Depth: d.depth, Peers: d.peers,
	}
}

// pass gives silent regions to second contacts and ends duties whose time is
// over.
func (b *broadcast) pass(s *step, m *membership) {
	for _, d := range slices.Clone(b.active) {
		switch {
		case d.finished: // meanwhile
		case !s.now.Before(d.deadline):
			b.giveUp(s, m, d)
		case !d.repairing: // else nobody is asked in place of a member that was missed
			for _, r := range d.regions {
				if r.acked || r.replied || r.given || s.now.Before(r.next) {
					continue
				}
				d.suspect(s, m, r.current)
				b.forward(s, m, d, r)
			}
			b.conclude(s, m, d)
		}
	}
	b.forget(s.now)
}

// giveUp ends a duty without those that have not answered in time.
func (b *broadcast) giveUp(s *step, m *membership, d *duty) {
	for _, r := range d.regions {
		if !r.acked && r.current != "" {
			d.suspect(s, m, r.current)
		}
	}
	d.answered = true
	b.finish(s, m, d)
}

func (d *duty) suspect(s *step, m *membership, peer task.PeerID) {
	m.distrust(s.now, peer)
	d.suspects = append(d.suspects, peer)
}
