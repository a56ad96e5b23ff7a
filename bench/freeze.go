package bench

import (
	"context"
	"errors"
	"maps"
	"net"
	"slices"
	"sync"

	"google.golang.org/grpc"
)

// line is the way of one pilot of this process to the queue. It can be held as it
// is when the pilot's process is stopped (SIGSTOP): the connection stays, and
// nothing comes or goes. It can be cut as by the end of the process (SIGKILL).
type line struct {
	mutex  sync.Mutex
	frozen chan struct{}          // closed when it goes on; nil if it does
	open   map[*heldConn]struct{} // nil: none was opened yet
	ended  bool                   // it was cut
}

// errCut is what a pilot sees that the bench has killed and that goes on for a
// moment.
var errCut = errors.New("the line was cut with the pilot's end")

// option has the pilot's connections to the queue go by this line.
func (l *line) option() grpc.DialOption {
	return grpc.WithContextDialer(l.dial)
}

func (l *line) dial(ctx context.Context, address string) (net.Conn, error) {
	if l.isCut() {
		return nil, errCut
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	held := &heldConn{Conn: conn, line: l, closed: make(chan struct{})}
	if !l.keep(held) {
		return nil, errors.Join(errCut, conn.Close())
	}
	return held, nil
}

// keep notes a connection; false says that the line was cut.
func (l *line) keep(c *heldConn) bool {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.ended {
		return false
	}
	if l.open == nil {
		l.open = make(map[*heldConn]struct{})
	}
	l.open[c] = struct{}{}
	return true
}

func (l *line) isCut() bool {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.ended
}

func (l *line) drop(c *heldConn) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	delete(l.open, c)
}

// cut ends all connections; no other one can be made.
func (l *line) cut() {
	l.mutex.Lock()
	l.ended = true
	open := slices.Collect(maps.Keys(l.open))
	l.mutex.Unlock()
	for _, c := range open {
		_ = c.Close()
	}
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

// wait returns when the line is not held, or the connection is closed: then false.
func (l *line) wait(closed <-chan struct{}) (stands bool) {
	l.mutex.Lock()
	frozen := l.frozen
	l.mutex.Unlock()
	if frozen == nil {
		return true
	}
	select {
	case <-frozen:
		return true
	case <-closed:
		return false
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
	if !c.line.wait(c.closed) {
		return 0, net.ErrClosed
	}
	return n, err
}

// Write satisfies net.Conn.
func (c *heldConn) Write(p []byte) (int, error) {
	if !c.line.wait(c.closed) {
		return 0, net.ErrClosed
	}
	return c.Conn.Write(p)
}

// Close satisfies net.Conn.
func (c *heldConn) Close() error {
	c.once.Do(func() { close(c.closed) })
	c.line.drop(c)
	return c.Conn.Close()
}
