package connlimit

import (
	"encoding/binary"
	"errors"
)

const (
	preface     = 24 // bytes that a client sends before its first frame
	frameHeader = 9
	prefix      = 5 // bytes of gRPC before each message: a flag, and the length
	// frameCost is what gRPC keeps beside the bytes of a frame.
	frameCost = 128

	typeData    = 0x0
	typeHeaders = 0x1
	typeReset   = 0x3
	flagEnd     = 0x1 // no more comes from this side
	flagPadded  = 0x8
)

// errPadded ends a connection with padded frames: no gRPC client sends any.
var errPadded = errors.New("an HTTP/2 frame is padded")

// messages follows the HTTP/2 frames of a connection, both ways, and knows how much the
// calls under way have brought. A call holds what it has brought until it is answered;
// but of a call with many messages, which are read one by one, it is the largest one
// and what may wait behind it. It is not safe for concurrent use.
type messages struct {
	window  int64 // most of a call that waits behind the message that is read
	in, out frames
	calls   map[uint32]*bringing
	held    int64
}

// bringing is what one call has brought.
type bringing struct {
	all     int64
	message int64 // of the last message
	largest int64
	prefix  [prefix]byte
	have    int   // of prefix
	left    int64 // of the message behind it
}

func newMessages(window int64) messages {
	return messages{window: window, in: frames{left: preface}, calls: make(map[uint32]*bringing)}
}

// came takes bytes from the client.
func (m *messages) came(bytes []byte) error {
	return m.in.follow(bytes, func(f frame) error {
		switch f.kind {
		case typeHeaders:
			if m.calls[f.call] == nil {
				m.calls[f.call] = &bringing{}
			}
		case typeReset:
			m.ended(f.call)
		case typeData:
			if f.flags&flagPadded != 0 {
				return errPadded
			}
			if call := m.calls[f.call]; call != nil { // else it was answered
				before := call.holds(m.window)
				call.bring(f)
				m.held += call.holds(m.window) - before
			}
		}
		return nil
	})
}

// went takes bytes to the client.
func (m *messages) went(bytes []byte) {
	_ = m.out.follow(bytes, func(f frame) error {
		if f.kind == typeReset || (f.kind == typeHeaders || f.kind == typeData) && f.flags&flagEnd != 0 {
			m.ended(f.call)
		}
		return nil
	})
}

func (m *messages) ended(id uint32) {
	if call := m.calls[id]; call != nil {
		m.held -= call.holds(m.window)
		delete(m.calls, id)
	}
}

func (b *bringing) holds(window int64) int64 { return min(b.all, b.largest+window) }

// bring takes a part of a frame with data.
func (b *bringing) bring(f frame) {
	if f.part == nil {
		b.all += frameCost
		b.message += frameCost
	}
	b.all += int64(len(f.part))
	for part := f.part; len(part) > 0; {
		if b.left == 0 {
			n := copy(b.prefix[b.have:], part)
			b.have, part = b.have+n, part[n:]
			if b.have == prefix {
				b.have, b.message, b.left = 0, 0, int64(binary.BigEndian.Uint32(b.prefix[1:]))
			}
			continue
		}
		n := min(b.left, int64(len(part)))
		b.left, b.message, part = b.left-n, b.message+n, part[n:]
	}
	b.largest = max(b.largest, b.message)
}

// frames follows the frames of one direction.
type frames struct {
	header [frameHeader]byte
	have   int // of header
	left   int // of what is behind it
}

// frame is a part of one: nil is its header.
type frame struct {
	kind, flags byte
	call        uint32
	part        []byte
}

// follow goes through bytes, which begin and end anywhere.
func (f *frames) follow(bytes []byte, do func(frame) error) error {
	for len(bytes) > 0 {
		var part []byte
		if f.left == 0 {
			n := copy(f.header[f.have:], bytes)
			f.have, bytes = f.have+n, bytes[n:]
			if f.have < frameHeader {
				return nil
			}
			f.have, f.left = 0, int(f.header[0])<<16|int(f.header[1])<<8|int(f.header[2])
		} else {
			n := min(f.left, len(bytes))
			f.left, part, bytes = f.left-n, bytes[:n], bytes[n:]
		}
		if err := do(frame{f.header[3], f.header[4], binary.BigEndian.Uint32(f.header[5:]) &^ (1 << 31), part}); err != nil {
			return err
		}
	}
	return nil
}
