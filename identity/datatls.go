package identity

import (
	"crypto/tls"
	"errors"
	"fmt"
	"time"

	"github.com/pilotage-grid/pilotage/task"
)

// DataServerTLS configures a pilot's data HTTPS server: TLS 1.3, mutual; only
// members of the same site get through the handshake. HTTP/1.1 is the one
// protocol offered. clock is asked once per handshake. The server's certificate,
// which names site and pilot and comes before the client's, is shown to nobody who
// does not call the server by its peer id.
func DataServerTLS(own MemberCertificate, v *Verifier, site task.Site, clock func() time.Time) *tls.Config {
	return &tls.Config{
		MinVersion:             tls.VersionTLS13,
		NextProtos:             []string{"http/1.1"},
		GetCertificate:         own.forCallersBy(own.Key.Peer()),
		ClientAuth:             tls.RequireAnyClientCert,
		SessionTicketsDisabled: true, // each connection is judged by its own certificate
		VerifyConnection: func(state tls.ConnectionState) error {
			_, err := v.verifyAtSite(state, site, clock())
			return err
		},
	}
}

func (m MemberCertificate) forCallersBy(peer task.PeerID) func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	pair := m.keyPair()
	return func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
		if hello.ServerName != string(peer) {
			return nil, fmt.Errorf("the caller does not call peer %s: %w", peer, ErrWrongKey)
		}
		return &pair, nil
	}
}

// DataClientTLS configures a pilot that fetches from another one: TLS 1.3,
// mutual; the server must be the expected peer and a member of the same site,
// at whatever address. An empty expectation is met by nobody.
func DataClientTLS(own MemberCertificate, v *Verifier, site task.Site, expect task.PeerID, clock func() time.Time) *tls.Config {
	return &tls.Config{
		MinVersion:   tls.VersionTLS13,
		NextProtos:   []string{"http/1.1"},
		ServerName:   string(expect),
		Certificates: []tls.Certificate{own.keyPair()},
		// Host names mean nothing between pilots: VerifyConnection below, which
		// runs on every connection, checks authority, site and peer id instead.
		InsecureSkipVerify: true,
		VerifyConnection: func(state tls.ConnectionState) error {
			member, err := v.verifyAtSite(state, site, clock())
			if err != nil {
				return err
			}
			if member.Peer != expect {
				return fmt.Errorf("peer %s answers where peer %.60q was expected: %w", member.Peer, expect, ErrWrongKey)
			}
			return nil
		},
	}
}

func (v *Verifier) verifyAtSite(state tls.ConnectionState, site task.Site, now time.Time) (Member, error) {
	if len(state.PeerCertificates) == 0 {
		return Member{}, errors.New("the other end showed no membership certificate")
	}
	return v.VerifySite(state.PeerCertificates[0].Raw, site, now)
}

// VerifySite is Verify and refuses members of other sites with ErrOtherSite.
func (v *Verifier) VerifySite(der []byte, site task.Site, now time.Time) (Member, error) {
	member, err := v.Verify(der, now)
	if err == nil {
		err = member.atSite(site)
	}
	if err != nil {
		return Member{}, err
	}
	return member, nil
}
