package connlimit

import (
	"bytes"
	"encoding/binary"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"pgregory.net/rapid"
)

// TestCallsHoldWhatTheyBring has calls come and go on a connection, with messages in
// frames of any size, and its bytes arrive in pieces of any size: what is held is what
// the unanswered ones have brought, and little of a call with many small messages.
func TestCallsHoldWhatTheyBring(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const window = 500
		m := newMessages(window)
		var in, out bytes.Buffer
		in.WriteString(http2.ClientPreface)
		client, server := http2.NewFramer(&in, nil), http2.NewFramer(&out, nil)
		pass := func() {
			for _, way := range []struct {
				from *bytes.Buffer
				take func([]byte)
			}{{&in, func(b []byte) {
				if err := m.came(b); err != nil {
					t.Fatal(err)
				}
			}}, {&out, m.went}} {
				for way.from.Len() > 0 {
					way.take(way.from.Next(rapid.IntRange(1, 40).Draw(t, "piece")))
				}
			}
		}
		var header bytes.Buffer
		_ = hpack.NewEncoder(&header).WriteField(hpack.HeaderField{Name: ":path", Value: "/a/b"})
		type call struct{ all, largest, frames int64 }
		open := make(map[uint32]*call)
		last := uint32(1)
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			id := rapid.SampledFrom([]uint32{last, last, max(last, 3) - 2, 1}).Draw(t, "call")
			switch rapid.IntRange(0, 5).Draw(t, "what") {
			case 0, 1:
				last += 2
				_ = client.WriteHeaders(http2.HeadersFrameParam{StreamID: last, BlockFragment: header.Bytes(), EndHeaders: true})
				open[last] = &call{}
			case 2: // it is answered, or broken off
				if rapid.Bool().Draw(t, "answered") {
					_ = server.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: header.Bytes(), EndHeaders: true, EndStream: true})
				} else {
					_ = rapid.SampledFrom([]*http2.Framer{client, server}).Draw(t, "by").WriteRSTStream(id, http2.ErrCodeCancel)
				}
				delete(open, id)
			case 3: // what brings nothing
				_ = client.WritePing(false, [8]byte{1})
				_ = server.WriteWindowUpdate(id, 100)
				_ = server.WriteData(id, false, []byte("answer"))
			default: // a message, also of a call that has been answered
				n := rapid.IntRange(0, 2000).Draw(t, "message")
				text := append(binary.BigEndian.AppendUint32([]byte{0}, uint32(n)), make([]byte, n)...)
				frames := int64(0)
				for len(text) > 0 {
					n := rapid.IntRange(1, len(text)).Draw(t, "frame")
					_ = client.WriteData(id, false, text[:n])
					text = text[n:]
					frames++
				}
				if c := open[id]; c != nil {
					c.all += int64(n) + 5
					c.largest = max(c.largest, int64(n))
					c.frames += frames
				}
			}
			pass()
			var least, most int64
			for _, c := range open {
				least += min(c.all, c.largest+window)
				most += min(c.all, c.largest+window) + c.frames*frameCost
			}
			if m.held < least || m.held > most || len(m.calls) != len(open) {
				t.Fatalf("%d bytes are held by %d calls, want %d to %d by %d", m.held, len(m.calls), least, most, len(open))
			}
		}
		for id := range open {
			_ = client.WriteRSTStream(id, http2.ErrCodeCancel)
		}
		pass()
		if m.held != 0 || len(m.calls) != 0 {
			t.Fatalf("%d bytes are held by no call", m.held)
		}
		_ = client.WriteDataPadded(last, false, []byte("x"), []byte{0, 0})
		if m.came(in.Bytes()) == nil {
			t.Fatal("a padded frame is taken")
		}
	})
}
