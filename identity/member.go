package identity

import (
	"crypto/ed25519"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"time"

	"github.com/pilotage-grid/pilotage/task"
)

// MaxCertificate is the largest certificate that is looked at, in bytes. Ours
// have about 500.
const MaxCertificate = 16 << 10

// memberScheme begins the URI that names a member: pilotage:///SITE/PILOT. The
// authority part stays empty, because X.509 demands a domain name there and
// not every site name is one ("a..b").
const memberScheme = "pilotage"

// Member is what a membership certificate says about a pilot.
type Member struct {
	Site  task.Site
	Pilot task.PilotID
	Peer  task.PeerID // derived from the certificate's key
	// NotAfter is the end of the membership. A connection may live longer:
	// who keeps one open looks at it.
	NotAfter time.Time
}

// MemberCertificate is a pilot's own certificate with the key it is for.
type MemberCertificate struct {
	DER []byte
	Key *PilotKey
}

// LogValue logs the peer only.
func (m MemberCertificate) LogValue() slog.Value {
	if m.Key == nil {
		return slog.StringValue("membership without key")
	}
	return slog.StringValue("membership of " + string(m.Key.Peer()))
}

func (m MemberCertificate) keyPair() tls.Certificate {
	return tls.Certificate{Certificate: [][]byte{m.DER}, PrivateKey: m.Key.Signer()}
}

// MemberOfConnection returns the member at the other end of a connection that
// was made with a configuration of this package; false when it showed no
// membership certificate. It does not verify again: the handshake has done
// so, and refused the connection otherwise.
func MemberOfConnection(state tls.ConnectionState) (Member, bool) {
	if !state.HandshakeComplete || len(state.PeerCertificates) == 0 {
		return Member{}, false
	}
	member, err := memberOf(state.PeerCertificates[0])
	return member, err == nil
}

// atSite refuses a member of another site.
func (m Member) atSite(site task.Site) error {
	if m.Site != site {
		return fmt.Errorf("pilot %s belongs to site %s, this is %s: %w", m.Pilot, m.Site, site, ErrOtherSite)
	}
	return nil
}

func (m Member) uri() (*url.URL, error) {
	if _, err := task.ParseSite(string(m.Site)); err != nil {
		return nil, err
	}
	if _, err := task.ParsePilotID(string(m.Pilot)); err != nil {
		return nil, err
	}
	return &url.URL{Scheme: memberScheme, Path: "/" + string(m.Site) + "/" + string(m.Pilot)}, nil
}

// memberOf reads the member from a certificate's own words: form, key type
// and peer id. It trusts nothing but does not check the signature.
func memberOf(certificate *x509.Certificate) (Member, error) {
	public, ok := certificate.PublicKey.(ed25519.PublicKey)
	if !ok {
		return Member{}, fmt.Errorf("its key is %s instead of Ed25519: %w", certificate.PublicKeyAlgorithm, ErrWrongUse)
	}
	peer, err := PeerOf(public)
	if err != nil {
		return Member{}, err
	}
	if name := certificate.Subject.CommonName; name != string(peer) {
		return Member{}, fmt.Errorf("it names peer %.60q, its key is that of %s: %w", name, peer, ErrWrongKey)
	}
	if len(certificate.URIs) != 1 {
		return Member{}, fmt.Errorf("it has %d URI names instead of one: %w", len(certificate.URIs), ErrWrongUse)
	}
	text := certificate.URIs[0].String()
	path, found := strings.CutPrefix(text, memberScheme+":///")
	site, pilot, cut := strings.Cut(path, "/")
	if !found || !cut {
		return Member{}, fmt.Errorf("its name %.200q is not pilotage:///SITE/PILOT: %w", text, ErrWrongUse)
	}
	member := Member{Peer: peer, NotAfter: certificate.NotAfter}
	if member.Site, err = task.ParseSite(site); err != nil {
		return Member{}, fmt.Errorf("%w: %w", ErrWrongUse, err)
	}
	if member.Pilot, err = task.ParsePilotID(pilot); err != nil {
		return Member{}, fmt.Errorf("%w: %w", ErrWrongUse, err)
	}
	return member, nil
}
