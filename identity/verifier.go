package identity

import (
	"crypto/ecdsa"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/pilotage-grid/pilotage/task"
)

// Verifier decides who is a member: it holds the VO's authority and the deny
// list. Safe for concurrent use.
type Verifier struct {
	seen *signatures

	mutex       sync.RWMutex
	roots       *x509.CertPool     // replaced as a whole
	authorities []*ecdsa.PublicKey // the keys of roots
	denied      map[task.PeerID]struct{}
}

// NewVerifier reads the authority's certificate in PEM form, as it stands in
// an access file. Several are accepted, for the time of a change of authority.
func NewVerifier(caPEM []byte) (*Verifier, error) {
	v := &Verifier{roots: x509.NewCertPool(), seen: newSignatures(), denied: make(map[task.PeerID]struct{})}
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

func poolOf(caPEM []byte) (*x509.CertPool, error) {
	certificates, err := ParseAuthorities(caPEM)
	if err != nil {
		return nil, fmt.Errorf("read the VO's authority: %w", err)
	}
	pool := x509.NewCertPool()
	for _, certificate := range certificates {
		pool.AddCert(certificate)
	}
	return pool, nil
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
	certificate, err := parseMembership(der)
	if err != nil {
		return Member{}, err
	}
	return v.verify(certificate, now)
}

func parseMembership(der []byte) (*x509.Certificate, error) {
	if len(der) > MaxCertificate {
		return nil, fmt.Errorf("membership certificate of %d bytes: at most %d are read: %w", len(der), MaxCertificate, ErrMalformed)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("membership certificate: %w: %w", ErrMalformed, err)
	}
	return certificate, nil
}

func (v *Verifier) verify(certificate *x509.Certificate, now time.Time) (Member, error) {
	member, err := memberOf(certificate)
	if err != nil {
		return Member{}, fmt.Errorf("membership certificate: %w", err)
	}
	if err := v.verifyChain(certificate, now); err != nil {
		return Member{}, fmt.Errorf("membership certificate of pilot %s at %s: %w", member.Pilot, member.Site, err)
	}
	if v.IsDenied(member.Peer) {
		return Member{}, fmt.Errorf("pilot %s at %s (peer %s): %w: its membership was revoked", member.Pilot, member.Site, member.Peer, ErrDenied)
	}
	return member, nil
}

// verifyChain checks the signature before the dates, so that a refusal never
// repeats what a stranger wrote as if the VO had said it.
func (v *Verifier) verifyChain(certificate *x509.Certificate, now time.Time) error {
	if certificate.IsCA || certificate.KeyUsage&x509.KeyUsageDigitalSignature == 0 {
		return fmt.Errorf("its key use is not that of a member: %w", ErrWrongUse)
	}
	begin, end := certificate.NotBefore, certificate.NotAfter
	moment := now // moved into the certificate's own validity for the signature
	if moment.Before(begin) {
		moment = begin
	}
	if moment.After(end) {
		moment = end
	}
	err := v.verifySignature(certificate, moment)
	var invalid x509.CertificateInvalidError
	switch {
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired && moment.After(invalid.Cert.NotAfter):
		return &ExpiredError{Subject: "the VO's authority", Expired: invalid.Cert.NotAfter, Advice: "ask the VO for a new access file"}
	case errors.As(err, &invalid) && invalid.Reason == x509.IncompatibleUsage:
		return fmt.Errorf("%w: %w", ErrWrongUse, err)
	case err != nil:
		return fmt.Errorf("%w: %w", ErrForeignAuthority, err)
	case now.After(end):
		return &ExpiredError{Subject: "the membership", Expired: end, Advice: "start a new pilot, or check this host's clock"}
	case now.Add(ClockSkew).Before(begin):
		return fmt.Errorf("%w before %s: check this host's clock", ErrNotYetValid, begin.UTC().Format(time.RFC3339))
	}
	return nil
}

// verifySignature checks that the authority, itself valid at a moment, has
// signed a certificate that is valid then, for a client. What was found good
// is not computed again: members meet often.
func (v *Verifier) verifySignature(certificate *x509.Certificate, moment time.Time) error {
	if v.seen.good(certificate.Raw, moment) {
		return nil
	}
	v.mutex.RLock()
	roots := v.roots
	v.mutex.RUnlock()
	chains, err := certificate.Verify(x509.VerifyOptions{
		Roots:       roots,
		CurrentTime: moment,
		KeyUsages:   []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	if err == nil {
		v.seen.add(certificate.Raw, chains[0])
	}
	return err
}
