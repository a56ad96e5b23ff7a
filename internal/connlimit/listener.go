package connlimit

import (
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// Strangers says what whoever has not shown an access may do with a connection; zero
// is no limit.
type Strangers struct {
	Time  time.Duration // how long the connection may last
	Bytes int64         // how much of it is read
}

// Listener accepts connections within limits. Make it with New. It is safe for
// concurrent use.
type Listener struct {
	net.Listener
	strangers Strangers
	displaced atomic.Uint64
	cut       atomic.Uint64
	heavy     atomic.Uint64

	mutex sync.Mutex
	book  *book[*Conn]
}

// New limits the connections of a listener.
func New(l net.Listener, limits Limits, strangers Strangers) *Listener {
	return &Listener{Listener: l, strangers: strangers, book: newBook[*Conn](limits)}
}

// Displaced counts connections that had to go for newer ones.
func (l *Listener) Displaced() uint64 { return l.displaced.Load() }

// Cut counts connections of strangers that lasted too long or brought too much.
func (l *Listener) Cut() uint64 { return l.cut.Load() }

// Heavy counts connections whose calls brought too much.
func (l *Listener) Heavy() uint64 { return l.heavy.Load() }

// Accept satisfies net.Listener; the connection is a *Conn.
func (l *Listener) Accept() (net.Conn, error) {
	raw, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &Conn{Conn: raw, listener: l, ended: make(chan struct{})}
	c.left.Store(l.strangers.Bytes)
	l.mutex.Lock()
	if l.strangers.Time > 0 {
		c.patience = time.AfterFunc(l.strangers.Time, c.cutOff)
	}
	l.mutex.Unlock()
	l.enter(c, party{name: addressOf(raw), stranger: true})
	return c, nil
}

func (l *Listener) enter(c *Conn, p party) {
	l.mutex.Lock()
	if c.closed.Load() {
		l.mutex.Unlock()
		return
	}
	if !p.stranger && c.patience != nil {
		c.patience.Stop()
	}
	out, over := l.book.add(c, p)
	l.mutex.Unlock()
	if over {
		l.displaced.Add(1)
		_ = out.Close()
	}
}

// addressOf is what the strangers of one host have in common: all addresses of an
// IPv6 network of 64 bits are one host's.
func addressOf(c net.Conn) string {
	tcp, ok := c.RemoteAddr().(*net.TCPAddr)
	if !ok {
		return ""
	}
	if tcp.IP.To4() == nil {
		return tcp.IP.Mask(net.CIDRMask(64, 128)).String()
	}
	return tcp.IP.String()
}

// Conn is a connection of a stranger until Known is called.
type Conn struct {
	net.Conn
	listener *Listener
	patience *time.Timer  // ends a stranger's; the listener's mutex guards it
	left     atomic.Int64 // bytes that a stranger may still bring
	known    atomic.Bool
	closed   atomic.Bool
	ended    chan struct{} // closed with it
	resume   atomic.Int64  // when it is read again, by Unix time in nanoseconds
}

// errStranger ends the connection of a stranger.
var errStranger = errors.New("a stranger sent more than strangers may")

// Known tells that an access was shown, and whose. It may be called again.
func (c *Conn) Known(identity string) {
	if c.known.Swap(true) {
		return
	}
	c.listener.enter(c, party{name: identity})
}

// Slow has the connection read later, each time by step more, at most a second from
// now: so whoever asks for what is refused, and goes on asking, waits in its own
// buffers.
func (c *Conn) Slow(step time.Duration) {
	now := time.Now().UnixNano()
	c.resume.Store(min(max(c.resume.Load(), now)+int64(step), now+int64(time.Second)))
}

// pause waits until the connection may be read again.
func (c *Conn) pause() {
	wait := c.resume.Load()
	if wait == 0 {
		return
	}
	if left := wait - time.Now().UnixNano(); left > 0 {
		select {
		case <-time.After(time.Duration(left)):
		case <-c.ended:
		}
	}
	c.resume.CompareAndSwap(wait, 0)
}

// Read satisfies net.Conn.
func (c *Conn) Read(to []byte) (int, error) {
	n, err := c.Conn.Read(to)
	if c.listener.strangers.Bytes > 0 && !c.known.Load() && c.left.Add(-int64(n)) < 0 {
		c.cutOff()
		return 0, errStranger
	}
	return n, err
}

// Paced is what TLS has made of a connection with gRPC in it: read as slowly as Slow says,
// as below TLS one read brings hundreds of calls, and within the limits of bytes.
func (c *Conn) Paced(secured net.Conn) net.Conn {
	return &paced{Conn: secured, below: c, messages: newMessages(c.listener.book.limits.Window)}
}

type paced struct {
	net.Conn
	below *Conn

	mutex    sync.Mutex
	messages messages
}

// Read satisfies net.Conn.
func (p *paced) Read(to []byte) (int, error) {
	p.below.pause()
	n, err := p.Conn.Read(to)
	if bad := p.count(func(m *messages) error { return m.came(to[:n]) }); bad != nil {
		return 0, bad
	}
	return n, err
}

// Write satisfies net.Conn.
func (p *paced) Write(from []byte) (int, error) {
	_ = p.count(func(m *messages) error { m.went(from); return nil })
	return p.Conn.Write(from)
}

// count books what the calls of the connection have brought after some bytes of it.
func (p *paced) count(follow func(*messages) error) error {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	before, calls := p.messages.held, len(p.messages.calls)
	err := follow(&p.messages)
	if more := len(p.messages.calls) - calls; more != 0 {
		p.below.listener.mutex.Lock()
		p.below.listener.book.open(p.below, more)
		p.below.listener.mutex.Unlock()
	}
	if more := p.messages.held - before; more != 0 {
		p.below.bring(more)
	}
	return err
}

// Calls tells how many calls are open over connections of this one's party, and of
// everybody: those whose answers nobody reads, too.
func (c *Conn) Calls() (own, all int) {
	c.listener.mutex.Lock()
	defer c.listener.mutex.Unlock()
	b := c.listener.book
	return b.callsOf[b.of[c]], b.callsAll
}

func (c *Conn) bring(bytes int64) {
	c.listener.mutex.Lock()
	out, over := c.listener.book.bring(c, bytes)
	c.listener.mutex.Unlock()
	if over {
		c.listener.heavy.Add(1)
		_ = out.Close()
	}
}

// cutOff ends a connection that has been a stranger's for too long.
func (c *Conn) cutOff() {
	if c.known.Load() || c.closed.Load() {
		return
	}
	c.listener.cut.Add(1)
	_ = c.Close()
}

// Close satisfies net.Conn.
func (c *Conn) Close() error {
	if !c.closed.Swap(true) {
		close(c.ended)
		c.listener.mutex.Lock()
		if c.patience != nil {
			c.patience.Stop()
		}
		c.listener.book.remove(c)
		c.listener.mutex.Unlock()
	}
	return c.Conn.Close()
}
