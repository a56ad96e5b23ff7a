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
	message  Cast
	parents  []task.PeerID // none at the root
	user     uint64        // the root's Broadcast.N
	regions  []*region
	data     [][]byte
	reached  []uint64
	suspects []task.PeerID
	depth    int
	deadline time.Time // replies that come later are dropped
	answered bool      // the local reply is in
	finished bool
	repaired bool // the root has gone after those that were missed
	peers    int  // sent to by this node in the tree
	forget   time.Time
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

// answer is this pilot's own reply to a broadcast.
type answer struct {
	data      []byte
	given     bool
	delivered bool
	forget    time.Time
}

// broadcast starts one for the user.
func (o *Overlay) broadcast(e Broadcast) {
	o.startCast(CastPayload, e.N, e.Payload, e.Reply)
}

func (o *Overlay) startCast(kind CastKind, user uint64, payload []byte, reply bool) {
	o.castCount++
	message := Cast{
		ID: CastID{Root: o.self.Peer, N: o.castCount}, Kind: kind,
		Term: o.office.term, Master: o.office.master, Space: WholeSpace(),
		Reply: reply, Roster: o.recent(), Payload: payload,
	}
	message.Budget = o.budget(len(o.known().within(message.Space)))
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
	if o.leaving || !o.heardMaster(from, m.Term, m.Master) {
		return
	}
	o.applyRoster(from, m.Roster)
	for _, peer := range m.Suspect {
		if peer != o.self.Peer && !o.isSuspect(peer) {
			o.suspect[peer] = o.now.Add(o.config.Suspicion / 2)
		}
	}
	o.send(from, CastAck{ID: m.ID, Space: m.Space})
	if duty, known := o.casts[castKey{m.ID, m.Space}]; known {
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
	o.casts[castKey{m.ID, m.Space}] = duty
	o.deliver(duty)
	for _, space := range o.divide(m) {
		r := &region{space: space}
		duty.regions = append(duty.regions, r)
		o.forward(duty, r)
	}
	duty.peers = len(duty.regions)
	o.conclude(duty)
}

// deliver hands a payload to the user once, and this pilot's reply to the
// duty as soon as it is there.
func (o *Overlay) deliver(duty *cast) {
	m := duty.message
	if m.Kind != CastPayload {
		duty.answered = true
		return
	}
	mine := o.answers[m.ID]
	if mine == nil {
		mine = &answer{forget: o.now.Add(m.Budget + forgetCasts)}
		o.answers[m.ID] = mine
	}
	if !mine.delivered {
		mine.delivered = true
		o.act(Deliver{ID: m.ID, From: m.ID.Root, Payload: m.Payload, Reply: m.Reply})
	}
	switch {
	case !m.Reply:
		duty.answered = true
	case mine.given:
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
	mine := o.answers[e.ID]
	if mine == nil || mine.given {
		return
	}
	mine.given, mine.data = true, e.Data
	for _, duty := range o.sortedCasts() {
		if duty.message.ID == e.ID && !duty.answered {
			duty.answered = true
			duty.take(e.Data)
			o.conclude(duty)
		}
	}
}

// divide splits a broadcast's space into at most Fanout regions, each with at
// least one known member that has not got it yet; together they are the whole
// space, so members not known here are covered by whoever knows them.
func (o *Overlay) divide(m Cast) []Range {
	var keys []Key
	for _, e := range o.known().within(m.Space) {
		if o.mayCover(e, m) {
			keys = append(keys, e.key)
		}
	}
	space := m.Space
	groups := min(o.config.Fanout, len(keys))
	regions := make([]Range, 0, groups)
	first := space.First
	for g := range groups {
		last := space.Last
		if g+1 < groups {
			last = keys[(g+1)*len(keys)/groups].previous()
		}
		regions = append(regions, Range{first, last})
		first = last.next()
	}
	return regions
}

// forward gives a region to its next contact.
func (o *Overlay) forward(duty *cast, r *region) {
	contact, found := o.contact(duty, r)
	if !found {
		r.given = true
		return
	}
	r.current, r.acked = contact, false
	r.tried = append(r.tried, contact)
	r.next = o.now.Add(o.config.HopAck)
	m := duty.message
	m.Space, m.Path = r.space, append(slices.Clone(m.Path), o.selfKey.Short())
	m.Budget = max(duty.deadline.Sub(o.now)-o.config.ReplyHop, o.config.ReplyHop/2)
	m.Suspect = o.suspects()
	o.send(contact, m)
}

// mayCover tells whether a member may be given a region: not this pilot and
// none of those above it in the tree.
func (o *Overlay) mayCover(e entry, m Cast) bool {
	return e.member.Peer != o.self.Peer && !o.denied[e.member.Peer] && !slices.Contains(m.Path, e.key.Short())
}

// contact picks a member of a region that has not been tried: spread by the
// broadcast's number, suspects last.
func (o *Overlay) contact(duty *cast, r *region) (task.PeerID, bool) {
	members := o.known().within(r.space)
	var fallback task.PeerID
	for i := range members {
		candidate := members[(i+int(duty.message.ID.N))%len(members)]
		peer := candidate.member.Peer
		switch {
		case !o.mayCover(candidate, duty.message) || slices.Contains(r.tried, peer):
		case o.isSuspect(peer):
			if fallback == "" {
				fallback = peer
			}
		default:
			return peer, true
		}
	}
	return fallback, fallback != ""
}

// maxSuspects bounds the suspicion that travels with a broadcast.
const maxSuspects = 64

func (o *Overlay) suspects() []task.PeerID {
	var peers []task.PeerID
	for _, peer := range sortedPeers(o.suspect) {
		if o.isSuspect(peer) && len(peers) < maxSuspects {
			peers = append(peers, peer)
		}
	}
	return peers
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
	duty.depth = max(duty.depth, m.Depth)
	for _, peer := range m.Suspect {
		if !o.isSuspect(peer) {
			o.distrust(peer)
		}
	}
	o.conclude(duty)
}

func (o *Overlay) findRegion(id CastID, space Range) (*cast, *region) {
	for _, duty := range o.casts {
		if duty.message.ID != id {
			continue
		}
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
	for _, duty := range o.sortedCasts() {
		for _, r := range duty.regions {
			waiting := !r.acked || duty.message.Reply && !r.replied
			if r.current == peer && waiting && !duty.finished {
				o.distrust(peer)
				o.forward(duty, r)
			}
		}
		o.conclude(duty)
	}
}

// forgetCasts is how long a finished duty is remembered, so that duplicates
// are recognised.
const forgetCasts = 20 * time.Second

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

func (o *Overlay) finish(duty *cast) {
	if duty.parents == nil && duty.message.Reply && o.repair(duty) {
		return
	}
	duty.finished = true
	duty.forget = o.now.Add(forgetCasts)
	if !duty.message.Reply {
		return
	}
	if duty.parents != nil {
		for _, parent := range duty.parents {
			o.send(parent, duty.reply())
		}
		return
	}
	missed := o.missed(duty)
	for _, peer := range missed {
		o.distrust(peer)
	}
	o.act(Done{
		N: duty.user, Data: duty.data, Reached: o.roster.Len() - len(missed),
		Missed: missed, Depth: duty.depth, Peers: duty.peers,
	})
	duty.data = nil
}

func (c *cast) reply() CastReply {
	return CastReply{
		ID: c.message.ID, Space: c.message.Space, Data: c.data,
		Reached: c.reached, Suspect: c.suspects, Depth: c.depth,
	}
}

// missed lists members of the roster that no reply accounts for.
func (o *Overlay) missed(duty *cast) []task.PeerID {
	reached := make(map[uint64]bool, len(duty.reached))
	for _, short := range duty.reached {
		reached[short] = true
	}
	var missed []task.PeerID
	for _, e := range o.roster.sorted {
		if !reached[e.key.Short()] {
			missed = append(missed, e.member.Peer)
		}
	}
	return missed
}

// repair sends a broadcast straight to those that the tree missed; it tells
// whether there was anybody to go after.
func (o *Overlay) repair(duty *cast) bool {
	if duty.repaired {
		return false
	}
	duty.repaired = true
	missed := o.missed(duty)
	if len(missed) == 0 {
		return false
	}
	duty.deadline = o.now.Add(o.config.ReplyHop + o.config.HopAck)
	duty.regions = nil
	for _, peer := range missed {
		key := KeyOfPeer(peer)
		r := &region{space: Range{key, key}}
		duty.regions = append(duty.regions, r)
		o.forward(duty, r)
	}
	return true
}

// passCasts gives silent regions to second contacts and ends duties whose
// time is over.
func (o *Overlay) passCasts() {
	for _, duty := range o.sortedCasts() {
		if duty.finished {
			if !o.now.Before(duty.forget) {
				delete(o.casts, castKey{duty.message.ID, duty.message.Space})
			}
			continue
		}
		if !o.now.Before(duty.deadline) {
			for _, r := range duty.regions {
				if !r.acked && r.current != "" {
					duty.suspects = append(duty.suspects, r.current)
				}
			}
			duty.answered = true
			o.finish(duty)
			continue
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
	for id, mine := range o.answers {
		if !o.now.Before(mine.forget) {
			delete(o.answers, id)
		}
	}
}

func (c *cast) nextDeadline() time.Time {
	if c.finished {
		return c.forget
	}
	first := c.deadline
	for _, r := range c.regions {
		if !r.acked && !r.replied && !r.given && r.next.Before(first) {
			first = r.next
		}
	}
	return first
}

// sortedCasts lists the duties in a fixed order, so that decisions do not
// depend on the order of a map.
func (o *Overlay) sortedCasts() []*cast {
	duties := make([]*cast, 0, len(o.casts))
	for _, duty := range o.casts {
		duties = append(duties, duty)
	}
	slices.SortFunc(duties, func(a, b *cast) int {
		if a.message.ID != b.message.ID {
			if a.message.ID.Root != b.message.ID.Root {
				return compare(a.message.ID.Root < b.message.ID.Root)
			}
			return compare(a.message.ID.N < b.message.ID.N)
		}
		return a.message.Space.First.Compare(b.message.Space.First)
	})
	return duties
}

func compare(less bool) int {
	if less {
		return -1
	}
	return 1
}
