package identity

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"net"
	"net/url"
	"regexp"
	"strings"
	"time"
)

const (
	// QueueServerName is in every queue server's certificate. Clients ask for
	// this name whatever address they dial: the VO's own authority makes the
	// server, so tunnels and changed host names need no new certificate.
	QueueServerName = "pilotage-queue"
	// ServerLife is how long a server certificate is valid; renew it when a
	// third is left.
	ServerLife = 90 * 24 * time.Hour
)

var hostForm = regexp.MustCompile(`^[A-Za-z0-9_]([A-Za-z0-9_-]{0,62})(\.[A-Za-z0-9_][A-Za-z0-9_-]{0,62})*\.?$`)

// IssueServer makes a fresh key and a certificate for a queue server, valid
// for QueueServerName and for the given host names and IP addresses (without
// port) for ServerLife from now. The result's Leaf is set, so that the caller
// sees NotAfter and renews in time.
func (a *Authority) IssueServer(hosts []string, now time.Time) (tls.Certificate, error) {
	template := &x509.Certificate{
		SerialNumber: newSerial(),
		Subject:      pkix.Name{CommonName: QueueServerName},
		DNSNames:     []string{QueueServerName},
		NotBefore:    now.Add(-ClockSkew),
		NotAfter:     earlier(now.Add(ServerLife), a.certificate.NotAfter),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, host := range hosts {
		bare := strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
		switch ip := net.ParseIP(bare); {
		case ip != nil:
			template.IPAddresses = append(template.IPAddresses, ip)
		case len(host) <= 253 && hostForm.MatchString(host):
			template.DNSNames = append(template.DNSNames, strings.TrimSuffix(host, "."))
		default:
			return tls.Certificate{}, fmt.Errorf("issue a server certificate: %.60q is neither a host name nor an IP address (give it without port)", host)
		}
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("issue a server certificate: make its key: %w", err)
	}
	der, err := a.sign(template, key.Public(), now)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("issue a server certificate: %w", err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("issue a server certificate: read it back: %w", err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}, nil
}

// IssueMember signs a membership certificate in DER form for the pilot's
// public key, valid from now to m.NotAfter (whole seconds; the caller adds
// what it grants beyond the pilot's declared end). m.Peer may be empty; if
// given it must be the peer of the key. The pilot shows with its TLS or libp2p
// handshake that it has the private half; nothing else needs to prove it.
func (a *Authority) IssueMember(m Member, public ed25519.PublicKey, now time.Time) (der []byte, err error) {
	peer, err := PeerOf(public)
	if err != nil {
		return nil, fmt.Errorf("issue a membership certificate: %w", err)
	}
	if m.Peer != "" && m.Peer != peer {
		return nil, fmt.Errorf("issue a membership certificate: the key is that of peer %s, not of %.60q: %w", peer, m.Peer, ErrWrongKey)
	}
	name, err := m.uri()
	if err != nil {
		return nil, fmt.Errorf("issue a membership certificate: %w", err)
	}
	switch {
	case !m.NotAfter.After(now):
		return nil, fmt.Errorf("issue a membership certificate: it would end at %s, which has passed: check the pilot's declared end", m.NotAfter.UTC().Format(time.RFC3339))
	case m.NotAfter.After(a.certificate.NotAfter):
		return nil, fmt.Errorf("issue a membership certificate: it would end at %s, after the authority's own end %s: declare an earlier end or rotate the authority",
			m.NotAfter.UTC().Format(time.RFC3339), a.certificate.NotAfter.UTC().Format(time.RFC3339))
	}
	template := &x509.Certificate{
		SerialNumber: newSerial(),
		Subject:      pkix.Name{CommonName: string(peer)},
		URIs:         []*url.URL{name},
		NotBefore:    now,
		NotAfter:     m.NotAfter,
		KeyUsage:     x509.KeyUsageDigitalSignature,
		// Client use only, although pilots also serve data with it: so it can
		// never pass as the queue's certificate. Pilots among themselves
		// verify membership, not host names.
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	der, err = a.sign(template, public, now)
	if err != nil {
		return nil, fmt.Errorf("issue a membership certificate: %w", err)
	}
	return der, nil
}

func (a *Authority) sign(template *x509.Certificate, public any, now time.Time) ([]byte, error) {
	if now.After(a.certificate.NotAfter) {
		return nil, &ExpiredError{Subject: "the VO's authority", Expired: a.certificate.NotAfter, Advice: "stop the queue and run pilotage taskqueue rotate-authority"}
	}
	template.BasicConstraintsValid = true
	return x509.CreateCertificate(rand.Reader, template, a.certificate, public, a.key)
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
