package wire

import (
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/pilotage-grid/pilotage/dht"
	pb "github.com/pilotage-grid/pilotage/proto/pilotage/v1"
	"github.com/pilotage-grid/pilotage/task"
)

// check translates a message and keeps the first thing that is wrong with it.
type check struct{ err error }

func (c *check) fail(format string, arguments ...any) {
	if c.err == nil {
		c.err = fmt.Errorf(format, arguments...)
	}
}

func (c *check) message(envelope *pb.OverlayMessage) dht.Message {
	switch body := envelope.GetBody().(type) {
	case *pb.OverlayMessage_Hello:
		return dht.Hello{Member: c.member("hello.member", body.Hello.GetMember())}
	case *pb.OverlayMessage_Welcome:
		return dht.Welcome{Missed: body.Welcome.GetMissed()}
	case *pb.OverlayMessage_Office:
		return dht.Office{Term: c.term(body.Office.GetTerm()), Master: c.member("office.master", body.Office.GetMaster())}
	case *pb.OverlayMessage_MasterDead:
		return dht.MasterDead{Term: c.term(body.MasterDead.GetTerm())}
	case *pb.OverlayMessage_Ping:
		return dht.Ping{N: body.Ping.GetNumber()}
	case *pb.OverlayMessage_Pong:
		return dht.Pong{N: body.Pong.GetNumber()}
	case *pb.OverlayMessage_Bye:
		return dht.Bye{}
	case *pb.OverlayMessage_App:
		return dht.App{Data: body.App.GetData()}
	case *pb.OverlayMessage_Zstd:
		c.fail("a compressed message inside a compressed one")
	case nil:
		c.fail("no body that this version knows")
	default:
		return c.castOrLocation(body, envelope)
	}
	return nil
}

func (c *check) castOrLocation(body any, envelope *pb.OverlayMessage) dht.Message {
	switch body.(type) {
	case *pb.OverlayMessage_Cast:
		return c.cast(envelope.GetCast())
	case *pb.OverlayMessage_CastAck:
		m := envelope.GetCastAck()
		return dht.CastAck{ID: c.castID(m.GetId()), Space: c.space(m.GetSpace())}
	case *pb.OverlayMessage_CastReply:
		return c.castReply(envelope.GetCastReply())
	case *pb.OverlayMessage_Put:
		m := envelope.GetPut()
		return dht.Put{N: m.GetNumber(), Records: c.records(m.GetRecords()), Sure: m.GetSure()}
	case *pb.OverlayMessage_PutAck:
		m := envelope.GetPutAck()
		return dht.PutAck{N: m.GetNumber(), Near: c.members("put_ack.near", m.GetNear())}
	case *pb.OverlayMessage_Find:
		m := envelope.GetFind()
		c.length("find.files", len(m.GetFiles()), maxFiles)
		return dht.Find{N: m.GetNumber(), Files: names[task.FileKey](c, "find.files", m.GetFiles(), maxFile), Sure: m.GetSure()}
	case *pb.OverlayMessage_Found:
		m := envelope.GetFound()
		return dht.Found{N: m.GetNumber(), Records: c.records(m.GetRecords()), Near: c.members("found.near", m.GetNear())}
	case *pb.OverlayMessage_Near:
		return dht.Near{Members: c.members("near.members", envelope.GetNear().GetMembers())}
	}
	c.fail("a body %T that this version does not know", body)
	return nil
}

func (c *check) cast(m *pb.OverlayCast) dht.Message {
	c.length("cast.path", len(m.GetPath()), maxPath)
	c.length("cast.suspect", len(m.GetSuspect()), maxMembers)
	c.length("cast.gone", len(m.GetGone()), maxMembers)
	kind := dht.CastKind(m.GetKind())
	if m.GetKind() != pb.OverlayCastKind_OVERLAY_CAST_KIND_BEAT && m.GetKind() != pb.OverlayCastKind_OVERLAY_CAST_KIND_PAYLOAD {
		c.fail("cast.kind %d is unknown", m.GetKind())
	}
	return dht.Cast{
		ID: c.castID(m.GetId()), Kind: kind, Term: c.term(m.GetTerm()), Master: c.member("cast.master", m.GetMaster()),
		Space: c.space(m.GetSpace()), Path: m.GetPath(), Budget: c.duration("cast.budget", m.GetBudget(), maxBudget),
		Reply: m.GetReply(), Gone: names[task.PeerID](c, "cast.gone", m.GetGone(), maxPeer),
		Suspect: names[task.PeerID](c, "cast.suspect", m.GetSuspect(), maxPeer), Payload: m.GetPayload(),
	}
}

func (c *check) castReply(m *pb.OverlayCastReply) dht.Message {
	c.length("cast_reply.data", len(m.GetData()), maxMembers)
	c.length("cast_reply.reached", len(m.GetReached()), maxMembers)
	c.length("cast_reply.suspect", len(m.GetSuspect()), maxMembers)
	c.length("cast_reply.depth", int(m.GetDepth()), maxDepth)
	c.length("cast_reply.peers", int(m.GetPeers()), maxPeers)
	return dht.CastReply{
		ID: c.castID(m.GetId()), Space: c.space(m.GetSpace()), Data: m.GetData(), Reached: m.GetReached(),
		Suspect: names[task.PeerID](c, "cast_reply.suspect", m.GetSuspect(), maxPeer), Depth: int(m.GetDepth()),
		Peers: int(m.GetPeers()),
	}
}

func (c *check) castID(id *pb.OverlayCastId) dht.CastID {
	return dht.CastID{Root: task.PeerID(c.name("id.root", id.GetRoot(), maxPeer)), N: id.GetNumber()}
}

func (c *check) space(r *pb.OverlayRange) dht.Range {
	space := dht.Range{First: c.key("space.first", r.GetFirst()), Last: c.key("space.last", r.GetLast())}
	if space.Last.Less(space.First) {
		c.fail("space ends before it begins")
	}
	return space
}

func (c *check) key(field string, raw []byte) (key dht.Key) {
	if len(raw) != len(key) {
		c.fail("%s has %d bytes instead of %d", field, len(raw), len(key))
		return key
	}
	copy(key[:], raw)
	return key
}

func (c *check) term(t *pb.OverlayTerm) task.Term {
	return task.Term{Epoch: t.GetEpoch(), Ballot: t.GetBallot(), Peer: task.PeerID(c.text("term.peer", t.GetPeer(), maxPeer))}
}

func (c *check) member(field string, m *pb.OverlayMember) dht.Member {
	c.length(field+".addresses", len(m.GetAddresses()), maxAddresses)
	member := dht.Member{
		Peer:    task.PeerID(c.name(field+".peer", m.GetPeer(), maxPeer)),
		Pilot:   task.PilotID(c.text(field+".pilot", m.GetPilot(), maxPilot)),
		DataURL: c.text(field+".data_url", m.GetDataUrl(), maxURL),
	}
	if c.err == nil {
		member.Addresses = names[string](c, field+".addresses", m.GetAddresses(), maxAddress)
	}
	return member
}

func (c *check) members(field string, list []*pb.OverlayMember) (members []dht.Member) {
	c.length(field, len(list), maxMembers)
	for _, m := range list {
		if c.err != nil {
			break
		}
		members = append(members, c.member(field, m))
	}
	return members
}

func (c *check) records(list []*pb.OverlayRecord) []dht.Record {
	c.length("records", len(list), maxRecords)
	var records []dht.Record
	for _, r := range list {
		if c.err != nil {
			break
		}
		records = append(records, dht.Record{
			File:    task.FileKey(c.name("records.file", r.GetFile(), maxFile)),
			Holder:  task.PeerID(c.name("records.holder", r.GetHolder(), maxPeer)),
			DataURL: c.text("records.data_url", r.GetDataUrl(), maxURL),
			Seq:     r.GetSequence(), Gone: r.GetGone(), TTL: c.duration("records.ttl", r.GetTtl(), maxTTL),
		})
	}
	return records
}

func (c *check) duration(field string, d *durationpb.Duration, most time.Duration) time.Duration {
	if d == nil {
		return 0
	}
	value := d.AsDuration()
	if d.CheckValid() != nil || value < 0 || value > most {
		c.fail("%s is not between 0 and %s", field, most)
	}
	return value
}

func (c *check) length(field string, length, most int) {
	if length > most {
		c.fail("%s has %d entries, at most %d", field, length, most)
	}
}

func (c *check) text(field, value string, most int) string {
	if len(value) > most {
		c.fail("%s has %d bytes, at most %d", field, len(value), most)
	}
	return value
}

func (c *check) name(field, value string, most int) string {
	if value == "" {
		c.fail("%s is empty", field)
	}
	return c.text(field, value, most)
}

// names translates a list of names; none may be empty.
func names[T ~string](c *check, field string, list []string, most int) []T {
	if c.err != nil || len(list) == 0 {
		return nil
	}
	out := make([]T, len(list))
	for i, value := range list {
		out[i] = T(c.name(field, value, most))
	}
	return out
}
