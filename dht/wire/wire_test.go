package wire

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"io"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/pilotage-grid/pilotage/dht"
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
			TTL: time.Duration(rapid.Int64Range(0, int64(30*24*time.Hour)).Draw(t, "ttl")),
		}
	})
	casts = rapid.Custom(func(t *rapid.T) dht.CastID {
		return dht.CastID{Root: peers.Draw(t, "root"), N: rapid.Uint64().Draw(t, "n")}
	})
	denials = rapid.Custom(func(t *rapid.T) dht.Denial {
		return dht.Denial{Peers: several(peers, 3).Draw(t, "denied"), Signature: rapid.SliceOfN(rapid.Byte(), 1, 72).Draw(t, "signature")}
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
		func() dht.Message {
			return dht.Welcome{Missed: rapid.Bool().Draw(t, "missed"), Denial: denials.Draw(t, "denial")}
		},
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
				Path: several(rapid.Uint64(), 5).Draw(t, "path"), Budget: time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "budget")),
				Reply: rapid.Bool().Draw(t, "reply"), Gone: several(peers, 5).Draw(t, "gone"), Suspect: several(peers, 5).Draw(t, "suspect"),
				Payload: blobs.Draw(t, "payload"), Denial: denials.Draw(t, "denial"),
			}
		},
		func() dht.Message { return dht.CastAck{ID: casts.Draw(t, "id"), Space: spaces.Draw(t, "s")} },
		func() dht.Message {
			return dht.CastReply{
				ID: casts.Draw(t, "id"), Space: spaces.Draw(t, "s"), Data: several(blobs, 3).Draw(t, "data"),
				Reached: several(rapid.Uint64(), 5).Draw(t, "reached"), Suspect: several(peers, 5).Draw(t, "suspect"),
				Depth: rapid.IntRange(0, 1<<10).Draw(t, "depth"),
			}
		},
		func() dht.Message {
			return dht.Put{N: number, Records: several(records, 5).Draw(t, "records"), Sure: rapid.Bool().Draw(t, "sure")}
		},
		func() dht.Message {
			return dht.PutAck{N: number, Near: several(members, 4).Draw(t, "near"), Passed: several(rapid.Uint64(), 4).Draw(t, "passed")}
		},
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
	member := dht.Member{Peer: "m"}
	cast := func(change func(*dht.Cast)) dht.Message {
		c := dht.Cast{ID: dht.CastID{Root: "r"}, Kind: dht.CastBeat, Master: member, Space: dht.WholeSpace()}
		change(&c)
		return c
	}
	put := func(r dht.Record) dht.Message { return dht.Put{Records: []dht.Record{r}} }
	for reason, message := range map[string]dht.Message{
		"Kind: 9 is not from 1 to 2":            cast(func(c *dht.Cast) { c.Kind = 9 }),
		"no kind of broadcast":                  cast(func(c *dht.Cast) { c.Kind = 0 }),
		"Path: 65 items, at most 64":            cast(func(c *dht.Cast) { c.Path = make([]uint64, 65) }),
		"Suspect: 50001 items, at most 50000":   cast(func(c *dht.Cast) { c.Suspect = slices.Repeat([]task.PeerID{"s"}, 50_001) }),
		"Suspect: 0 bytes, at least 1":          cast(func(c *dht.Cast) { c.Suspect = []task.PeerID{""} }),
		"Budget: -1 is not from 0":              cast(func(c *dht.Cast) { c.Budget = -1 }),
		"a broadcast without a root":            cast(func(c *dht.Cast) { c.ID = dht.CastID{} }),
		"ends before it begins":                 cast(func(c *dht.Cast) { c.Space.First, c.Space.Last = c.Space.Last, c.Space.First }),
		"a member without a peer id":            cast(func(c *dht.Cast) { c.Master = dht.Member{} }),
		"Master: Addresses: 17 items":           cast(func(c *dht.Cast) { c.Master.Addresses = slices.Repeat([]string{"a"}, 17) }),
		"Master: Addresses: 0 bytes":            cast(func(c *dht.Cast) { c.Master.Addresses = []string{""} }),
		"Term: Peer: 129 bytes, at most 128":    cast(func(c *dht.Cast) { c.Term.Peer = task.PeerID(strings.Repeat("x", 129)) }),
		"Gone: 0 bytes, at least 1":             cast(func(c *dht.Cast) { c.Gone = []task.PeerID{""} }),
		"Hello: a member without a peer id":     dht.Hello{},
		"Office: a member without a peer id":    dht.Office{},
		"CastReply: a broadcast without a root": dht.CastReply{},
		"Records: File: 1101 bytes":             put(dht.Record{File: task.FileKey(strings.Repeat("x", maxFile+1)), Holder: "h"}),
		`a location of the file "f" at ""`:      put(dht.Record{File: "f"}),
		"TTL: 2592000000000001 is not from 0":   put(dht.Record{File: "f", Holder: "h", TTL: 30*24*time.Hour + 1}),
	} {
		decodeRefuses(t, reason, forms.Append([]byte{plainForm}, &message))
	}
	key := forms.Append(nil, new(cast(func(*dht.Cast) {})))
	for reason, body := range map[string][]byte{
		"no kind of dht.Message":             {plainForm},
		"a message in an unknown form":       {packedForm + 1},
		"it ends too early":                  append([]byte{plainForm}, key[:len(key)-1]...),
		"unpack 3 bytes":                     {packedForm, 1, 2, 3},
		"no kind of dht.Message that this v": pack(pack(append([]byte{plainForm}, make([]byte, 100)...))),
		// A bomb: some kilobytes that would unpack to more than a message is.
		"at most to 33554432": pack(make([]byte, MaxUnpacked+2)),
	} {
		decodeRefuses(t, reason, body)
	}
}

func decodeRefuses(t *testing.T, reason string, body []byte) {
	t.Helper()
	message, err := Decode(body)
	if !errors.Is(err, ErrMalformed) || !strings.Contains(err.Error(), reason) {
		t.Errorf("%s: %T, %v", reason, message, err)
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
