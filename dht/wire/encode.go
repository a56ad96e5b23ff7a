package wire

import (
	"fmt"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/pilotage-grid/pilotage/dht"
	pb "github.com/pilotage-grid/pilotage/proto/pilotage/v1"
	"github.com/pilotage-grid/pilotage/task"
)

func envelopeOf(message dht.Message) (*pb.OverlayMessage, error) {
	envelope := &pb.OverlayMessage{}
	switch m := message.(type) {
	case dht.Hello:
		envelope.Body = &pb.OverlayMessage_Hello{Hello: &pb.OverlayHello{Member: memberOf(m.Member)}}
	case dht.Welcome:
		envelope.Body = &pb.OverlayMessage_Welcome{Welcome: &pb.OverlayWelcome{Missed: m.Missed}}
	case dht.Office:
		envelope.Body = &pb.OverlayMessage_Office{Office: &pb.OverlayOffice{Term: termOf(m.Term), Master: memberOf(m.Master)}}
	case dht.MasterDead:
		envelope.Body = &pb.OverlayMessage_MasterDead{MasterDead: &pb.OverlayMasterDead{Term: termOf(m.Term)}}
	case dht.Ping:
		envelope.Body = &pb.OverlayMessage_Ping{Ping: &pb.OverlayPing{Number: m.N}}
	case dht.Pong:
		envelope.Body = &pb.OverlayMessage_Pong{Pong: &pb.OverlayPong{Number: m.N}}
	case dht.Bye:
		envelope.Body = &pb.OverlayMessage_Bye{Bye: &pb.OverlayBye{}}
	case dht.Cast:
		envelope.Body = &pb.OverlayMessage_Cast{Cast: castOf(m)}
	case dht.CastAck:
		envelope.Body = &pb.OverlayMessage_CastAck{CastAck: &pb.OverlayCastAck{Id: castIDOf(m.ID), Space: rangeOf(m.Space)}}
	case dht.CastReply:
		envelope.Body = &pb.OverlayMessage_CastReply{CastReply: &pb.OverlayCastReply{
			Id: castIDOf(m.ID), Space: rangeOf(m.Space), Data: m.Data, Reached: m.Reached,
			Suspect: texts(m.Suspect), Depth: uint32(m.Depth), Peers: uint32(m.Peers),
		}}
	case dht.Put:
		envelope.Body = &pb.OverlayMessage_Put{Put: &pb.OverlayPut{Number: m.N, Records: recordsOf(m.Records), Sure: m.Sure}}
	case dht.PutAck:
		envelope.Body = &pb.OverlayMessage_PutAck{PutAck: &pb.OverlayPutAck{Number: m.N, Near: membersOf(m.Near)}}
	case dht.Find:
		envelope.Body = &pb.OverlayMessage_Find{Find: &pb.OverlayFind{Number: m.N, Files: texts(m.Files), Sure: m.Sure}}
	case dht.Found:
		envelope.Body = &pb.OverlayMessage_Found{Found: &pb.OverlayFound{Number: m.N, Records: recordsOf(m.Records), Near: membersOf(m.Near)}}
	case dht.Near:
		envelope.Body = &pb.OverlayMessage_Near{Near: &pb.OverlayNear{Members: membersOf(m.Members)}}
	case dht.App:
		envelope.Body = &pb.OverlayMessage_App{App: &pb.OverlayApp{Data: m.Data}}
	default:
		return nil, fmt.Errorf("send %T: no form on the wire", message)
	}
	return envelope, nil
}

func castOf(m dht.Cast) *pb.OverlayCast {
	return &pb.OverlayCast{
		Id: castIDOf(m.ID), Kind: pb.OverlayCastKind(m.Kind), Term: termOf(m.Term), Master: memberOf(m.Master),
		Space: rangeOf(m.Space), Path: m.Path, Budget: durationpb.New(m.Budget), Reply: m.Reply,
		Gone: texts(m.Gone), Suspect: texts(m.Suspect), Payload: m.Payload,
	}
}

func castIDOf(id dht.CastID) *pb.OverlayCastId {
	return &pb.OverlayCastId{Root: string(id.Root), Number: id.N}
}

func rangeOf(r dht.Range) *pb.OverlayRange {
	return &pb.OverlayRange{First: r.First[:], Last: r.Last[:]}
}

func termOf(t task.Term) *pb.OverlayTerm {
	return &pb.OverlayTerm{Epoch: t.Epoch, Ballot: t.Ballot, Peer: string(t.Peer)}
}

func memberOf(m dht.Member) *pb.OverlayMember {
	return &pb.OverlayMember{Peer: string(m.Peer), Pilot: string(m.Pilot), Addresses: m.Addresses, DataUrl: m.DataURL}
}

func membersOf(members []dht.Member) []*pb.OverlayMember {
	list := make([]*pb.OverlayMember, len(members))
	for i, m := range members {
		list[i] = memberOf(m)
	}
	return list
}

func recordsOf(records []dht.Record) []*pb.OverlayRecord {
	list := make([]*pb.OverlayRecord, len(records))
	for i, r := range records {
		list[i] = &pb.OverlayRecord{
			File: string(r.File), Holder: string(r.Holder), DataUrl: r.DataURL,
			Sequence: r.Seq, Gone: r.Gone, Ttl: durationpb.New(r.TTL),
		}
	}
	return list
}

func texts[T ~string](list []T) []string {
	out := make([]string, len(list))
	for i, t := range list {
		out[i] = string(t)
	}
	return out
}
