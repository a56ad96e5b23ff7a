package wire

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"pgregory.net/rapid"

	"github.com/pilotage-grid/pilotage/dht"
	pb "github.com/pilotage-grid/pilotage/proto/pilotage/v1"
	"github.com/pilotage-grid/pilotage/task"
)

var (
	peers = rapid.Custom(func(t *rapid.T) task.PeerID {
		return task.PeerID(rapid.StringMatching(`12D3KooW[A-Za-z0-9]{1,8}`).Draw(t, "peer"))
	})
	terms = rapid.Custom(func(t *rapid.T) task.Term {
		return task.Term{Epoch: rapid.Uint64().Draw(t, "epoch"), Ballot: rapid.Uint64().Draw(t, "ballot"), Peer: peers.Draw(t, "term peer")}
	})
	members = rapid.Custom(func(t *rapid.T) dht.Member {
		return dht.Member{
			Peer: peers.Draw(t, "member"), Pilot: task.PilotID(rapid.StringMatching(`(p-[a-z]{8})?`).Draw(t, "pilot")),
			Addresses: several(rapid.StringMatching(`/ip4/10\.0\.0\.[1-9]/tcp/[1-9]{4}`), 3).Draw(t, "addresses"),
			DataURL:   rapid.StringMatching(`(https://10\.0\.0\.[1-9]:[1-9]{4})?`).Draw(t, "url"),
		}
	})
	spaces = rapid.Custom(func(t *rapid.T) dht.Range {
		var r dht.Range
		copy(r.First[:], rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(t, "first"))
		copy(r.Last[:], rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(t, "last"))
		if r.Last.Less(r.First) {
			r.First, r.Last = r.Last, r.First
		}
		return r
	})
	files   = rapid.Custom(func(t *rapid.T) task.FileKey { return task.FileKey(rapid.StringN(1, 40, 1000).Draw(t, "file")) })
	records = rapid.Custom(func(t *rapid.T) dht.Record {
		return dht.Record{
			File: files.Draw(t, "file"), Holder: peers.Draw(t, "holder"), DataURL: "https://10.0.0.1:1",
			Seq: rapid.Uint64().Draw(t, "seq"), Gone: rapid.Bool().Draw(t, "gone"),
			TTL: time.Duration(rapid.Int64Range(0, int64(maxTTL)).Draw(t, "ttl")),
		}
	})
	casts = rapid.Custom(func(t *rapid.T) dht.CastID {
		return dht.CastID{Root: peers.Draw(t, "root"), N: rapid.Uint64().Draw(t, "n")}
	})
	blobs = rapid.Custom(func(t *rapid.T) []byte {
		blob := bytes.Repeat(rapid.SliceOfN(rapid.Byte(), 1, 40).Draw(t, "blob"), rapid.IntRange(0, 200).Draw(t, "times"))
		if len(blob) == 0 {
			return nil
		}
		return blob
	})
)

// several draws a list; an empty one is nil, as everywhere in the core.
func several[T any](one *rapid.Generator[T], most int) *rapid.Generator[[]T] {
	return rapid.Custom(func(t *rapid.T) []T {
		list := rapid.SliceOfN(one, 0, most).Draw(t, "list")
		if len(list) == 0 {
			return nil
		}
		return list
	})
}

// messages draws every kind of message.
var messages = rapid.Custom(func(t *rapid.T) dht.Message {
	number := rapid.Uint64().Draw(t, "number")
	kinds := []func() dht.Message{
		func() dht.Message { return dht.Hello{Member: members.Draw(t, "m")} },
		func() dht.Message { return dht.Welcome{Missed: rapid.Bool().Draw(t, "missed")} },
		func() dht.Message { return dht.Near{Members: several(members, 4).Draw(t, "near")} },
		func() dht.Message { return dht.Office{Term: terms.Draw(t, "t"), Master: members.Draw(t, "m")} },
		func() dht.Message { return dht.MasterDead{Term: terms.Draw(t, "t")} },
		func() dht.Message { return dht.Ping{N: number} },
		func() dht.Message { return dht.Pong{N: number} },
		func() dht.Message { return dht.Bye{} },
		func() dht.Message {
			return dht.Cast{
				ID: casts.Draw(t, "id"), Kind: rapid.SampledFrom([]dht.CastKind{dht.CastBeat, dht.CastPayload}).Draw(t, "kind"),
				Term: terms.Draw(t, "t"), Master: members.Draw(t, "m"), Space: spaces.Draw(t, "s"),
				Path: several(rapid.Uint64(), 5).Draw(t, "path"), Budget: time.Duration(rapid.Int64Range(0, int64(maxBudget)).Draw(t, "budget")),
				Reply: rapid.Bool().Draw(t, "reply"), Gone: several(peers, 5).Draw(t, "gone"), Suspect: several(peers, 5).Draw(t, "suspect"),
				Payload: blobs.Draw(t, "payload"),
			}
		},
		func() dht.Message { return dht.CastAck{ID: casts.Draw(t, "id"), Space: spaces.Draw(t, "s")} },
		func() dht.Message {
			return dht.CastReply{
				ID: casts.Draw(t, "id"), Space: spaces.Draw(t, "s"), Data: several(blobs, 3).Draw(t, "data"),
				Reached: several(rapid.Uint64(), 5).Draw(t, "reached"), Suspect: several(peers, 5).Draw(t, "suspect"),
				Depth: rapid.IntRange(0, maxDepth).Draw(t, "depth"),
			}
		},
		func() dht.Message {
			return dht.Put{N: number, Records: several(records, 5).Draw(t, "records"), Sure: rapid.Bool().Draw(t, "sure")}
		},
		func() dht.Message { return dht.PutAck{N: number, Near: several(members, 4).Draw(t, "near")} },
		func() dht.Message {
			return dht.Find{N: number, Files: several(files, 5).Draw(t, "files"), Sure: rapid.Bool().Draw(t, "sure")}
		},
		func() dht.Message {
			return dht.Found{N: number, Records: several(records, 5).Draw(t, "records"), Near: several(members, 4).Draw(t, "near")}
		},
		func() dht.Message { return dht.App{Data: blobs.Draw(t, "data")} },
	}
	return kinds[rapid.IntRange(0, len(kinds)-1).Draw(t, "kind of message")]()
})

func TestEveryMessageComesBackAsItWas(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sent := rapid.SliceOfN(messages, 1, 5).Draw(t, "messages")
		var stream []byte
		for _, message := range sent {
			var err error
			if stream, err = Append(stream, message); err != nil {
				t.Fatal(err)
			}
		}
		reader := bufio.NewReader(bytes.NewReader(stream))
		for i, want := range sent {
			frame, err := ReadFrame(reader)
			if err != nil {
				t.Fatalf("message %d: %v", i, err)
			}
			got, err := Decode(frame)
			if err != nil {
				t.Fatalf("message %d: %v", i, err)
			}
			if !reflect.DeepEqual(plain(got), plain(want)) {
				t.Fatalf("message %d came back as\n%#v, it was\n%#v", i, got, want)
			}
		}
		if _, err := ReadFrame(reader); !errors.Is(err, io.EOF) {
			t.Fatalf("after the last message: %v, want EOF", err)
		}
	})
}

// plain takes nil and empty replies for the same: protobuf does not tell.
func plain(message dht.Message) dht.Message {
	if reply, ok := message.(dht.CastReply); ok {
		for i := range reply.Data {
			reply.Data[i] = append([]byte{}, reply.Data[i]...)
		}
		return reply
	}
	return message
}

func TestLargePayloadsAreCompressed(t *testing.T) {
	payload := bytes.Repeat([]byte("task list "), 10_000)
	cast := dht.Cast{
		ID: dht.CastID{Root: "r"}, Kind: dht.CastPayload, Master: dht.Member{Peer: "r"}, Space: dht.WholeSpace(),
		Payload: PackPayload(payload),
	}
	framed, err := Append(nil, cast)
	if err != nil {
		t.Fatal(err)
	}
	if len(framed) > len(payload)/20 {
		t.Errorf("100 kB of repeated words take %d bytes", len(framed))
	}
	random := make([]byte, 100_000)
	_, _ = rand.Read(random)
	framed, err = Append(nil, dht.App{Data: random})
	if err != nil {
		t.Fatal(err)
	}
	if len(framed) > len(random)+20 {
		t.Errorf("100,000 random bytes grow to %d", len(framed))
	}
}

func TestAppendRefusesWhatIsTooLarge(t *testing.T) {
	if _, err := Append(nil, dht.App{Data: make([]byte, MaxUnpacked)}); !errors.Is(err, ErrTooLarge) {
		t.Errorf("more than MaxUnpacked of zeros: %v, want ErrTooLarge", err)
	}
	random := make([]byte, MaxMessage+1)
	_, _ = rand.Read(random)
	if _, err := Append(nil, dht.App{Data: random}); !errors.Is(err, ErrTooLarge) {
		t.Errorf("more than MaxMessage of random bytes: %v, want ErrTooLarge", err)
	}
}

func TestReadFrameRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		input []byte
		want  error
	}{
		"a length of zero":     {[]byte{0}, ErrMalformed},
		"a huge length":        {binary.AppendUvarint(nil, MaxMessage+1), ErrMalformed},
		"an endless length":    {bytes.Repeat([]byte{0xff}, 11), nil},
		"half a length":        {[]byte{0x80}, io.ErrUnexpectedEOF},
		"half a message":       {[]byte{5, 1, 2}, io.ErrUnexpectedEOF},
		"8 MiB that never end": {append(binary.AppendUvarint(nil, MaxMessage), 1), io.ErrUnexpectedEOF},
	} {
		_, err := ReadFrame(bufio.NewReader(bytes.NewReader(c.input)))
		if err == nil || errors.Is(err, io.EOF) || c.want != nil && !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

func TestDecodeRefuses(t *testing.T) {
	key := make([]byte, 32)
	whole := &pb.OverlayRange{First: key, Last: bytes.Repeat([]byte{0xff}, 32)}
	member := &pb.OverlayMember{Peer: "m"}
	cast := func(change func(*pb.OverlayCast)) *pb.OverlayMessage {
		c := &pb.OverlayCast{Id: &pb.OverlayCastId{Root: "r"}, Kind: 1, Master: member, Space: whole}
		change(c)
		return &pb.OverlayMessage{Body: &pb.OverlayMessage_Cast{Cast: c}}
	}
	zstd := func(inside []byte) *pb.OverlayMessage {
		return &pb.OverlayMessage{Body: &pb.OverlayMessage_Zstd{Zstd: inside}}
	}
	put := func(r *pb.OverlayRecord) *pb.OverlayMessage {
		return &pb.OverlayMessage{Body: &pb.OverlayMessage_Put{Put: &pb.OverlayPut{Records: []*pb.OverlayRecord{r}}}}
	}
	nested, err := proto.Marshal(zstd(compress([]byte{})))
	if err != nil {
		t.Fatal(err)
	}
	for field, envelope := range map[string]*pb.OverlayMessage{
		"no body":                   {},
		"cast.kind 9":               cast(func(c *pb.OverlayCast) { c.Kind = 9 }),
		"cast.path has 65":          cast(func(c *pb.OverlayCast) { c.Path = make([]uint64, 65) }),
		"cast.suspect has":          cast(func(c *pb.OverlayCast) { c.Suspect = make([]string, maxMembers+1) }),
		"cast.suspect is empty":     cast(func(c *pb.OverlayCast) { c.Suspect = []string{""} }),
		"cast.budget is not":        cast(func(c *pb.OverlayCast) { c.Budget = durationpb.New(-1) }),
		"id.root is empty":          cast(func(c *pb.OverlayCast) { c.Id = nil }),
		"space.first has 0":         cast(func(c *pb.OverlayCast) { c.Space = nil }),
		"space ends before":         cast(func(c *pb.OverlayCast) { c.Space = &pb.OverlayRange{First: whole.Last, Last: key} }),
		"cast.master.peer is empty": cast(func(c *pb.OverlayCast) { c.Master = nil }),
		"cast.master.addresses has": cast(func(c *pb.OverlayCast) { c.Master = &pb.OverlayMember{Peer: "m", Addresses: make([]string, 17)} }),
		"term.peer has 129":         cast(func(c *pb.OverlayCast) { c.Term = &pb.OverlayTerm{Peer: strings.Repeat("x", 129)} }),
		"cast.gone is empty":        cast(func(c *pb.OverlayCast) { c.Gone = []string{""} }),
		"records.file has":          put(&pb.OverlayRecord{File: strings.Repeat("x", maxFile+1), Holder: "h"}),
		"records.holder is empty":   put(&pb.OverlayRecord{File: "f"}),
		"records.ttl is not":        put(&pb.OverlayRecord{File: "f", Holder: "h", Ttl: durationpb.New(maxTTL + 1)}),
		"inside a compressed one":   zstd(compress(nested)),
		"unpack 3 bytes":            zstd([]byte{1, 2, 3}),
		// A bomb: some kilobytes that would unpack to more than a message is.
		"at most to 33554432": zstd(compress(make([]byte, MaxUnpacked+1))),
	} {
		body, err := proto.Marshal(envelope)
		if err != nil {
			t.Fatal(err)
		}
		message, err := Decode(body)
		if !errors.Is(err, ErrMalformed) || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: %T, %v", field, message, err)
		}
	}
}

func TestPayloadsComeBackAsTheyWere(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		payload := blobs.Draw(t, "payload")
		back, err := UnpackPayload(PackPayload(payload))
		if err != nil || !bytes.Equal(back, payload) {
			t.Fatalf("%d bytes came back as %d: %v", len(payload), len(back), err)
		}
	})
}

func FuzzUnpackPayload(f *testing.F) {
	for _, form := range [][]byte{nil, {0}, {2, 1}, {1, 0x28, 0xb5}, PackPayload(bytes.Repeat([]byte("task"), 1000))} {
		f.Add(form)
	}
	f.Fuzz(func(t *testing.T, form []byte) {
		payload, err := UnpackPayload(form)
		if err != nil && !errors.Is(err, ErrMalformed) {
			t.Fatalf("%v", err)
		}
		if len(payload) > MaxUnpacked {
			t.Fatalf("%d bytes", len(payload))
		}
	})
}

func FuzzDecode(f *testing.F) {
	for _, message := range []dht.Message{
		dht.Ping{N: 1},
		dht.Hello{Member: dht.Member{Peer: "p", Pilot: "p-abcdefgh", Addresses: []string{"/ip4/10.0.0.1/tcp/1"}, DataURL: "https://10.0.0.1:1"}},
		dht.Cast{ID: dht.CastID{Root: "r", N: 1}, Kind: dht.CastPayload, Master: dht.Member{Peer: "r"}, Space: dht.WholeSpace(), Payload: []byte("x")},
		dht.Put{N: 1, Records: []dht.Record{{File: "lfn:a", Holder: "p", Seq: 1, TTL: time.Minute}}},
		dht.App{Data: bytes.Repeat([]byte("abc"), 1000)},
	} {
		framed, err := Append(nil, message)
		if err != nil {
			f.Fatal(err)
		}
		_, prefix := binary.Uvarint(framed)
		f.Add(framed[prefix:])
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		message, err := Decode(body)
		if err != nil {
			if !errors.Is(err, ErrMalformed) {
				t.Fatalf("an error of another kind: %v", err)
			}
			return
		}
		framed, err := Append(nil, message)
		if err != nil {
			t.Fatalf("what was read cannot be sent on: %v", err)
		}
		_, prefix := binary.Uvarint(framed)
		again, err := Decode(framed[prefix:])
		if err != nil || !reflect.DeepEqual(again, message) {
			t.Fatalf("sent on it becomes %#v (%v), it was %#v", again, err, message)
		}
	})
}
