package peer

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/pilotage-grid/pilotage/cache/disk"
	"github.com/pilotage-grid/pilotage/identity"
	"github.com/pilotage-grid/pilotage/internal/connlimit"
	"github.com/pilotage-grid/pilotage/task"
)

// ServerConfig of a Server. Zero numbers and times mean the defaults.
type ServerConfig struct {
	Cache    *disk.Cache
	Own      identity.MemberCertificate
	Verifier *identity.Verifier
	Site     task.Site        // whose members are served
	Clock    func() time.Time // nil: time.Now

	MaxTransfers int           // at once: 8, more would share the same network card; half of them to one pilot
	RetryAfter   time.Duration // told to those who come too many: 200 ms, some tens of MB on a LAN
	// MinRate is how fast a reader has to be, in bytes per second, not to be
	// cut off and its place given to others: 1 MiB, after AnswerTime, all the time.
	MinRate task.Bytes
	// AnswerTime is how long a short answer, and the beginning of a file, may
	// take to be read: 30 s.
	AnswerTime time.Duration
	Grace      time.Duration // for running transfers when Run ends: 2 s
	Log        *slog.Logger  // nil: slog.Default()
}

func (c ServerConfig) withDefaults() ServerConfig {
	if c.Clock == nil {
		c.Clock = time.Now
	}
	if c.MaxTransfers <= 0 {
		c.MaxTransfers = 8
	}
	if c.RetryAfter <= 0 {
		c.RetryAfter = 200 * time.Millisecond
	}
	if c.MinRate <= 0 {
		c.MinRate = task.MiB
	}
	if c.AnswerTime <= 0 {
		c.AnswerTime = 30 * time.Second
	}
	if c.Grace <= 0 {
		c.Grace = 2 * time.Second
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	return c
}

const (
	headerTime = 10 * time.Second // to shake hands and for a request's header
	idleTime   = 2 * time.Minute  // of a kept connection
	maxHeader  = 16 << 10         // bytes of a request's header
)

// connections to a pilot: many pilots of one node may come at once, and each opens
// some for each pilot that it fetches from.
var connections = connlimit.Limits{InAll: 4096, Strangers: 512, PerParty: 128}

// strangerBytes is what is read before a membership certificate is shown: ours have
// about 500 bytes, and the rest of a handshake 2 KiB.
const strangerBytes = 32 << 10

// Server serves a cache to the pilots of a site.
type Server struct {
	config ServerConfig
	served servedTo

	mu     sync.Mutex
	active int // transfers
	of     map[task.PeerID]int
}

// NewServer returns a server; it serves when Run is called.
func NewServer(config ServerConfig) *Server {
	return &Server{config: config.withDefaults(), served: newServedTo(), of: make(map[task.PeerID]int)}
}

// Run serves on a listener until the context ends, then lets running transfers
// finish for the grace period. It closes the listener.
func (s *Server) Run(ctx context.Context, listener net.Listener) error {
	server := &http.Server{
		Handler:           http.HandlerFunc(s.serve),
		ReadHeaderTimeout: headerTime,
		IdleTimeout:       idleTime,
		MaxHeaderBytes:    maxHeader,
		TLSNextProto:      map[string]func(*http.Server, *tls.Conn, http.Handler){}, // HTTP/1.1 only
		ConnState:         notice,
		// Strangers and broken connections are no news for an operator.
		ErrorLog: slog.NewLogLogger(s.config.Log.Handler(), slog.LevelDebug),
	}
	config := identity.DataServerTLS(s.config.Own, s.config.Verifier, s.config.Site, s.config.Clock)
	failed := make(chan error, 1)
	limited := connlimit.New(listener, connections, connlimit.Strangers{Time: headerTime, Bytes: strangerBytes})
	go func() { failed <- server.Serve(tls.NewListener(limited, config)) }()
	select {
	case err := <-failed:
		return errors.Join(fmt.Errorf("serve files on %s: %w", listener.Addr(), err), server.Close())
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.config.Grace)
	defer cancel()
	err := server.Shutdown(grace)
	if errors.Is(err, context.DeadlineExceeded) {
		err = server.Close()
	}
	if serveErr := <-failed; !errors.Is(serveErr, http.ErrServerClosed) {
		err = errors.Join(err, serveErr)
	}
	return err
}

// notice tells the limits of connections whose request comes: the handshake has let
// only a member of the site get so far.
func notice(c net.Conn, state http.ConnState) {
	secured, ok := c.(*tls.Conn)
	if state != http.StateActive || !ok {
		return
	}
	m, _ := identity.MemberOfConnection(secured.ConnectionState())
	if limited, ok := secured.NetConn().(*connlimit.Conn); ok {
		limited.Known(string(m.Peer))
	}
}

// enter takes one of the places for transfers.
func (s *Server) enter(to task.PeerID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.active >= s.config.MaxTransfers || s.of[to] >= (s.config.MaxTransfers+1)/2 {
		return false
	}
	s.active++
	s.of[to]++
	return true
}

func (s *Server) leave(to task.PeerID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.active--
	if s.of[to]--; s.of[to] == 0 {
		delete(s.of, to)
	}
}
