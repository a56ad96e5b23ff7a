package live

import (
	"fmt"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/protocol"
)

// stream is one end of a stream.
type stream struct {
	end       *end
	in, out   *flow
	protocol  protocol.ID
	kind      int // of its traffic
	opened    time.Time
	direction network.Direction
}

var _ network.Stream = (*stream)(nil)

// Read satisfies network.Stream, like all methods below.
func (s *stream) Read(p []byte) (int, error) { return s.in.read(p) }

func (s *stream) Write(p []byte) (int, error) {
	n, err := s.out.write(p)
	if err == nil {
		s.end.station.traffic[s.kind].add(len(p))
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

// ID names the stream within the process.
func (s *stream) ID() string { return fmt.Sprintf("%p", s) }

// Protocol is what the stream was opened for.
func (s *stream) Protocol() protocol.ID { return s.protocol }

// SetProtocol changes nothing that was agreed on.
func (s *stream) SetProtocol(id protocol.ID) error {
	s.protocol = id
	return nil
}

// Stat tells who has opened it, and when.
func (s *stream) Stat() network.Stats {
	return network.Stats{Direction: s.direction, Opened: s.opened}
}

// Conn is the connection that carries it.
func (s *stream) Conn() network.Conn { return s.end }

// Scope bounds nothing.
func (s *stream) Scope() network.StreamScope { return &network.NullScope{} }
