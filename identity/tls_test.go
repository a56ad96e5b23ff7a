package identity

import (
	"crypto/tls"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/task"
)

// side is how a connection went at one end.
type side struct {
	state tls.ConnectionState
	err   error
}

// connect shakes hands and passes one byte each way, so that both ends know
// what the other decided (in TLS 1.3 a client is done before it is judged).
func connect(t *testing.T, serverConfig, clientConfig *tls.Config) (server, client side) {
	t.Helper()
	serverEnd, clientEnd := net.Pipe()
	for _, end := range []net.Conn{serverEnd, clientEnd} {
		if err := end.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
			t.Fatal(err)
		}
	}
	clientConn, serverConn := tls.Client(clientEnd, clientConfig), tls.Server(serverEnd, serverConfig)
	done := make(chan side)
	go func() {
		defer serverEnd.Close()
		err := serverConn.Handshake()
		if err == nil {
			_, err = serverConn.Write([]byte{1})
		}
		if err == nil {
			_, err = serverConn.Read(make([]byte, 1))
		}
		done <- side{serverConn.ConnectionState(), err}
	}()
	_, err := clientConn.Read(make([]byte, 1))
	if err == nil {
		_, err = clientConn.Write([]byte{1})
	}
	client = side{clientConn.ConnectionState(), err}
	clientEnd.Close()
	return <-done, client
}

func queuePair(t *testing.T, authority *Authority, member *MemberCertificate) (server, client *tls.Config) {
	t.Helper()
	server = QueueServerTLS(serverCertificate(t, authority, "queue.example.org"), newVerifier(t, authority))
	certificate, _ := authority.PEM()
	client, err := QueueClientTLS(certificate, "", member)
	if err != nil {
		t.Fatal(err)
	}
	server.Time, client.Time = at(noon), at(noon)
	return server, client
}

func TestQueueTLSWithToken(t *testing.T) {
	server, client := visitQueue(t, newAuthority(t), nil)
	if server.err != nil || client.err != nil {
		t.Fatal(server.err, client.err)
	}
	if client.state.Version != tls.VersionTLS13 {
		t.Errorf("TLS version %x", client.state.Version)
	}
	if member, found := MemberOfConnection(server.state); found {
		t.Errorf("a client without certificate is member %+v", member)
	}
	if _, found := MemberOfConnection(client.state); found {
		t.Error("the queue server is taken for a member")
	}
}

func TestQueueTLSWithMembership(t *testing.T) {
	authority := newAuthority(t)
	pilot := join(t, authority, "siteA")
	server, client := visitQueue(t, authority, &pilot)
	if server.err != nil || client.err != nil {
		t.Fatal(server.err, client.err)
	}
	member, found := MemberOfConnection(server.state)
	if !found || member.Peer != pilot.Key.Peer() || member.Site != "siteA" || member.Pilot != "p-abcdefgh" {
		t.Errorf("the server sees %+v, %v", member, found)
	}
}

// visitQueue connects a client to a queue server of its own VO.
func visitQueue(t *testing.T, authority *Authority, member *MemberCertificate) (server, client side) {
	t.Helper()
	serverConfig, clientConfig := queuePair(t, authority, member)
	return connect(t, serverConfig, clientConfig)
}

func TestQueueServerRefusesClients(t *testing.T) {
	authority := newAuthority(t)
	mine, stolen := join(t, authority, "siteA"), join(t, authority, "siteA")
	foreign := join(t, newAuthority(t), "siteA")
	stolen.Key = mine.Key // another pilot's certificate without its key

	server, client := queuePair(t, authority, &foreign)
	if end, _ := connect(t, server, client); !errors.Is(end.err, ErrForeignAuthority) {
		t.Errorf("foreign member: %v", end.err)
	}
	server, client = queuePair(t, authority, &stolen)
	if end, _ := connect(t, server, client); end.err == nil {
		t.Error("a certificate without its key passes")
	}
	server, client = queuePair(t, authority, &mine)
	server.Time = at(noon.Add(2 * time.Hour))
	if end, _ := connect(t, server, client); !errors.Is(end.err, ErrExpired) {
		t.Errorf("expired member: %v", end.err)
	}
	server, client = queuePair(t, authority, &mine)
	verifier := newVerifier(t, authority)
	verifier.Deny([]task.PeerID{mine.Key.Peer()})
	server.VerifyConnection = QueueServerTLS(nil, verifier).VerifyConnection
	if end, _ := connect(t, server, client); end.err == nil {
		t.Error("a denied member passes")
	}
	server, client = queuePair(t, authority, nil)
	client.MinVersion, client.MaxVersion = tls.VersionTLS12, tls.VersionTLS12
	if end, _ := connect(t, server, client); end.err == nil {
		t.Error("TLS 1.2 passes")
	}
	server, client = queuePair(t, authority, nil)
	server.GetCertificate = QueueServerTLS(func() *tls.Certificate { return nil }, verifier).GetCertificate
	if end, _ := connect(t, server, client); end.err == nil {
		t.Error("a server without certificate serves")
	}
}

func TestQueueClientRefusesServers(t *testing.T) {
	authority, foreign := newAuthority(t), newAuthority(t)
	_, client := queuePair(t, authority, nil)
	for name, certificate := range map[string]*tls.Certificate{
		"server of another VO": serverCertificate(t, foreign)(),
		"a pilot as queue":     pointer(join(t, authority, "siteA").keyPair()),
	} {
		server := QueueServerTLS(func() *tls.Certificate { return certificate }, newVerifier(t, authority))
		if _, end := connect(t, server, client); end.err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	server, client := queuePair(t, authority, nil)
	client.Time = at(noon.Add(ServerLife + time.Second))
	if _, end := connect(t, server, client); end.err == nil {
		t.Error("an expired server certificate is accepted")
	}
	server, client = queuePair(t, authority, nil)
	client.Time = at(noon.Add(-ClockSkew + time.Second))
	if _, end := connect(t, server, client); end.err != nil {
		t.Errorf("a client whose clock is behind by less than the skew: %v", end.err)
	}
}

func pointer[T any](value T) *T { return &value }

func TestQueueClientServerName(t *testing.T) {
	authority := newAuthority(t)
	certificate, _ := authority.PEM()
	for name, accepted := range map[string]bool{"": true, "queue.example.org": true, "elsewhere.example.org": false} {
		server, _ := queuePair(t, authority, nil)
		client, err := QueueClientTLS(certificate, name, nil)
		if err != nil {
			t.Fatal(err)
		}
		client.Time = at(noon)
		if _, end := connect(t, server, client); (end.err == nil) != accepted {
			t.Errorf("server name %q: %v", name, end.err)
		}
	}
	if _, err := QueueClientTLS([]byte("garbage"), "", nil); !errors.Is(err, ErrMalformed) {
		t.Errorf("garbage as authority: %v", err)
	}
}

func TestQueueServerCertificateIsRenewedWhileServing(t *testing.T) {
	authority := newAuthority(t)
	current := serverCertificate(t, authority)()
	server := QueueServerTLS(func() *tls.Certificate { return current }, newVerifier(t, authority))
	_, client := queuePair(t, authority, nil)
	_, before := connect(t, server, client)
	current = serverCertificate(t, authority)()
	_, after := connect(t, server, client)
	if before.err != nil || after.err != nil {
		t.Fatal(before.err, after.err)
	}
	if before.state.PeerCertificates[0].Equal(after.state.PeerCertificates[0]) {
		t.Error("the new certificate is not served")
	}
}

func TestDataTLS(t *testing.T) {
	authority, foreign := newAuthority(t), newAuthority(t)
	alice, bob := join(t, authority, "siteA"), join(t, authority, "siteA")
	away, stranger := join(t, authority, "siteB"), join(t, foreign, "siteA")
	stolen := MemberCertificate{DER: bob.DER, Key: alice.Key}
	open := newVerifier(t, authority)
	strict := newVerifier(t, authority)
	strict.Deny([]task.PeerID{bob.Key.Peer()})
	late := noon.Add(2 * time.Hour)

	for _, example := range []struct {
		name                   string
		server, client         MemberCertificate
		atServer, atClient     *Verifier
		expect                 task.PeerID
		serverTime, clientTime time.Time
		serverWant, clientWant error // nil: accepted by that end
	}{
		{"two members", alice, bob, open, open, alice.Key.Peer(), noon, noon, nil, nil},
		{"server is called by another peer's id", alice, bob, open, open, bob.Key.Peer(), noon, noon, ErrWrongKey, nil},
		{"server is called by no id", alice, bob, open, open, "", noon, noon, ErrWrongKey, nil},
		{"server of another site", away, bob, open, open, away.Key.Peer(), noon, noon, nil, ErrOtherSite},
		{"server of another VO", stranger, bob, open, open, stranger.Key.Peer(), noon, noon, nil, ErrForeignAuthority},
		{"server expired", alice, bob, open, open, alice.Key.Peer(), noon, late, nil, ErrExpired},
		{"server denied", bob, alice, open, strict, bob.Key.Peer(), noon, noon, nil, ErrDenied},
		{"client of another site", alice, away, open, open, alice.Key.Peer(), noon, noon, ErrOtherSite, nil},
		{"client of another VO", alice, stranger, open, open, alice.Key.Peer(), noon, noon, ErrForeignAuthority, nil},
		{"client expired", alice, bob, open, open, alice.Key.Peer(), late, noon, ErrExpired, nil},
		{"client denied", alice, bob, strict, open, alice.Key.Peer(), noon, noon, ErrDenied, nil},
	} {
		t.Run(example.name, func(t *testing.T) {
			server, client := connect(t,
				DataServerTLS(example.server, example.atServer, "siteA", at(example.serverTime)),
				DataClientTLS(example.client, example.atClient, "siteA", example.expect, at(example.clientTime)))
			if example.serverWant == nil && example.clientWant == nil {
				if server.err != nil || client.err != nil {
					t.Fatal(server.err, client.err)
				}
				if member, found := MemberOfConnection(server.state); !found || member.Peer != example.client.Key.Peer() {
					t.Errorf("the server sees %+v, %v", member, found)
				}
				if member, found := MemberOfConnection(client.state); !found || member.Peer != example.server.Key.Peer() {
					t.Errorf("the client sees %+v, %v", member, found)
				}
				return
			}
			if server.err == nil || client.err == nil {
				t.Fatalf("bytes passed: server %v, client %v", server.err, client.err)
			}
			if example.serverWant != nil && !errors.Is(server.err, example.serverWant) {
				t.Errorf("server: %v, want %v", server.err, example.serverWant)
			}
			if example.clientWant != nil && !errors.Is(client.err, example.clientWant) {
				t.Errorf("client: %v, want %v", client.err, example.clientWant)
			}
		})
	}

	for name, expect := range map[string]task.PeerID{"server is another peer": bob.Key.Peer(), "nobody expected": ""} {
		t.Run(name, func(t *testing.T) {
			server := DataServerTLS(alice, open, "siteA", at(noon))
			server.GetCertificate = alice.forCallersBy(expect) // a liar
			if _, client := connect(t, server, DataClientTLS(bob, open, "siteA", expect, at(noon))); !errors.Is(client.err, ErrWrongKey) {
				t.Errorf("client: %v", client.err)
			}
		})
	}

	t.Run("stranger", func(t *testing.T) { // is not even shown who serves
		stranger := &tls.Config{InsecureSkipVerify: true, VerifyConnection: func(state tls.ConnectionState) error {
			t.Errorf("the server shows %d certificates", len(state.PeerCertificates))
			return nil
		}}
		if server, _ := connect(t, DataServerTLS(alice, open, "siteA", at(noon)), stranger); server.err == nil {
			t.Error("served")
		}
	})

	t.Run("client without certificate", func(t *testing.T) {
		client := DataClientTLS(bob, open, "siteA", alice.Key.Peer(), at(noon))
		client.Certificates = nil
		if server, _ := connect(t, DataServerTLS(alice, open, "siteA", at(noon)), client); server.err == nil {
			t.Error("served")
		}
	})
	t.Run("client with a certificate that is not its own", func(t *testing.T) {
		if server, _ := connect(t, DataServerTLS(alice, open, "siteA", at(noon)),
			DataClientTLS(stolen, open, "siteA", alice.Key.Peer(), at(noon))); server.err == nil {
			t.Error("served")
		}
	})
	t.Run("server with a certificate that is not its own", func(t *testing.T) {
		if _, client := connect(t, DataServerTLS(stolen, open, "siteA", at(noon)),
			DataClientTLS(alice, open, "siteA", bob.Key.Peer(), at(noon))); client.err == nil {
			t.Error("trusted")
		}
	})
}

func TestDenialHoldsForTheNextConnection(t *testing.T) {
	authority := newAuthority(t)
	alice, bob, verifier := join(t, authority, "siteA"), join(t, authority, "siteA"), newVerifier(t, authority)
	server := DataServerTLS(alice, verifier, "siteA", at(noon))
	client := DataClientTLS(bob, newVerifier(t, authority), "siteA", alice.Key.Peer(), at(noon))
	client.ClientSessionCache = tls.NewLRUClientSessionCache(8)
	if end, _ := connect(t, server, client); end.err != nil {
		t.Fatal(end.err)
	}
	verifier.Deny([]task.PeerID{bob.Key.Peer()})
	if end, _ := connect(t, server, client); !errors.Is(end.err, ErrDenied) {
		t.Errorf("after the denial: %v", end.err)
	}
}
