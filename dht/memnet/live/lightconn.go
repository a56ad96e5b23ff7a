package live

import (
	"context"
	"fmt"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/protocol"
)

// lightConn is one end of a cable in a light host's eyes.
type lightConn struct {
	*end
	network *lightNetwork
}

var _ network.Conn = (*lightConn)(nil)

// open starts a stream, and what serves it at the other end.
func (c *lightConn) open(protocols []protocol.ID) (network.Stream, error) {
	peer, there := c.other().station.light()
	if !there {
		return nil, fmt.Errorf("open a stream to %s: %w", c.RemotePeer(), network.ErrReset)
	}
	id, handler, err := peer.handler(protocols)
	if err != nil {
		return nil, err
	}
	near, far, err := newStreams(c.end, id)
	if err != nil {
		peer.served.Done()
		return nil, fmt.Errorf("open a stream to %s: %w", c.RemotePeer(), err)
	}
	opened := time.Now()
	go func() {
		defer peer.served.Done()
		remote := &lightConn{end: c.other(), network: peer.network}
		handler(&lightStream{stream: far, conn: remote, protocol: id, opened: opened, direction: network.DirInbound})
	}()
	return &lightStream{stream: near, conn: c, protocol: id, opened: opened, direction: network.DirOutbound}, nil
}

// NewStream satisfies network.Conn, like all methods below. A stream without a
// protocol is served by nothing.
func (c *lightConn) NewStream(context.Context) (network.Stream, error) { return c.open(nil) }

// GetStreams lists none: nothing asks for them.
func (c *lightConn) GetStreams() []network.Stream { return nil }

// ID names the connection within the process.
func (c *lightConn) ID() string { return fmt.Sprintf("%p", c.end) }

// Close ends the connection for both ends.
func (c *lightConn) Close() error {
	c.cable.breakUp()
	return nil
}

// CloseWithError is Close.
func (c *lightConn) CloseWithError(network.ConnErrorCode) error { return c.Close() }

// IsClosed tells whether it has ended.
func (c *lightConn) IsClosed() bool { return c.isClosed() }

// As finds nothing below.
func (c *lightConn) As(any) bool { return false }

// Scope bounds nothing.
func (c *lightConn) Scope() network.ConnScope { return &network.NullScope{} }

// Stat tells which end has dialled.
func (c *lightConn) Stat() network.ConnStats {
	direction := network.DirInbound
	if c.cable.near == c.end {
		direction = network.DirOutbound
	}
	return network.ConnStats{Stats: network.Stats{Direction: direction}}
}

// lightStream is one end of a stream.
type lightStream struct {
	*stream
	conn      *lightConn
	protocol  protocol.ID
	opened    time.Time
	direction network.Direction
}

var _ network.Stream = (*lightStream)(nil)

// ID names the stream within the process.
func (s *lightStream) ID() string { return fmt.Sprintf("%p", s.stream) }

// Protocol is what the stream was opened for.
func (s *lightStream) Protocol() protocol.ID { return s.protocol }

// SetProtocol changes nothing that was agreed on.
func (s *lightStream) SetProtocol(id protocol.ID) error {
	s.protocol = id
	return nil
}

// Stat tells who has opened it, and when.
func (s *lightStream) Stat() network.Stats {
	return network.Stats{Direction: s.direction, Opened: s.opened}
}

// Conn is the connection that carries it.
func (s *lightStream) Conn() network.Conn { return s.conn }

// Scope bounds nothing.
func (s *lightStream) Scope() network.StreamScope { return &network.NullScope{} }
