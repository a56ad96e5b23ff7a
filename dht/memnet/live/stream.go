package live

import (
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/protocol"
)

// stream is one end of a stream: a network.MuxedStream.
type stream struct {
	end     *end
	in, out *flow
	account account
}

// newStreams makes the two ends of a stream and notes them in their
// connection's. A protocol that is known already needs no finding out.
func newStreams(opener *end, known protocol.ID) (near, far *stream, err error) {
	other := opener.other()
	there, back := newFlow(opener.station, other.station), newFlow(other.station, opener.station)
	near = &stream{end: opener, in: back, out: there}
	far = &stream{end: other, in: there, out: back}
	near.account.init(near, known)
	far.account.init(far, known)
	if !opener.keep(near) {
		return nil, nil, network.ErrReset
	}
	if !other.keep(far) {
		opener.drop(near)
		return nil, nil, network.ErrReset
	}
	return near, far, nil
}

// Read satisfies network.MuxedStream, like all methods below.
func (s *stream) Read(p []byte) (int, error) { return s.in.read(p) }

func (s *stream) Write(p []byte) (int, error) {
	n, err := s.out.write(p)
	if err == nil {
		s.account.sent(p)
	}
	return n, err
}

// Close ends both directions from here.
func (s *stream) Close() error {
	s.out.end()
	s.in.shut()
	s.end.drop(s)
	return nil
}

// CloseWrite ends what is written here.
func (s *stream) CloseWrite() error {
	s.out.end()
	return nil
}

// CloseRead ends what is read here.
func (s *stream) CloseRead() error {
	s.in.shut()
	return nil
}

// Reset breaks the stream for both ends.
func (s *stream) Reset() error {
	s.out.tear()
	s.in.tear()
	s.end.drop(s)
	return nil
}

// ResetWithError is Reset: no reader of an error number is carried.
func (s *stream) ResetWithError(network.StreamErrorCode) error { return s.Reset() }

// SetDeadline bounds reading and writing.
func (s *stream) SetDeadline(t time.Time) error {
	_ = s.SetReadDeadline(t)
	return s.SetWriteDeadline(t)
}

// SetReadDeadline bounds reading.
func (s *stream) SetReadDeadline(t time.Time) error {
	s.in.change(func(f *flow) { f.readBy = t })
	return nil
}

// SetWriteDeadline bounds writing.
func (s *stream) SetWriteDeadline(t time.Time) error {
	s.out.change(func(f *flow) { f.writeBy = t })
	return nil
}
