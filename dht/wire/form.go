package wire

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"time"

	"github.com/pilotage-grid/pilotage/dht"
	"github.com/pilotage-grid/pilotage/internal/codec"
)

// kinds are what members say. Their numbers are their places: new ones go to the end.
var kinds = codec.Union[dht.Message](
	dht.Hello{}, dht.Welcome{}, dht.Office{}, dht.MasterDead{}, dht.Ping{}, dht.Pong{}, dht.Bye{}, dht.Cast{}, dht.CastAck{},
	dht.CastReply{}, dht.Put{}, dht.PutAck{}, dht.Find{}, dht.Found{}, dht.Near{}, dht.App{},
)

// limits are what a message must keep to: by type, and by field where one is
// narrower or wider than its type.
var limits = map[string]codec.Range{
	"text": codec.UpTo(1024), "list": codec.UpTo(50_000), "int": {Least: math.MinInt32, Most: math.MaxInt32},

	"task.PeerID":  {Least: 1, Most: 128}, // Ed25519 ids have 52
	"task.PilotID": codec.UpTo(64), "task.FileKey": {Least: 1, Most: maxFile},
	"dht.Member.Addresses": codec.UpTo(16), "dht.Member.Addresses[]": {Least: 1, Most: 256},
	"dht.Cast.Kind": {Least: int64(dht.CastBeat), Most: int64(dht.CastPayload)}, "dht.Cast.Path": codec.UpTo(64),
	"dht.Cast.Budget": {Least: 0, Most: int64(time.Hour)}, "dht.Cast.Payload": codec.UpTo(MaxUnpacked),
	"dht.CastReply.Data[]": codec.UpTo(MaxUnpacked), "dht.CastReply.Depth": codec.UpTo(1 << 10), "dht.CastReply.Peers": codec.UpTo(1 << 10),
	"dht.Grant.Signature": codec.UpTo(128), "dht.Denial.Signature": codec.UpTo(128), "dht.Bye.Resignation": codec.UpTo(128),
	"dht.Record.TTL": {Least: 0, Most: int64(30 * 24 * time.Hour)}, "dht.Put.Records": codec.UpTo(maxRecords),
	"dht.Found.Records": codec.UpTo(maxRecords), "dht.Find.Files": codec.UpTo(20_000), "dht.App.Data": codec.UpTo(MaxUnpacked),
}

// forms checks what no message of its kind is without.
var forms = codec.New([]reflect.Type{reflect.TypeFor[dht.Message]()}, kinds, codec.Limits(limits), codec.Items(2*maxRecords),
	codec.Check(func(m *dht.Hello) error { return member(m.Member) }),
	codec.Check(func(m *dht.Office) error { return member(m.Master) }),
	codec.Check(func(m *dht.Cast) error {
		if m.Kind == 0 {
			return errors.New("no kind of broadcast")
		}
		return errors.Join(broadcast(m.ID, m.Space), member(m.Master))
	}),
	codec.Check(func(m *dht.CastAck) error { return broadcast(m.ID, m.Space) }),
	codec.Check(func(m *dht.CastReply) error { return broadcast(m.ID, m.Space) }),
	codec.Check(func(r *dht.Record) error {
		if r.File == "" || r.Holder == "" {
			return fmt.Errorf("a location of the file %q at %q", r.File, r.Holder)
		}
		return nil
	}))

func member(m dht.Member) error {
	if m.Peer == "" {
		return errors.New("a member without a peer id")
	}
	return nil
}

func broadcast(id dht.CastID, space dht.Range) error {
	switch {
	case id.Root == "":
		return errors.New("a broadcast without a root")
	case space.Last.Less(space.First):
		return errors.New("a range of keys that ends before it begins")
	}
	return nil
}
