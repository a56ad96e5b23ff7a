package identity

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"log/slog"
	"math/big"
	"time"
)

const (
	// AuthorityLife is how long a VO's authority is valid.
	AuthorityLife = 10 * 365 * 24 * time.Hour
	// ClockSkew is how far the clock of a host may be behind the authority's:
	// applied to the beginning of validity only, never to its end.
	ClockSkew = time.Hour
)

// Authority is the VO's certificate authority. It signs with ECDSA P-256
// rather than Ed25519, because gRPC clients in other languages (BoringSSL)
// do not offer Ed25519 by default. Safe for concurrent use.
type Authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	certPEM     []byte
	keyPEM      []byte
}

// NewAuthority makes a self-signed root, valid from ClockSkew before now for
// AuthorityLife. It can sign end certificates only, no further authority.
func NewAuthority(now time.Time) (*Authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make the authority's key: %w", err)
	}
	return newAuthorityOf(key, newSerial(), now)
}

func newAuthorityOf(key *ecdsa.PrivateKey, serial *big.Int, now time.Time) (*Authority, error) {
	template := &x509.Certificate{
		SerialNumber:          serial,
		Subject:               pkix.Name{CommonName: "Pilotage VO " + serial.Text(16)[:8]},
		NotBefore:             now.Add(-ClockSkew),
		NotAfter:              now.Add(AuthorityLife),
		IsCA:                  true,
		BasicConstraintsValid: true,
		MaxPathLenZero:        true,
		KeyUsage:              x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("sign the authority's certificate: %w", err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encode the authority's key: %w", err)
	}
	return LoadAuthority(
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}))
}

// LoadAuthority reads what PEM wrote: one certificate and its PKCS #8 key. It
// refuses a certificate that is no authority and a key of another one.
func LoadAuthority(certPEM, keyPEM []byte) (*Authority, error) {
	certificates, err := ParseAuthorities(certPEM)
	if err != nil {
		return nil, fmt.Errorf("load the authority: %w", err)
	}
	if len(certificates) != 1 {
		return nil, fmt.Errorf("load the authority: %d certificates instead of one: %w", len(certificates), ErrMalformed)
	}
	block, _ := pem.Decode(keyPEM)
	if block == nil || block.Type != "PRIVATE KEY" {
		return nil, fmt.Errorf("load the authority: no PEM block PRIVATE KEY in its key: %w", ErrMalformed)
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("load the authority: its key: %w", err)
	}
	key, ok := parsed.(*ecdsa.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("load the authority: its key is %T instead of ECDSA: %w", parsed, ErrMalformed)
	}
	if !key.PublicKey.Equal(certificates[0].PublicKey) {
		return nil, fmt.Errorf("load the authority: key and certificate do not belong together: restore both from one backup: %w", ErrWrongKey)
	}
	return &Authority{
		certificate: certificates[0],
		key:         key,
		certPEM:     append([]byte(nil), certPEM...),
		keyPEM:      append([]byte(nil), keyPEM...),
	}, nil
}

// PEM returns copies of certificate and private key, to be stored. The key is
// the one secret that can make members: it belongs into the queue's database
// or a file of mode 0600, never into a log.
func (a *Authority) PEM() (cert, key []byte) {
	return append([]byte(nil), a.certPEM...), append([]byte(nil), a.keyPEM...)
}

// CertPool returns a pool with the authority's certificate only.
func (a *Authority) CertPool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.certificate)
	return pool
}

// NotAfter is the end of the authority's own validity: nothing that it signs
// lives longer.
func (a *Authority) NotAfter() time.Time { return a.certificate.NotAfter }

// Format prints the authority's name for every verb, never its key.
func (a *Authority) Format(state fmt.State, _ rune) {
	fmt.Fprintf(state, "authority %s", a.certificate.Subject.CommonName)
}

// LogValue logs the authority's name only.
func (a *Authority) LogValue() slog.Value { return slog.StringValue(fmt.Sprint(a)) }

// newSerial gives a positive random serial number of 127 bits; RFC 5280
// section 4.1.2.2 allows 20 octets and wants it unique per authority.
func newSerial() *big.Int {
	raw := make([]byte, 16)
	rand.Read(raw) // never fails (crypto/rand, since Go 1.24)
	raw[0] = raw[0]&0x7f | 0x40
	return new(big.Int).SetBytes(raw)
}

// ParseAuthorities reads one or more PEM certificates, all of authorities.
func ParseAuthorities(text []byte) ([]*x509.Certificate, error) {
	var certificates []*x509.Certificate
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			return nil, fmt.Errorf("PEM block %.40q instead of CERTIFICATE: %w", block.Type, ErrMalformed)
		}
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("authority certificate: %w: %w", ErrMalformed, err)
		}
		if !certificate.BasicConstraintsValid || !certificate.IsCA {
			return nil, fmt.Errorf("certificate %.60q is not that of an authority: %w", certificate.Subject.CommonName, ErrWrongUse)
		}
		certificates = append(certificates, certificate)
	}
	if len(certificates) == 0 {
		return nil, fmt.Errorf("no PEM certificate found: %w", ErrMalformed)
	}
	return certificates, nil
}
