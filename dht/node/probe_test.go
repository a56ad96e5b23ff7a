package node

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"
)

func TestProbe(t *testing.T) {
	s := newSite(t, "siteA")
	pilots := joinMany(t, s, 3)
	data, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	url := fmt.Sprintf("https://%s", data.Addr())
	if err := pilots[0].Probe(t.Context(), pilots[1].self, url); err != nil {
		t.Errorf("both ports are open: %v", err)
	}
	if err := pilots[0].Probe(t.Context(), pilots[1].self, url); err == nil || !strings.Contains(err.Error(), "too many probes") {
		t.Errorf("asked again at once: %v, want a refusal", err)
	}
	if err := data.Close(); err != nil {
		t.Fatal(err)
	}
	err = pilots[0].Probe(t.Context(), pilots[2].self, url)
	if !errors.Is(err, ErrUnreachable) || !strings.Contains(err.Error(), "data port") || !strings.Contains(err.Error(), "127.0.0.1") {
		t.Errorf("a closed data port: %v", err)
	}
	if err := pilots[0].Probe(t.Context(), pilots[2].self, "https://nowhere"); err == nil || errors.Is(err, ErrUnreachable) {
		t.Errorf("a data URL without port: %v", err)
	}
}

func TestPortRange(t *testing.T) {
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = busy.Close() }()
	port := busy.Addr().(*net.TCPAddr).AddrPort().Port()
	s := newSite(t, "siteA")
	config := Config{Site: s.name, Key: newKey(t), Verifier: s.verifier(), Advertise: loopback, Ports: PortRange{port, port}}
	if n, err := Listen(config); err == nil || !strings.Contains(err.Error(), fmt.Sprint(port)) {
		t.Errorf("the only port is busy: %v, %v", n, err)
	}
	config.Ports.High = min(port+50, 65535)
	n, err := Listen(config)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = n.Close() }()
	got := n.overlayPort()
	if got <= uint32(port) || got > uint32(config.Ports.High) {
		t.Errorf("listens on %d, want one of %d to %d", got, port+1, config.Ports.High)
	}
	if addresses := n.Addresses(); len(addresses) != 1 || addresses[0] != fmt.Sprintf("/ip4/127.0.0.1/tcp/%d", got) {
		t.Errorf("addresses %v", addresses)
	}
}

func TestParsePortRange(t *testing.T) {
	for text, want := range map[string]PortRange{"": {}, "0": {}, "20000-20010": {20000, 20010}, "7000-7001": {7000, 7001}} {
		if got, err := ParsePortRange(text); err != nil || got != want {
			t.Errorf("%q: %v, %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"a", "1-", "-1", "0-10", "10-9", "1-65536", "1-2-3", " 1", "7000", "7000-7000"} {
		if got, err := ParsePortRange(text); err == nil {
			t.Errorf("%q was read as %v", text, got)
		}
	}
}

func TestAdvertiseAddress(t *testing.T) {
	for _, c := range []struct{ queue, flag, want string }{
		{"127.0.0.1:7420", "", "127.0.0.1"},
		{"127.0.0.1:7420", "127.0.0.9", "127.0.0.9"},
		{"127.0.0.1:7420", "127.0.0.0/8", "127.0.0.1"},
		{"127.0.0.1:7420", "::ffff:10.0.0.1", "10.0.0.1"},
	} {
		got, err := AdvertiseAddress(c.queue, c.flag)
		if err != nil || got != netip.MustParseAddr(c.want) {
			t.Errorf("queue %q, flag %q: %v, %v, want %s", c.queue, c.flag, got, err, c.want)
		}
	}
	for _, c := range []struct{ queue, flag string }{
		{"no port", ""}, {"127.0.0.1:1", "0.0.0.0"}, {"127.0.0.1:1", "203.0.113.0/30"}, {"127.0.0.1:1", "eth0"}, {"127.0.0.1:1", "10.0.0.0/99"},
	} {
		if got, err := AdvertiseAddress(c.queue, c.flag); err == nil {
			t.Errorf("queue %q, flag %q was taken for %s", c.queue, c.flag, got)
		}
	}
}

func TestOnlyPlainTCPIsDialled(t *testing.T) {
	got := dialable([]string{
		"/ip4/10.0.0.1/tcp/4001", "/dns4/evil.example/tcp/1", "/ip4/10.0.0.1/udp/4001/quic-v1", "rubbish",
		"/ip6/fd00::1/tcp/4001", "/ip4/10.0.0.1/tcp/4001/ws", "/ip4/10.0.0.1/udp/5",
	})
	if len(got) != 2 || got[0].String() != "/ip4/10.0.0.1/tcp/4001" || got[1].String() != "/ip6/fd00::1/tcp/4001" {
		t.Errorf("dialable: %v", got)
	}
}

// TestAnyPortWhereNoneOfTheDefaultRangeIsFree, and of a range that was asked for, none.
func TestAnyPortWhereNoneOfTheDefaultRangeIsFree(t *testing.T) {
	for _, c := range []struct {
		ports PortRange
		tried int
		last  uint16
	}{
		{DefaultPorts, int(DefaultPorts.High-DefaultPorts.Low) + 2, 0},
		{PortRange{Low: 65534, High: 65535}, 2, 65535},
		{PortRange{}, 1, 0},
	} {
		var tried []uint16
		err := c.ports.Listen(func(port uint16) error {
			tried = append(tried, port)
			return errors.New("in use")
		})
		if err == nil || len(tried) != c.tried || tried[0] != c.ports.Low || tried[len(tried)-1] != c.last {
			t.Errorf("%s: %v after %d tries, the last of port %d", c.ports, err, len(tried), tried[len(tried)-1])
		}
		if read, err := ParsePortRange(c.ports.String()); err != nil || read != c.ports {
			t.Errorf("%s is read as %s, %v", c.ports, read, err)
		}
	}
}
