package dht

import (
	"slices"
	"time"

	"github.com/pilotage-grid/pilotage/task"
)

// castKey names one node's duty in a broadcast: the same broadcast may reach
// it twice for different stretches of the key space, and it covers both.
type castKey struct {
	id    CastID
	space Range
}

// cast is a duty: deliver here, cover the regions, gather the replies
// (paper 004, section III-B: expected replies and a parent per broadcast).
type cast struct {
	message   Cast
	parents   []task.PeerID // none at the root
	user      uint64        // the root's Broadcast.N
	regions   []*region
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

// casts are a pilot's duties.
type casts struct {
	count  uint64 // of this pilot's own broadcasts
	byKey  map[castKey]*cast
	byID   map[CastID][]*cast
	active []*cast // unfinished, in the order they began
	// Finished ones, in the order they are forgotten: those that others may
	// still repeat with a payload or wait for, and beats, which may come
	// again without harm.
	late, beats []*cast
	answers     map[CastID]*answer
}

// answer is this pilot's own reply to a broadcast.
type answer struct {
	data  []byte
	given bool
}

// How long a finished duty is remembered, so that duplicates are recognised.
const (
	forgetCasts = 20 * time.Second
	forgetBeats = 3 * time.Second
)

func (c *casts) init() {
	c.byKey = make(map[castKey]*cast)
	c.byID = make(map[CastID][]*cast)
	c.answers = make(map[CastID]*answer)
}

func (c *casts) add(duty *cast) {
	id := duty.message.ID
	c.byKey[castKey{id, duty.message.Space}] = duty
	c.byID[id] = append(c.byID[id], duty)
	c.active = append(c.active, duty)
}

// retire moves a duty that is finished to those that are only remembered.
func (c *casts) retire(now time.Time, duty *cast) {
	duty.finished = true
	duty.message.Payload, duty.message.Roster, duty.message.Suspect = nil, RosterDelta{}, nil // sent on for the last time
	c.active = slices.DeleteFunc(c.active, func(other *cast) bool { return other == duty })
	if duty.message.Kind == CastBeat {
		duty.forget = now.Add(forgetBeats)
		c.beats = append(c.beats, duty)
		return
	}
	duty.forget = now.Add(forgetCasts)
	c.late = append(c.late, duty)
}

func (c *casts) forget(now time.Time) {
	for _, queue := range []*[]*cast{&c.late, &c.beats} {
		for len(*queue) > 0 && !now.Before((*queue)[0].forget) {
			duty := (*queue)[0]
			(*queue)[0] = nil
			*queue = (*queue)[1:]
			id := duty.message.ID
			delete(c.byKey, castKey{id, duty.message.Space})
			rest := slices.DeleteFunc(c.byID[id], func(other *cast) bool { return other == duty })
			if len(rest) > 0 {
				c.byID[id] = rest
				continue
			}
			delete(c.byID, id)
			delete(c.answers, id)
		}
	}
}

func (c *casts) deadline() time.Time {
	var first time.Time
	for _, duty := range c.active {
		first = earlier(first, duty.nextDeadline())
	}
	for _, queue := range [][]*cast{c.late, c.beats} {
		if len(queue) > 0 {
			first = earlier(first, queue[0].forget)
		}
	}
	return first
}

func (c *cast) nextDeadline() time.Time {
	first := c.deadline
	if c.repairing { // all of its regions wait until then
		return first
	}
	for _, r := range c.regions {
		if !r.acked && !r.replied && !r.given && r.next.Before(first) {
			first = r.next
		}
	}
	return first
}

// broadcast starts one for the user.
func (o *Overlay) broadcast(e Broadcast) {
	o.startCast(CastPayload, e.N, e.Payload, e.Reply)
}

func (o *Overlay) startCast(kind CastKind, user uint64, payload []byte, reply bool) {
	o.casts.count++
	message := Cast{
		ID: CastID{Root: o.self.Peer, N: o.casts.count}, Kind: kind,
		Term: o.office.term, Master: o.office.master, Space: WholeSpace(),
		Reply: reply, Payload: payload,
	}
	if kind == CastBeat {
		message.Roster = o.recent()
	} else {
		message.Roster = o.news()
	}
	message.Budget = o.budget(o.known().Len())
	o.begin(message, nil, user)
}

// budget is the time in which the replies of so many members should be in:
// one ReplyHop per level of the tree (paper 004: time-outs by depth).
func (o *Overlay) budget(members int) time.Duration {
	levels := 1
	for reach := o.config.Fanout; reach < members; reach *= o.config.Fanout {
		levels++
	}
	return time.Duration(levels) * o.config.ReplyHop
}

// cast receives a broadcast.
func (o *Overlay) cast(from task.PeerID, m Cast) {
	if o.leaving {
		return
	}
	if !o.heardMaster(from, m.Term, m.Master, m.ID.Root == m.Master.Peer) {
		if m.Term.Less(o.office.term) && m.ID.Root != from {
			o.sendOffice(m.ID.Root) // it may not know that it was deposed
		}
		return
	}
	o.applyRoster(from, m.Roster, m.Kind == CastBeat)
	o.heardSuspicion(m.Suspect)
	o.send(from, CastAck{ID: m.ID, Space: m.Space})
	if duty, known := o.casts.byKey[castKey{m.ID, m.Space}]; known {
		o.again(duty, from)
		return
	}
	o.begin(m, []task.PeerID{from}, 0)
}

// again serves a second parent of the same duty.
func (o *Overlay) again(duty *cast, from task.PeerID) {
	if !slices.Contains(duty.parents, from) {
		duty.parents = append(duty.parents, from)
	}
	if duty.finished && duty.message.Reply {
		o.send(from, duty.reply())
	}
}

// begin takes a duty on: delivers, divides, sends.
func (o *Overlay) begin(m Cast, parents []task.PeerID, user uint64) {
	duty := &cast{
		message: m, parents: parents, user: user, depth: len(m.Path),
		deadline: o.now.Add(m.Budget), reached: []uint64{o.selfKey.Short()},
	}
	o.casts.add(duty)
	o.deliver(duty)
	for _, space := range o.divide(m) {
		r := &region{space: space}
		duty.regions = append(duty.regions, r)
		o.forward(duty, r)
	}
	o.conclude(duty)
}

// deliver hands a payload to the user once, and this pilot's reply to the
// duty as soon as it is there.
func (o *Overlay) deliver(duty *cast) {
	m := duty.message
	duty.answered = m.Kind != CastPayload || !m.Reply
	if m.Kind != CastPayload {
		return
	}
	mine, delivered := o.casts.answers[m.ID]
	if !delivered {
		mine = &answer{}
		o.casts.answers[m.ID] = mine
		o.act(Deliver{ID: m.ID, From: m.ID.Root, Payload: m.Payload, Reply: m.Reply})
	}
	if m.Reply && mine.given {
		duty.answered = true
		duty.take(mine.data)
	}
}

func (c *cast) take(data []byte) {
	if len(data) > 0 {
		c.data = append(c.data, data)
	}
}

// replied takes the user's reply to a Deliver.
func (o *Overlay) replied(e Reply) {
	mine := o.casts.answers[e.ID]
	if mine == nil || mine.given {
		return
	}
	mine.given, mine.data = true, e.Data
	for _, duty := range slices.Clone(o.casts.byID[e.ID]) {
		if !duty.answered {
			duty.answered = true
			duty.take(e.Data)
			o.conclude(duty)
		}
	}
}

func (o *Overlay) castAck(from task.PeerID, m CastAck) {
	duty, r := o.findRegion(m.ID, m.Space)
	if r == nil || !slices.Contains(r.tried, from) {
		return
	}
	r.acked = true
	o.conclude(duty)
}

func (o *Overlay) castReply(from task.PeerID, m CastReply) {
	duty, r := o.findRegion(m.ID, m.Space)
	if r == nil || r.replied || duty.finished || !slices.Contains(r.tried, from) {
		return // late or unasked
	}
	r.acked, r.replied = true, true
	duty.data = append(duty.data, m.Data...)
	duty.reached = append(duty.reached, m.Reached...)
	duty.suspects = append(duty.suspects, m.Suspect...)
	duty.depth, duty.peers = max(duty.depth, m.Depth), max(duty.peers, m.Peers)
	o.heardSuspicion(m.Suspect)
	o.conclude(duty)
}

func (o *Overlay) findRegion(id CastID, space Range) (*cast, *region) {
	for _, duty := range o.casts.byID[id] {
		for _, r := range duty.regions {
			if r.space == space {
				return duty, r
			}
		}
	}
	return nil, nil
}

// castDisconnected gives the regions of a lost contact to others at once.
func (o *Overlay) castDisconnected(peer task.PeerID) {
	for _, duty := range slices.Clone(o.casts.active) {
		for _, r := range duty.regions {
			waiting := !r.acked || duty.message.Reply && !r.replied
			if r.current == peer && waiting && !r.given {
				o.distrust(peer)
				o.forward(duty, r)
			}
		}
		o.conclude(duty)
	}
}

// conclude ends a duty whose every region has answered or was given up.
func (o *Overlay) conclude(duty *cast) {
	if duty.finished || !duty.answered {
		return
	}
	for _, r := range duty.regions {
		done := r.replied || r.given || !duty.message.Reply && r.acked
		if !done {
			return
		}
	}
	o.finish(duty)
}

// finish sends the aggregated reply up, or at the root ends the broadcast.
func (o *Overlay) finish(duty *cast) {
	wanted, root := duty.message.Reply, duty.parents == nil
	if wanted && root && o.repair(duty) {
		return
	}
	if !duty.repairing {
		duty.peers = o.casts.peersOf(duty)
	}
	o.casts.retire(o.now, duty)
	switch {
	case !wanted:
		duty.regions = nil
	case root:
		o.done(duty)
	default:
		for _, parent := range duty.parents {
			o.send(parent, duty.reply())
		}
	}
}

// peersOf is how many peers one member sent a broadcast to, at most: this one,
// in all its duties, or one below.
func (c *casts) peersOf(duty *cast) int {
	var own []task.PeerID
	for _, mine := range c.byID[duty.message.ID] {
		for _, r := range mine.regions {
			for _, peer := range r.tried {
				if !slices.Contains(own, peer) {
					own = append(own, peer)
				}
			}
		}
	}
	return max(duty.peers, len(own))
}

func (c *cast) reply() CastReply {
	return CastReply{
		ID: c.message.ID, Space: c.message.Space, Data: c.data,
		Reached: c.reached, Suspect: c.suspects, Depth: c.depth, Peers: c.peers,
	}
}

// passCasts gives silent regions to second contacts and ends duties whose
// time is over.
func (o *Overlay) passCasts() {
	for _, duty := range slices.Clone(o.casts.active) {
		if duty.finished {
			continue // meanwhile
		}
		if !o.now.Before(duty.deadline) {
			o.giveUp(duty)
			continue
		}
		if duty.repairing {
			continue // nobody is asked in place of a member that was missed
		}
		for _, r := range duty.regions {
			if r.acked || r.replied || r.given || o.now.Before(r.next) {
				continue
			}
			o.distrust(r.current)
			duty.suspects = append(duty.suspects, r.current)
			o.forward(duty, r)
		}
		o.conclude(duty)
	}
	o.casts.forget(o.now)
}

// giveUp ends a duty without those that have not answered in time.
func (o *Overlay) giveUp(duty *cast) {
	for _, r := range duty.regions {
		if !r.acked && r.current != "" {
			o.distrust(r.current)
			duty.suspects = append(duty.suspects, r.current)
		}
	}
	duty.answered = true
	o.finish(duty)
}
