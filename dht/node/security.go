package node

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"
	"github.com/libp2p/go-libp2p/core/sec"
	"github.com/libp2p/go-libp2p/p2p/net/upgrader"
	libp2ptls "github.com/libp2p/go-libp2p/p2p/security/tls"

	"github.com/pilotage-grid/pilotage/identity"
	"github.com/pilotage-grid/pilotage/task"
)

// securityID names the handshake: libp2p's TLS, then the exchange of
// membership certificates.
const securityID = "/pilotage/1/tls-membership"

// handshakeTime bounds the exchange of certificates, in which each end sends
// about 500 bytes and one more.
const handshakeTime = 5 * time.Second

// errNotJoined: a connection came before this pilot was registered.
var errNotJoined = errors.New("this pilot has no membership certificate yet")

// membership is the part of the security handshake that says who belongs to
// the site, and remembers whom it let in. Safe for concurrent use.
type membership struct {
	site     task.Site
	verifier *identity.Verifier
	clock    func() time.Time

	mutex    sync.Mutex
	own      []byte
	admitted map[peer.ID]identity.Member
}

func newMembership(c Config) *membership {
	return &membership{site: c.Site, verifier: c.Verifier, clock: c.Clock, admitted: make(map[peer.ID]identity.Member)}
}

func (m *membership) set(certificate []byte) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.own = certificate
}

func (m *membership) certificate() []byte {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	return m.own
}

func (m *membership) admit(id peer.ID, member identity.Member) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.admitted[id] = member
}

// member is what a peer's certificate said when it was let in.
func (m *membership) member(id peer.ID) (identity.Member, bool) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	member, found := m.admitted[id]
	return member, found
}

// judge admits a peer by the certificate that it has shown.
func (m *membership) judge(id peer.ID, key crypto.PubKey, certificate []byte) error {
	if m.certificate() == nil {
		return errNotJoined
	}
	member, err := m.verifier.VerifySite(certificate, m.site, m.clock())
	if err != nil {
		return fmt.Errorf("membership of %s: %w", id, err)
	}
	if !id.MatchesPublicKey(key) || string(member.Peer) != id.String() {
		return fmt.Errorf("membership of %s: it showed the certificate of peer %s: %w", id, member.Peer, identity.ErrWrongKey)
	}
	m.admit(id, member)
	return nil
}

// expired takes out and returns those whose membership has ended.
func (m *membership) expired(now time.Time) []peer.ID {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	var ids []peer.ID
	for id, member := range m.admitted {
		if now.After(member.NotAfter) {
			ids = append(ids, id)
			delete(m.admitted, id)
		}
	}
	return ids
}

// secureTransport is libp2p's TLS followed by the exchange of memberships, on
// the encrypted connection and before any multiplexer, so that a stranger
// never gets a stream. The multiplexer chosen early, in the TLS handshake,
// stays chosen: the connection's state is TLS's own.
type secureTransport struct {
	*libp2ptls.Transport
	membership *membership
}

func (m *membership) transport(id protocol.ID, key crypto.PrivKey, muxers []upgrader.StreamMuxer) (*secureTransport, error) {
	transport, err := libp2ptls.New(id, key, muxers)
	if err != nil {
		return nil, fmt.Errorf("prepare TLS between pilots: %w", err)
	}
	return &secureTransport{Transport: transport, membership: m}, nil
}

// SecureInbound satisfies sec.SecureTransport.
func (t *secureTransport) SecureInbound(ctx context.Context, insecure net.Conn, p peer.ID) (sec.SecureConn, error) {
	connection, err := t.Transport.SecureInbound(ctx, insecure, p)
	if err != nil {
		return nil, err
	}
	return t.admit(ctx, connection)
}

// SecureOutbound satisfies sec.SecureTransport.
func (t *secureTransport) SecureOutbound(ctx context.Context, insecure net.Conn, p peer.ID) (sec.SecureConn, error) {
	connection, err := t.Transport.SecureOutbound(ctx, insecure, p)
	if err != nil {
		return nil, err
	}
	return t.admit(ctx, connection)
}

func (t *secureTransport) admit(ctx context.Context, connection sec.SecureConn) (sec.SecureConn, error) {
	member, err := t.membership.exchange(ctx, connection)
	if err != nil {
		_ = connection.Close() // closing is how the other end learns of the refusal
		return nil, fmt.Errorf("membership of %s: %w", connection.RemotePeer(), err)
	}
	t.membership.admit(connection.RemotePeer(), member)
	return connection, nil
}

func (m *membership) exchange(ctx context.Context, connection sec.SecureConn) (identity.Member, error) {
	own := m.certificate()
	if own == nil {
		return identity.Member{}, errNotJoined
	}
	key, err := rawKey(connection)
	if err != nil {
		return identity.Member{}, err
	}
	deadline := time.Now().Add(handshakeTime)
	if limit, set := ctx.Deadline(); set && limit.Before(deadline) {
		deadline = limit
	}
	if err := connection.SetDeadline(deadline); err != nil {
		return identity.Member{}, err
	}
	stop := context.AfterFunc(ctx, func() { _ = connection.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	member, err := identity.ExchangeMembership(connection, own, m.verifier, m.site, key, m.clock())
	if err != nil {
		return identity.Member{}, err
	}
	if err := agree(connection); err != nil {
		return identity.Member{}, err
	}
	if !stop() {
		return identity.Member{}, ctx.Err()
	}
	return member, connection.SetDeadline(time.Time{})
}

// agree has both ends say that they accept the other's certificate. Without
// it a dialler that is refused would take the connection for made, and learn
// the truth only from its breaking.
func agree(connection io.ReadWriter) error {
	if _, err := connection.Write([]byte{accepted}); err != nil {
		return fmt.Errorf("accept the other end: %w", err)
	}
	var verdict [1]byte
	if _, err := io.ReadFull(connection, verdict[:]); err != nil {
		return fmt.Errorf("the other end did not accept this pilot's membership: %w", err)
	}
	if verdict[0] != accepted {
		return errors.New("the other end speaks another handshake")
	}
	return nil
}

const accepted = 1

func rawKey(connection network.ConnSecurity) (ed25519.PublicKey, error) {
	key := connection.RemotePublicKey()
	if key == nil || key.Type() != crypto.Ed25519 {
		return nil, fmt.Errorf("the other end's key is not Ed25519: %w", identity.ErrWrongKey)
	}
	raw, err := key.Raw()
	if err != nil {
		return nil, fmt.Errorf("read the other end's key: %w", err)
	}
	return raw, nil
}
