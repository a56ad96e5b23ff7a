package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/pilotage-grid/pilotage/dht"
	"github.com/pilotage-grid/pilotage/identity"
	"github.com/pilotage-grid/pilotage/task"
)

// Config is what a node needs before the pilot is registered.
type Config struct {
	Site     task.Site
	Key      *identity.PilotKey
	Verifier *identity.Verifier
	// Ports to listen on; the zero value lets the system choose.
	Ports PortRange
	// Advertise is this host's address that the node listens on, and the only
	// one that it tells others (see AdvertiseAddress).
	Advertise netip.Addr
	// Carrier carries the bytes; nil stands for TCP.
	Carrier Carrier
	// Overlay holds the core's timings; zero fields take their defaults.
	Overlay dht.Config
	// Logger defaults to one that discards.
	Logger *slog.Logger
	// Clock judges certificates and drives the core; it has to go on as real
	// time does. Defaults to time.Now.
	Clock func() time.Time
}

func (c Config) complete() (Config, error) {
	switch {
	case c.Key == nil:
		return c, errors.New("open the overlay's port: no pilot key given")
	case c.Verifier == nil:
		return c, errors.New("open the overlay's port: no verifier of memberships given")
	case !c.Advertise.IsValid():
		return c, errors.New("open the overlay's port: no address to advertise given")
	}
	if _, err := task.ParseSite(string(c.Site)); err != nil {
		return c, fmt.Errorf("open the overlay's port: %w", err)
	}
	if c.Carrier == nil {
		c.Carrier = overTCP{}
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Clock == nil {
		c.Clock = time.Now
	}
	return c, nil
}

// Hooks are the functions of a node's user. Claim runs on a goroutine of its
// own and may take its time; the others are called one after the other, in the
// order of the core's actions, from the goroutine of Run: they must not block,
// and they may call the node's methods, all but Leave, Locate, Probe and
// Close. What is nil is not called.
type Hooks struct {
	// Claim asks the queue for the mastership.
	Claim func(ctx context.Context, c dht.Claim) dht.ClaimAnswer
	// Deliver takes a broadcast of another member, or of this one; when its
	// Reply is set, Node.Reply is owed.
	Deliver func(dht.Deliver)
	// Inbound takes bytes that a member sent with Send.
	Inbound func(from task.PeerID, data []byte)
	// Done takes the end of a broadcast that wanted replies.
	Done func(dht.Done)
	// MasterChanged tells who is master now.
	MasterChanged func(dht.MasterChanged)
	// MemberUp and MemberDown tell the master who comes and goes.
	MemberUp   func(dht.MemberUp)
	MemberDown func(dht.MemberDown)
}

func (h Hooks) complete() Hooks {
	if h.Claim == nil {
		h.Claim = func(context.Context, dht.Claim) dht.ClaimAnswer { return dht.ClaimAnswer{} }
	}
	if h.Inbound == nil {
		h.Inbound = func(task.PeerID, []byte) {}
	}
	orNothing(&h.Deliver)
	orNothing(&h.Done)
	orNothing(&h.MasterChanged)
	orNothing(&h.MemberUp)
	orNothing(&h.MemberDown)
	return h
}

// orNothing has a hook that is not set do nothing.
func orNothing[E any](hook *func(E)) {
	if *hook == nil {
		*hook = func(E) {}
	}
}

// PortRange is a range of TCP ports, both ends included; the zero value stands
// for any port that the system gives.
type PortRange struct{ Low, High uint16 }

// ParsePortRange reads "LOW-HIGH", with the two ports at least that a pilot
// takes, or "0" or "" for any.
func ParsePortRange(text string) (PortRange, error) {
	if text == "" || text == "0" {
		return PortRange{}, nil
	}
	low, high, _ := strings.Cut(text, "-")
	first, err := strconv.ParseUint(low, 10, 16)
	if err != nil {
		return PortRange{}, fmt.Errorf("port range %.40q: give LOW-HIGH, e.g. 26500-26999, or 0 for any port", text)
	}
	if high == "" || high == low {
		return PortRange{}, fmt.Errorf("port range %.40q: a pilot takes two ports: give LOW-HIGH, e.g. 26500-26999, or 0 for any port", text)
	}
	last, err := strconv.ParseUint(high, 10, 16)
	if err != nil || first == 0 || last < first {
		return PortRange{}, fmt.Errorf("port range %.40q: give LOW-HIGH between 1 and 65535, or 0 for any port", text)
	}
	return PortRange{Low: uint16(first), High: uint16(last)}, nil
}

// DefaultPorts is where pilots listen unless they are told otherwise, so that others of
// the node know whose these ports are: two each for 250 pilots, of numbers that nobody
// has registered and that no range of grid services or of outgoing connections has.
var DefaultPorts = PortRange{Low: 26500, High: 26999}

// Has tells whether a port is one of the range.
func (r PortRange) Has(port int) bool { return port >= int(r.Low) && port <= int(r.High) }

// Listen tries the ports of the range until one is free. Where none of the default
// range is, any free port does.
func (r PortRange) Listen(listen func(port uint16) error) error {
	var err error
	for port := int(r.Low); port <= int(r.High); port++ {
		if err = listen(uint16(port)); err == nil {
			return nil
		}
	}
	if r == DefaultPorts {
		err = listen(0)
	}
	return err
}

// String is as ParsePortRange reads it.
func (r PortRange) String() string {
	if r == (PortRange{}) {
		return "0"
	}
	return fmt.Sprintf("%d-%d", r.Low, r.High)
}
