package bench

import (
	"context"
	"net"
	"sync"

	"google.golang.org/grpc"
)

// line is the way of one pilot of this process to the queue, which can be held
// as it is when the pilot's process is stopped (SIGSTOP): the connection stays,
// and nothing comes or goes.
type line struct {
	mutex  sync.Mutex
	frozen chan struct{} // closed when it goes on; nil if it does
}

// option has the pilot's connections to the queue go by this line.
func (l *line) option() grpc.DialOption {
	return grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
		if err != nil {
			return nil, err
		}
		return &heldConn{Conn: conn, line: l, closed: make(chan struct{})}, nil
	})
}

func (l *line) freeze() {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.frozen == nil {
		l.frozen = make(chan struct{})
	}
}

func (l *line) thaw() {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.frozen != nil {
		close(l.frozen)
	}
	l.frozen = nil
}

// wait returns when the line is not held, or the connection is closed.
func (l *line) wait(closed <-chan struct{}) {
	l.mutex.Lock()
	frozen := l.frozen
	l.mutex.Unlock()
	if frozen == nil {
		return
	}
	select {
	case <-frozen:
	case <-closed:
	}
}

// heldConn is a connection on a line.
type heldConn struct {
	net.Conn
	line   *line
	once   sync.Once
	closed chan struct{}
}

// Read satisfies net.Conn: what arrives while the line is held is seen later.
func (c *heldConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.line.wait(c.closed)
	return n, err
}

// Write satisfies net.Conn.
func (c *heldConn) Write(p []byte) (int, error) {
	c.line.wait(c.closed)
	return c.Conn.Write(p)
}

// Close satisfies net.Conn.
func (c *heldConn) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}
