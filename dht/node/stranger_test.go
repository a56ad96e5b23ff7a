package node

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"
	"github.com/libp2p/go-libp2p/core/transport"
	"github.com/libp2p/go-libp2p/p2p/protocol/identify"
	libp2ptls "github.com/libp2p/go-libp2p/p2p/security/tls"
	"github.com/multiformats/go-multiaddr"

	"github.com/pilotage-grid/pilotage/dht"
	"github.com/pilotage-grid/pilotage/identity"
	"github.com/pilotage-grid/pilotage/task"
)

// rawHost makes a bare libp2p host that speaks the membership handshake with
// whatever certificate it is given.
func rawHost(t *testing.T, s *site, key *identity.PilotKey, certificate []byte) host.Host {
	t.Helper()
	config, err := Config{Site: s.name, Key: key, Verifier: s.verifier(), Advertise: loopback}.complete()
	if err != nil {
		t.Fatal(err)
	}
	m := newMembership(config)
	m.set(certificate)
	g := &gate{verifier: config.Verifier}
	g.open.Store(true)
	h, err := newHost(Endpoint{Key: key, Advertise: loopback, membership: m, gate: g})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.Close() })
	return h
}

func infoOf(t *testing.T, p *pilot) peer.AddrInfo {
	t.Helper()
	target, err := destinationOf(p.self)
	if err != nil {
		t.Fatal(err)
	}
	return target.info()
}

// tryEverything connects and asks for every protocol there is; it reports
// whether any of it succeeded.
func tryEverything(t *testing.T, h host.Host, p *pilot) (got []string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	target := infoOf(t, p)
	_ = h.Connect(ctx, target) // whatever it says: what counts is what one gets
	prefix := protocolPrefix("siteA")
	for _, id := range []string{prefix + "/kad", prefix + "/round", prefix + "/location", prefix + "/membership", prefix + "/membership/probe", identify.ID, identify.IDPush} {
		stream, err := h.NewStream(ctx, target.ID, protocol.ID(id))
		if err != nil {
			continue
		}
		_ = stream.SetDeadline(time.Now().Add(patience))
		_, _ = stream.Write([]byte{1, 1})
		var answer [1]byte
		if n, _ := stream.Read(answer[:]); n > 0 {
			got = append(got, id)
		}
		_ = stream.Reset()
	}
	if known, _ := h.Peerstore().GetProtocols(target.ID); len(known) > 0 {
		got = append(got, "its list of protocols")
	}
	return got
}

func TestStrangersGetNothing(t *testing.T) {
	s := newSite(t, "siteA")
	p := s.join()
	other := newSite(t, "siteA") // same name, another VO's authority
	soon := time.Now().Add(time.Hour)
	strangers := map[string]func() host.Host{
		"no certificate, stock TLS": func() host.Host { return stockHost(t, libp2ptls.ID) },
		"no certificate, our handshake's name": func() host.Host {
			return stockHost(t, securityID)
		},
		"a certificate of another authority": func() host.Host {
			key := newKey(t)
			return rawHost(t, s, key, other.issue(key, "p-strangrs", "siteA", soon))
		},
		"a member of another site": func() host.Host {
			key := newKey(t)
			return rawHost(t, s, key, s.issue(key, "p-strangrs", "siteB", soon))
		},
		"an expired membership": func() host.Host {
			key := newKey(t)
			return rawHost(t, s, key, s.issue(key, "p-strangrs", "siteA", time.Now().Add(-time.Minute)))
		},
		"somebody else's certificate": func() host.Host {
			return rawHost(t, s, newKey(t), s.issue(newKey(t), "p-strangrs", "siteA", soon))
		},
		"bytes instead of a certificate": func() host.Host { return rawHost(t, s, newKey(t), []byte("let me in")) },
	}
	for name, make := range strangers {
		t.Run(name, func(t *testing.T) {
			h := make()
			if got := tryEverything(t, h, p); len(got) > 0 {
				t.Errorf("the stranger got %v", got)
			}
			eventually(t, "no connection to the stranger", func() bool {
				return p.host.Network().Connectedness(h.ID()) != network.Connected
			})
			if _, admitted := p.membership.member(h.ID()); admitted {
				t.Errorf("the stranger was admitted")
			}
		})
	}
	t.Run("a member does get something", func(t *testing.T) {
		key := newKey(t)
		h := rawHost(t, s, key, s.issue(key, "p-memberaa", "siteA", soon))
		if got := tryEverything(t, h, p); len(got) == 0 {
			t.Error("the member got nothing: the other cases prove nothing")
		}
	})
}

// One host cannot take all places for connections that have not shown a key.
func TestSilentConnectionsOfOneHost(t *testing.T) {
	from := func(host, port int) multiaddr.Multiaddr {
		return multiaddr.StringCast(fmt.Sprintf("/ip4/10.0.0.%d/tcp/%d", host, port))
	}
	var p pending
	now := time.Now()
	for port := range strangersOfAddress {
		if !p.begin(from(1, port+1), now) {
			t.Fatalf("connection %d of a host is refused", port+1)
		}
	}
	if p.begin(from(1, 50_000), now) {
		t.Error("a host has more than its share")
	}
	if !p.begin(from(2, 1), now) {
		t.Error("a flood from one host refuses another one")
	}
	if p.end(from(1, 7)); !p.begin(from(1, 50_000), now) {
		t.Error("a connection that has shown its key takes a place")
	}
	if !p.begin(from(1, 50_001), now.Add(silentTime+time.Second)) || len(p.since) != 1 {
		t.Error("connections that were given up take places")
	}
}

// stockHost speaks libp2p's TLS without memberships, under a given name.
func stockHost(t *testing.T, security protocol.ID) host.Host {
	t.Helper()
	h, err := libp2p.New(libp2p.NoListenAddrs, libp2p.Security(string(security), libp2ptls.New), libp2p.DisableMetrics(), libp2p.DisableRelay())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.Close() })
	return h
}

func TestNobodyIsServedBeforeJoin(t *testing.T) {
	s := newSite(t, "siteA")
	early := s.listen()
	key := newKey(t)
	h := rawHost(t, s, key, s.issue(key, "p-memberaa", "siteA", time.Now().Add(time.Hour)))
	if err := h.Connect(t.Context(), infoOf(t, early)); err == nil {
		t.Fatal("a node without membership accepted a connection")
	}
	s.register(early)
	ctx := network.WithForceDirectDial(t.Context(), "again")
	eventually(t, "a connection after Join", func() bool { return h.Connect(ctx, infoOf(t, early)) == nil })
}

func TestJoinWantsItsOwnMembership(t *testing.T) {
	s := newSite(t, "siteA")
	p := s.listen()
	soon := time.Now().Add(time.Hour)
	for name, certificate := range map[string][]byte{
		"of another key":  s.issue(newKey(t), "p-aaaaaaaa", "siteA", soon),
		"of another site": s.issue(p.key, "p-aaaaaaaa", "siteB", soon),
		"none":            nil,
	} {
		if err := p.Join(certificate, dht.Joined{Self: p.self, Master: p.self}, Hooks{}); err == nil {
			t.Errorf("a certificate %s was accepted", name)
		}
	}
}

func TestADeniedPeerIsCutOff(t *testing.T) {
	s := newSite(t, "siteA")
	pilots := joinMany(t, s, 4)
	bad, good := pilots[3], pilots[:3]
	for _, p := range good {
		p.Deny(dht.Denial{Peers: []task.PeerID{bad.self.Peer}})
	}
	waitFor(t, good[0], "the denied member to be down", func(m dht.MemberDown) bool { return m.Member.Peer == bad.self.Peer })
	for _, p := range good {
		eventually(t, "no connection to the denied peer", func() bool {
			return p.host.Network().Connectedness(bad.host.ID()) != network.Connected &&
				bad.host.Network().Connectedness(p.host.ID()) != network.Connected
		})
		if err := bad.host.Connect(network.WithForceDirectDial(t.Context(), "test"), infoOf(t, p)); err == nil {
			t.Errorf("the denied peer connected again to %s", p.self.Pilot)
		}
	}
	settled(t, good)
	good[1].Broadcast(1, []byte("secret"), true)
	done := waitFor(t, good[1], "the end of broadcast 1", func(d dht.Done) bool { return d.N == 1 })
	if done.Reached != 3 || len(done.Missed) != 0 {
		t.Errorf("reached %d, missed %v, want 3 and none", done.Reached, done.Missed)
	}
}

// Only the master hears from the queue whose membership is revoked. It tells the others,
// and those that come later.
func TestTheDenyListReachesAllMembers(t *testing.T) {
	s := newSite(t, "siteA")
	pilots := joinMany(t, s, 5)
	bad := pilots[4].self.Peer
	denied := []task.PeerID{bad}
	signature, err := s.authority.SignDenied(s.name, denied)
	if err != nil {
		t.Fatal(err)
	}
	pilots[0].Deny(dht.Denial{Peers: denied, Signature: signature})
	for _, p := range append(pilots[1:4:4], s.join()) {
		eventually(t, "a member denies whom the queue has revoked", func() bool { return p.config.Verifier.IsDenied(bad) })
	}
}

func TestADenyListThatTheQueueHasNotSignedIsRefused(t *testing.T) {
	s, other := newSite(t, "siteA"), newSite(t, "siteA")
	sign := func(by *site, at task.Site, peers ...task.PeerID) []byte {
		signature, err := by.authority.SignDenied(at, peers)
		if err != nil {
			t.Fatal(err)
		}
		return signature
	}
	for name, signature := range map[string][]byte{
		"nobody": nil, "another queue": sign(other, "siteA", "a", "b"), "the queue for another site": sign(s, "siteB", "a", "b"),
		"the queue, of fewer": sign(s, "siteA", "a"), "the queue, in another order": sign(s, "siteA", "b", "a"),
	} {
		list := dht.Denial{Peers: []task.PeerID{"a", "b"}, Signature: signature}
		for _, message := range []dht.Message{dht.Welcome{Denial: list}, dht.Cast{Kind: dht.CastBeat, Denial: list}} {
			d := denials{site: "siteA", verifier: s.verifier(), clock: time.Now}
			if told, err := d.check(message); !errors.Is(err, identity.ErrNotSigned) {
				t.Errorf("a %T with a list signed by %s: %v, %v", message, name, told, err)
			}
		}
	}
	d := denials{site: "siteA", verifier: s.verifier(), clock: time.Now}
	list := dht.Denial{Peers: []task.PeerID{"a", "b"}, Signature: sign(s, "siteA", "a", "b")}
	if told, err := d.check(dht.Welcome{Denial: list}); err != nil || len(told.Peers) != 2 {
		t.Errorf("the queue's own list: %v, %v", told, err)
	}
}

func TestExpiredMembersAreHungUpOn(t *testing.T) {
	s := newSite(t, "siteA")
	config, err := Config{Site: s.name, Key: newKey(t), Verifier: s.verifier(), Advertise: loopback}.complete()
	if err != nil {
		t.Fatal(err)
	}
	m := newMembership(config)
	end := time.Now()
	m.admit("ends", identity.Member{NotAfter: end})
	m.admit("stays", identity.Member{NotAfter: end.Add(time.Hour)})
	if got := m.expired(end); len(got) != 0 {
		t.Errorf("expired too early: %v", got)
	}
	if got := m.expired(end.Add(time.Second)); len(got) != 1 || got[0] != "ends" {
		t.Errorf("expired %q, want the one that ends", got)
	}
}

// A node speaks TCP and nothing else: what of libp2p is not used is not there.
func TestOnlyTCP(t *testing.T) {
	s := newSite(t, "siteA")
	key := newKey(t)
	h := rawHost(t, s, key, nil)
	if err := h.Network().Listen(multiaddr.StringCast("/ip4/127.0.0.1/tcp/0")); err != nil {
		t.Fatal(err)
	}
	for _, address := range h.Addrs() {
		if _, err := address.ValueForProtocol(multiaddr.P_TCP); err != nil || len(address.Protocols()) != 2 {
			t.Errorf("it listens on %s", address)
		}
	}
	carries := func(address string) bool {
		dials := h.Network().(interface {
			TransportForDialing(address multiaddr.Multiaddr) transport.Transport
		})
		return dials.TransportForDialing(multiaddr.StringCast(address)) != nil
	}
	if !carries("/ip4/127.0.0.1/tcp/1") {
		t.Error("it does not even speak TCP")
	}
	other := "/p2p/" + h.ID().String()
	for _, address := range []string{
		"/ip4/127.0.0.1/udp/1/quic-v1", "/ip4/127.0.0.1/udp/1/quic-v1/webtransport", "/ip4/127.0.0.1/udp/1/webrtc-direct",
		"/ip4/127.0.0.1/tcp/1/ws", "/dns4/host.example/tcp/1/wss", "/ip4/127.0.0.1/tcp/1" + other + "/p2p-circuit",
	} {
		if carries(address) || h.Network().Listen(multiaddr.StringCast(address)) == nil {
			t.Errorf("it dials or listens on %s", address)
		}
	}
	for _, id := range h.Mux().Protocols() {
		for _, word := range []string{"circuit", "dcutr", "autonat", "mdns", "ping"} {
			if strings.Contains(string(id), word) {
				t.Errorf("it serves %s", id)
			}
		}
	}
}
