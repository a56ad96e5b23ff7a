package identity

import (
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"fmt"
	"io"
	"log/slog"

	p2pcrypto "github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/pilotage-grid/pilotage/task"
)

// PilotKey is a pilot's own key pair, made when the pilot starts and never
// written to disk. The same key serves libp2p, the data HTTPS and the queue,
// so that one certificate speaks for all three. Safe for concurrent use.
type PilotKey struct {
	private ed25519.PrivateKey
	peer    task.PeerID
}

// NewPilotKey makes a fresh key from the system's randomness.
func NewPilotKey() (*PilotKey, error) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make the pilot's key: %w", err)
	}
	id, err := PeerOf(public)
	if err != nil {
		return nil, err
	}
	return &PilotKey{private: private, peer: id}, nil
}

// PeerOf derives the libp2p peer id, in its text form, from an Ed25519 public
// key of 32 bytes. Other lengths are refused with ErrWrongKey.
func PeerOf(public ed25519.PublicKey) (task.PeerID, error) {
	if len(public) != ed25519.PublicKeySize {
		return "", fmt.Errorf("derive a peer id: the public key has %d bytes instead of %d: %w",
			len(public), ed25519.PublicKeySize, ErrWrongKey)
	}
	key, err := p2pcrypto.UnmarshalEd25519PublicKey(public)
	if err != nil {
		return "", fmt.Errorf("derive a peer id: %w", err)
	}
	id, err := peer.IDFromPublicKey(key)
	if err != nil {
		return "", fmt.Errorf("derive a peer id: %w", err)
	}
	return task.PeerID(id.String()), nil
}

// Public returns the public half, to be sent to the queue at registration.
func (k *PilotKey) Public() ed25519.PublicKey {
	return k.private.Public().(ed25519.PublicKey)
}

// Peer returns the peer id that this key stands for.
func (k *PilotKey) Peer() task.PeerID { return k.peer }

// Libp2p returns the key in the form that libp2p.Identity takes.
func (k *PilotKey) Libp2p() p2pcrypto.PrivKey {
	key, err := p2pcrypto.UnmarshalEd25519PrivateKey(k.private)
	if err != nil {
		panic("identity: an Ed25519 key of the standard library was refused by libp2p: " + err.Error())
	}
	return key
}

// Sign signs as crypto.Signer describes for Ed25519 (RFC 8032): the whole
// message, with crypto.Hash(0) as option.
func (k *PilotKey) Sign(random io.Reader, message []byte, options crypto.SignerOpts) ([]byte, error) {
	return k.private.Sign(random, message, options)
}

// Signer returns the key as a crypto.Signer, for tls.Certificate.PrivateKey.
// It exists because that interface wants Public to return an untyped key.
func (k *PilotKey) Signer() crypto.Signer { return pilotSigner{k} }

type pilotSigner struct{ key *PilotKey }

func (s pilotSigner) Public() crypto.PublicKey { return s.key.Public() }

func (s pilotSigner) Sign(random io.Reader, message []byte, options crypto.SignerOpts) ([]byte, error) {
	return s.key.Sign(random, message, options)
}

// Format prints the peer id for every verb, so that no way of printing shows
// the private half.
func (k *PilotKey) Format(state fmt.State, _ rune) { fmt.Fprintf(state, "pilot key of %s", k.peer) }

// LogValue logs the peer id only.
func (k *PilotKey) LogValue() slog.Value { return slog.StringValue("pilot key of " + string(k.peer)) }
