package identity

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	p2ppeer "github.com/libp2p/go-libp2p/core/peer"

	"github.com/pilotage-grid/pilotage/task"
)

// Facts are signed by who made them, whoever delivers them. What is signed begins with
// the kind of fact, so that no signature stands for another kind.
const (
	factOutcomes    = "pilotage outcomes 1"
	factResignation = "pilotage resignation 1"
	factTerm        = "pilotage term 1"
	factDenied      = "pilotage denied 1"
)

// ErrNotSigned tells of a fact without a good signature of who alone can know it.
var ErrNotSigned = errors.New("it is not signed by who alone can say so")

// statement is what is signed: each part after its length.
func statement(kind string, parts ...[]byte) []byte {
	text := binary.AppendUvarint(nil, uint64(len(kind)))
	text = append(text, kind...)
	for _, part := range parts {
		text = binary.AppendUvarint(text, uint64(len(part)))
		text = append(text, part...)
	}
	return text
}

func termParts(site task.Site, term task.Term) [][]byte {
	return [][]byte{
		[]byte(site), binary.BigEndian.AppendUint64(nil, term.Epoch), binary.BigEndian.AppendUint64(nil, term.Ballot), []byte(term.Peer),
	}
}

// registration is what a pilot signs to show that the key is its own, when it registers.
func registration(site task.Site) []byte { return []byte("pilotage register " + string(site)) }

// SignRegistration proves that a pilot which registers at a site has the key.
func (k *PilotKey) SignRegistration(site task.Site) []byte {
	return ed25519.Sign(k.private, registration(site))
}

// VerifyRegistration checks such a proof.
func VerifyRegistration(public ed25519.PublicKey, site task.Site, proof []byte) error {
	if !ed25519.Verify(public, registration(site), proof) {
		return fmt.Errorf("proof is not the signature of %q with the public key", registration(site))
	}
	return nil
}

// Seal signs outcomes, by their digests, for the pilot that ran the attempts.
func (m MemberCertificate) Seal(digests []task.OutcomeDigest) *task.Seal {
	seal := &task.Seal{Certificate: m.DER, Digests: digests}
	seal.Signature = ed25519.Sign(m.Key.private, statement(factOutcomes, digestParts(digests)...))
	return seal
}

func digestParts(digests []task.OutcomeDigest) [][]byte {
	parts := make([][]byte, len(digests))
	for i := range digests {
		parts[i] = digests[i][:]
	}
	return parts
}

// VerifySeal returns the member of a site that has signed outcomes. Outcomes may arrive
// after the membership of their pilot has ended; a denied pilot's are refused.
func (v *Verifier) VerifySeal(seal *task.Seal, site task.Site, now time.Time) (Member, error) {
	shown, err := v.look(seal.Certificate, now)
	if err != nil {
		return Member{}, fmt.Errorf("the certificate of a seal: %w", err)
	}
	if now.After(shown.member.NotAfter) {
		now = shown.member.NotAfter
	}
	if err := v.judge(&shown, now); err != nil {
		return Member{}, err
	}
	if err := shown.member.atSite(site); err != nil {
		return Member{}, err
	}
	if !ed25519.Verify(shown.public, statement(factOutcomes, digestParts(seal.Digests)...), seal.Signature) {
		return Member{}, fmt.Errorf("outcomes in the name of pilot %s: %w", shown.member.Pilot, ErrNotSigned)
	}
	return shown.member, nil
}

// SignResignation signs that the master of a term gives it up.
func (k *PilotKey) SignResignation(site task.Site, term task.Term) []byte {
	return ed25519.Sign(k.private, statement(factResignation, termParts(site, term)...))
}

// VerifyResignation checks that the master of a term has given it up itself.
func VerifyResignation(site task.Site, term task.Term, signature []byte) error {
	public, err := publicOf(term.Peer)
	if err != nil {
		return err
	}
	if !ed25519.Verify(public, statement(factResignation, termParts(site, term)...), signature) {
		return fmt.Errorf("a resignation of term %s: %w", term, ErrNotSigned)
	}
	return nil
}

// publicOf is the key that a peer id stands for.
func publicOf(id task.PeerID) (ed25519.PublicKey, error) {
	decoded, err := p2ppeer.Decode(string(id))
	if err != nil {
		return nil, fmt.Errorf("peer id %.60q: %w: %w", id, ErrMalformed, err)
	}
	key, err := decoded.ExtractPublicKey()
	if err != nil {
		return nil, fmt.Errorf("peer id %.60q: %w: %w", id, ErrMalformed, err)
	}
	raw, err := key.Raw()
	if err != nil || len(raw) != ed25519.PublicKeySize {
		return nil, fmt.Errorf("peer id %.60q is not of an Ed25519 key: %w", id, ErrWrongKey)
	}
	return raw, nil
}

// SignTerm signs that the queue has granted a term.
func (a *Authority) SignTerm(site task.Site, term task.Term) ([]byte, error) {
	signature, err := a.signFact(statement(factTerm, termParts(site, term)...))
	if err != nil {
		return nil, fmt.Errorf("sign term %s of %s: %w", term, site, err)
	}
	return signature, nil
}

func (a *Authority) signFact(fact []byte) ([]byte, error) {
	sum := sha256.Sum256(fact)
	return ecdsa.SignASN1(rand.Reader, a.key, sum[:])
}

// VerifyTerm checks that the queue has granted a term.
func (v *Verifier) VerifyTerm(site task.Site, term task.Term, signature []byte) error {
	if !v.signed(statement(factTerm, termParts(site, term)...), signature) {
		return fmt.Errorf("term %s of %s: %w", term, site, ErrNotSigned)
	}
	return nil
}

// signed tells whether one of the VO's authorities has signed a fact.
func (v *Verifier) signed(fact, signature []byte) bool {
	sum := sha256.Sum256(fact)
	v.mutex.RLock()
	authorities := v.authorities
	v.mutex.RUnlock()
	return slices.ContainsFunc(authorities, func(key *ecdsa.PublicKey) bool { return ecdsa.VerifyASN1(key, sum[:], signature) })
}

// SignDenied signs a site's deny list, so that its pilots can pass it on to each other.
func (a *Authority) SignDenied(site task.Site, peers []task.PeerID) ([]byte, error) {
	signature, err := a.signFact(statement(factDenied, deniedParts(site, peers)...))
	if err != nil {
		return nil, fmt.Errorf("sign the deny list of %s: %w", site, err)
	}
	return signature, nil
}

// VerifyDenied checks that the queue has denied these peers of a site.
func (v *Verifier) VerifyDenied(site task.Site, peers []task.PeerID, signature []byte) error {
	if !v.signed(statement(factDenied, deniedParts(site, peers)...), signature) {
		return fmt.Errorf("a deny list of %s with %d peers: %w", site, len(peers), ErrNotSigned)
	}
	return nil
}

func deniedParts(site task.Site, peers []task.PeerID) [][]byte {
	parts := [][]byte{[]byte(site)}
	for _, peer := range peers {
		parts = append(parts, []byte(peer))
	}
	return parts
}
