package identity

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/pilotage-grid/pilotage/task"
)

// mostSeen bounds the certificates that are remembered, of some 500 bytes each, the latest
// ones: more than a site has members.
const mostSeen = 16_384

// Verifier decides who is a member: it holds the VO's authority and the deny
// list, and remembers whom it has found to be one. Safe for concurrent use.
type Verifier struct {
	seen *lru.Cache[[sha256.Size]byte, membership] // found good

	mutex       sync.RWMutex
	roots       *x509.CertPool     // replaced as a whole
	authorities []*ecdsa.PublicKey // the keys of roots
	denied      map[task.PeerID]struct{}
}

// NewVerifier reads the authority's certificate in PEM form, as it stands in
// an access file. Several are accepted, for the time of a change of authority.
func NewVerifier(caPEM []byte) (*Verifier, error) {
	seen, err := lru.New[[sha256.Size]byte, membership](mostSeen)
	if err != nil {
		return nil, err // the size is a constant
	}
	v := &Verifier{roots: x509.NewCertPool(), seen: seen, denied: make(map[task.PeerID]struct{})}
	if err := v.Trust(caPEM); err != nil {
		return nil, err
	}
	return v, nil
}

// Trust adds authorities in PEM form: who is a member by one of them is a member. A
// pilot hears of a new one when it registers.
func (v *Verifier) Trust(caPEM []byte) error {
	certificates, err := ParseAuthorities(caPEM)
	if err != nil {
		return fmt.Errorf("read the VO's authority: %w", err)
	}
	v.mutex.Lock()
	defer v.mutex.Unlock()
	roots := v.roots.Clone()
	for _, certificate := range certificates {
		roots.AddCert(certificate)
		key, ok := certificate.PublicKey.(*ecdsa.PublicKey)
		if ok && !slices.ContainsFunc(v.authorities, func(known *ecdsa.PublicKey) bool { return known.Equal(key) }) {
			v.authorities = append(v.authorities, key)
		}
	}
	v.roots = roots
	return nil
}

// Deny adds peers to the deny list. It only ever grows: lists arrive over
// several ways and out of order, and an old one must not bring a revoked pilot
// back (a pilot that may return comes with a new key). A connection that is
// open already stays open: who owns it closes it, see IsDenied.
func (v *Verifier) Deny(peers []task.PeerID) {
	v.mutex.Lock()
	defer v.mutex.Unlock()
	for _, peer := range peers {
		v.denied[peer] = struct{}{}
	}
}

// IsDenied tells whether the peer is on the deny list.
func (v *Verifier) IsDenied(peer task.PeerID) bool {
	v.mutex.RLock()
	defer v.mutex.RUnlock()
	_, found := v.denied[peer]
	return found
}

// Denied returns the deny list in order of the ids.
func (v *Verifier) Denied() []task.PeerID {
	v.mutex.RLock()
	defer v.mutex.RUnlock()
	peers := make([]task.PeerID, 0, len(v.denied))
	for peer := range v.denied {
		peers = append(peers, peer)
	}
	slices.Sort(peers)
	return peers
}

// Verify checks a membership certificate in DER form: size, form, Ed25519 key,
// peer id of that key, signature of the VO's authority, client use, validity
// at now (ClockSkew of grace at the beginning, none at the end), deny list.
// Refusals are ErrMalformed, ErrWrongUse, ErrWrongKey, ErrForeignAuthority,
// ErrNotYetValid, ErrExpired or ErrDenied. That the other end has the private
// key is for the caller's handshake to show.
func (v *Verifier) Verify(der []byte, now time.Time) (Member, error) {
	shown, err := v.look(der, now)
	if err != nil {
		return Member{}, err
	}
	if err := v.judge(&shown, now); err != nil {
		return Member{}, err
	}
	return shown.member, nil
}

// membership is a certificate that the authority has signed.
type membership struct {
	member     Member
	public     ed25519.PublicKey
	begin      time.Time // it ends with the member's NotAfter
	signedFrom time.Time // the whole chain is valid from here
	signedTo   time.Time // until here
}

// look reads a certificate and checks all but the dates and the deny list, which are for
// judge: a certificate that was found good is remembered by the SHA-256 of its bytes, as
// members meet often, and is judged anew each time. The signature is checked before the
// dates, so that a refusal never repeats what a stranger wrote as if the VO had said it.
func (v *Verifier) look(der []byte, now time.Time) (membership, error) {
	if len(der) > MaxCertificate {
		return membership{}, fmt.Errorf("membership certificate of %d bytes: at most %d are read: %w", len(der), MaxCertificate, ErrMalformed)
	}
	sum := sha256.Sum256(der)
	if known, found := v.seen.Get(sum); found {
		if at := known.moment(now); !at.Before(known.signedFrom) && !at.After(known.signedTo) {
			return known, nil
		}
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		return membership{}, fmt.Errorf("membership certificate: %w: %w", ErrMalformed, err)
	}
	shown := membership{begin: certificate.NotBefore}
	if shown.member, err = memberOf(certificate); err != nil {
		return membership{}, fmt.Errorf("membership certificate: %w", err)
	}
	shown.public, _ = certificate.PublicKey.(ed25519.PublicKey) // memberOf has refused all others
	if err := v.verifySignature(certificate, &shown, now); err != nil {
		return membership{}, shown.refused(err)
	}
	v.seen.Add(sum, shown)
	return shown, nil
}

// moment is now, moved into the certificate's own validity: when its signature has to be
// good.
func (m *membership) moment(now time.Time) time.Time {
	switch {
	case now.After(m.member.NotAfter):
		return m.member.NotAfter
	case now.Before(m.begin):
		return m.begin
	}
	return now
}

func (m *membership) refused(err error) error {
	return fmt.Errorf("membership certificate of pilot %s at %s: %w", m.member.Pilot, m.member.Site, err)
}

// judge refuses a certificate whose time it is not, and one of a peer that was revoked.
func (v *Verifier) judge(m *membership, now time.Time) error {
	switch {
	case now.After(m.member.NotAfter):
		return m.refused(&ExpiredError{Subject: "the membership", Expired: m.member.NotAfter, Advice: "start a new pilot, or check this host's clock"})
	case now.Add(ClockSkew).Before(m.begin):
		return m.refused(fmt.Errorf("%w before %s: check this host's clock", ErrNotYetValid, m.begin.UTC().Format(time.RFC3339)))
	case v.IsDenied(m.member.Peer):
		return fmt.Errorf("pilot %s at %s (peer %s): %w: its membership was revoked", m.member.Pilot, m.member.Site, m.member.Peer, ErrDenied)
	}
	return nil
}

// verifySignature checks that the authority, itself valid when the certificate is, has
// signed it for a client, and notes when all of the chain is valid.
func (v *Verifier) verifySignature(certificate *x509.Certificate, m *membership, now time.Time) error {
	if certificate.IsCA || certificate.KeyUsage&x509.KeyUsageDigitalSignature == 0 {
		return fmt.Errorf("its key use is not that of a member: %w", ErrWrongUse)
	}
	moment := m.moment(now)
	v.mutex.RLock()
	roots := v.roots
	v.mutex.RUnlock()
	chains, err := certificate.Verify(x509.VerifyOptions{
		Roots:       roots,
		CurrentTime: moment,
		KeyUsages:   []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	var invalid x509.CertificateInvalidError
	switch {
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired && moment.After(invalid.Cert.NotAfter):
		return &ExpiredError{Subject: "the VO's authority", Expired: invalid.Cert.NotAfter, Advice: "ask the VO for a new access file"}
	case errors.As(err, &invalid) && invalid.Reason == x509.IncompatibleUsage:
		return fmt.Errorf("%w: %w", ErrWrongUse, err)
	case err != nil:
		return fmt.Errorf("%w: %w", ErrForeignAuthority, err)
	}
	m.signedFrom, m.signedTo = certificate.NotBefore, certificate.NotAfter
	for _, above := range chains[0][1:] {
		if above.NotBefore.After(m.signedFrom) {
			m.signedFrom = above.NotBefore
		}
		if above.NotAfter.Before(m.signedTo) {
			m.signedTo = above.NotAfter
		}
	}
	return nil
}
