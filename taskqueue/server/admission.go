package server

import (
	"cmp"
	"context"
	"net"
	"sync"
	"syscall"
	"time"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/tap"

	"github.com/pilotage-grid/pilotage/identity"
	"github.com/pilotage-grid/pilotage/internal/connlimit"
)

// What whoever has not shown an access may do.
const (
	// strangerTime bounds a connection: a pilot registers, and a command calls, at once.
	strangerTime = 30 * time.Second
	// strangerBytes is what is read of a connection, TLS included: a handshake with a
	// certificate takes 3 KiB, a call's header less than one.
	strangerBytes = 48 << 10
	// strangerCalls of one address are under way at once: they ask for the queue's health.
	strangerCalls = 32
)

// What one identity may do.
const (
	identityCalls = 512
	// registrations are under way at once: all pilots of a site come with one token.
	registrations = 2048
	// crowdedCalls is how many calls are under way when each identity gets crowdedShare.
	crowdedCalls = 6 * 1024
	crowdedShare = 64
	// unread is how many calls of one identity are over for the queue while nobody has taken
	// their answers, which are in memory.
	unread = 128
	// refusedStep is how much later a connection is read after each call that was refused.
	refusedStep = 2 * time.Millisecond
	// identityBytes and bytesInAll bound what calls under way have brought. While they
	// are decoded they take up to three times that.
	identityBytes = 2 * maxMessage
	bytesInAll    = 8 * maxMessage
)

// connectionLimits shares out what the process may open: the store, the web's side
// and storage elements keep a quarter of it, strangers get another.
func connectionLimits(descriptors int) connlimit.Limits {
	return connlimit.Limits{
		InAll: descriptors * 3 / 4, Strangers: min(descriptors/4, 2048), PerParty: descriptors / 8,
		BytesInAll: bytesInAll, BytesPerParty: identityBytes, Window: callWindow,
	}
}

// webLimits are those of the HTTPS side, out of the quarter that is kept. Viewers of
// the page, each with a connection or more, often share an address.
func webLimits(descriptors int) connlimit.Limits {
	return connlimit.Limits{InAll: min(descriptors/16, 1024), PerParty: min(descriptors/32, 256)}
}

// descriptors is how many files and connections this process may have open.
func descriptors() int {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 1024
	}
	return int(min(limit.Cur, 1<<20))
}

// admission decides who gets in, and with how much: it knows the connections, and
// counts the calls that are under way.
type admission struct {
	access   *access
	refusals *refusals
	shares   *shares
	calls    callsUnderWay
}

// shownIdentity is what a connection has shown in its handshake.
type shownIdentity struct {
	credentials.TLSInfo
	conn *connlimit.Conn
}

// handshakes tells the limits of connections who has shown a membership certificate.
type handshakes struct {
	credentials.TransportCredentials
}

// ServerHandshake satisfies credentials.TransportCredentials.
func (h handshakes) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	secured, info, err := h.TransportCredentials.ServerHandshake(raw)
	if err != nil {
		return nil, nil, err
	}
	shown := shownIdentity{}
	shown.TLSInfo, _ = info.(credentials.TLSInfo)
	limited, ok := raw.(*connlimit.Conn)
	if !ok {
		return secured, shown, nil
	}
	shown.conn = limited
	if m, ok := identity.MemberOfConnection(shown.State); ok {
		limited.Known(string(m.Peer))
	}
	return limited.Paced(secured), shown, nil
}

// party is whose calls are counted together; "" is a stranger's.
func (c caller) party() string { return cmp.Or(c.token, string(c.peer)) }

// admit decides on a call by its header: who makes it, and whether it is one too many.
func (a *admission) admit(ctx context.Context, info *tap.Info) (context.Context, error) {
	conn, address := connectionBehind(ctx)
	inside, err := a.access.admit(ctx, info)
	if err != nil {
		a.refuse(conn, err, address)
		return inside, err
	}
	c := callerOf(inside)
	party, limit := c.party(), identityCalls
	switch {
	case party == "":
		party, limit = address, strangerCalls
	case c.kind == newPilot:
		limit = registrations
	default:
		if c.arrival = a.shares.arrive(party); c.arrival == nil {
			limit = 0
		}
	}
	if conn != nil && c.party() != "" {
		conn.Known(party)
	}
	if answersWait(conn, limit) || !a.calls.begin(party, limit) {
		c.arrival.arrived()
		err := statusOf(&busyError{after: a.shares.refuse(party)})
		a.refuse(conn, err, party)
		return inside, err
	}
	context.AfterFunc(ctx, func() {
		c.arrival.arrived()
		a.calls.end(party)
	})
	return context.WithValue(inside, callerKey{}, c), nil
}

// answersWait tells whether more calls of a connection's party are open than it may have
// under way and unread.
func answersWait(conn *connlimit.Conn, limit int) bool {
	if conn == nil {
		return false
	}
	own, all := conn.Calls()
	if all > crowdedCalls {
		limit = min(limit, crowdedShare)
	}
	return own > limit+unread
}

func (a *admission) refuse(conn *connlimit.Conn, err error, who string) {
	a.refusals.note(reasonOf(err), "", who, err)
	if conn != nil {
		conn.Slow(refusedStep)
	}
}

// connectionBehind returns the connection of a call, and the address behind it.
func connectionBehind(ctx context.Context) (*connlimit.Conn, string) {
	from, found := peer.FromContext(ctx)
	if !found {
		return nil, ""
	}
	shown, _ := from.AuthInfo.(shownIdentity)
	host, _, err := net.SplitHostPort(from.Addr.String())
	if err != nil {
		host = from.Addr.String()
	}
	return shown.conn, host
}

// callsUnderWay counts calls by party. It is safe for concurrent use.
type callsUnderWay struct {
	mutex sync.Mutex
	of    map[string]int
	all   int
}

// begin tells whether a party may make one more call, which ends with end.
func (c *callsUnderWay) begin(party string, limit int) bool {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.all >= crowdedCalls {
		limit = min(limit, crowdedShare)
	}
	if c.of[party] >= limit {
		return false
	}
	if c.of == nil {
		c.of = make(map[string]int)
	}
	c.of[party]++
	c.all++
	return true
}

func (c *callsUnderWay) end(party string) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.all--
	if c.of[party]--; c.of[party] == 0 {
		delete(c.of, party)
	}
}
