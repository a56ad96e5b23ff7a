package identity

import (
	"bytes"
	"crypto/ed25519"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/task"
)

func framed(der []byte) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(der))), der...)
}

func TestExchangeMembershipOfTwoMembers(t *testing.T) {
	authority := newAuthority(t)
	alice, bob, verifier := join(t, authority, "siteA"), join(t, authority, "siteA"), newVerifier(t, authority)
	near, far := net.Pipe() // without buffer: a write waits for its reader
	defer near.Close()
	defer far.Close()
	type result struct {
		member Member
		err    error
	}
	done := make(chan result)
	go func() {
		member, err := ExchangeMembership(far, bob.DER, verifier, "siteA", alice.Key.Public(), noon)
		done <- result{member, err}
	}()
	seen, err := ExchangeMembership(near, alice.DER, verifier, "siteA", bob.Key.Public(), noon)
	other := <-done
	if err != nil || other.err != nil {
		t.Fatal(err, other.err)
	}
	if seen.Peer != bob.Key.Peer() || other.member.Peer != alice.Key.Peer() {
		t.Errorf("alice sees %s, bob sees %s", seen.Peer, other.member.Peer)
	}
}

// recorded is a connection whose other end has said all it will ever say.
type recorded struct {
	io.Reader
	io.Writer
}

func TestExchangeMembershipRefuses(t *testing.T) {
	authority, foreign := newAuthority(t), newAuthority(t)
	alice, bob, away := join(t, authority, "siteA"), join(t, authority, "siteA"), join(t, authority, "siteB")
	verifier := newVerifier(t, authority)
	denied := join(t, authority, "siteA")
	verifier.Deny([]task.PeerID{denied.Key.Peer()})
	stranger := join(t, foreign, "siteA")
	late := noon.Add(2 * time.Hour)

	for _, example := range []struct {
		name string
		sent []byte
		key  ed25519.PublicKey
		now  time.Time
		want error
	}{
		{"another VO", framed(stranger.DER), stranger.Key.Public(), noon, ErrForeignAuthority},
		{"another site", framed(away.DER), away.Key.Public(), noon, ErrOtherSite},
		{"expired", framed(bob.DER), bob.Key.Public(), late, ErrExpired},
		{"denied", framed(denied.DER), denied.Key.Public(), noon, ErrDenied},
		{"certificate of another pilot", framed(bob.DER), away.Key.Public(), noon, ErrWrongKey},
		{"my own certificate sent back", framed(alice.DER), bob.Key.Public(), noon, ErrWrongKey},
		{"unusable key", framed(bob.DER), nil, noon, ErrWrongKey},
		{"nothing", nil, bob.Key.Public(), noon, io.EOF},
		{"half a length", []byte{0, 0}, bob.Key.Public(), noon, io.ErrUnexpectedEOF},
		{"zero length", framed(nil), bob.Key.Public(), noon, ErrMalformed},
		{"torn certificate", framed(bob.DER)[:len(bob.DER)], bob.Key.Public(), noon, io.ErrUnexpectedEOF},
		{"oversize", framed(make([]byte, MaxCertificate+1)), bob.Key.Public(), noon, ErrMalformed},
		{"absurd length", []byte{0xff, 0xff, 0xff, 0xff}, bob.Key.Public(), noon, ErrMalformed},
		{"garbage", framed([]byte("garbage")), bob.Key.Public(), noon, ErrMalformed},
	} {
		member, err := ExchangeMembership(recorded{bytes.NewReader(example.sent), io.Discard}, alice.DER, verifier, "siteA", example.key, example.now)
		if !errors.Is(err, example.want) || member != (Member{}) {
			t.Errorf("%s: got %+v, %v, want %v", example.name, member, err, example.want)
		}
	}
	for name, own := range map[string][]byte{"nothing": nil, "too much": make([]byte, MaxCertificate+1)} {
		if _, err := ExchangeMembership(recorded{bytes.NewReader(framed(bob.DER)), io.Discard}, own, verifier, "siteA", bob.Key.Public(), noon); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s as own certificate: %v", name, err)
		}
	}
}

func TestExchangeMembershipReadsNoBodyOfARefusedLength(t *testing.T) {
	authority := newAuthority(t)
	alice, bob, verifier := join(t, authority, "siteA"), join(t, authority, "siteA"), newVerifier(t, authority)
	for _, length := range []uint32{0, MaxCertificate + 1, 1<<32 - 1} {
		sent := bytes.NewReader(append(binary.BigEndian.AppendUint32(nil, length), make([]byte, 100)...))
		_, err := ExchangeMembership(recorded{sent, io.Discard}, alice.DER, verifier, "siteA", bob.Key.Public(), noon)
		if !errors.Is(err, ErrMalformed) || sent.Len() != 100 {
			t.Errorf("length %d: %v, %d of 100 bytes left", length, err, sent.Len())
		}
	}
}

func TestExchangeMembershipReadsNothingBeyond(t *testing.T) {
	authority := newAuthority(t)
	alice, bob, verifier := join(t, authority, "siteA"), join(t, authority, "siteA"), newVerifier(t, authority)
	rest := bytes.NewReader(append(framed(bob.DER), "next"...))
	var sent bytes.Buffer
	if _, err := ExchangeMembership(recorded{rest, &sent}, alice.DER, verifier, "siteA", bob.Key.Public(), noon); err != nil {
		t.Fatal(err)
	}
	if left, _ := io.ReadAll(rest); string(left) != "next" {
		t.Errorf("%q is left for the protocol that follows", left)
	}
	if !bytes.Equal(sent.Bytes(), framed(alice.DER)) {
		t.Error("what was sent is not the framed certificate")
	}
}

func TestExchangeMembershipEndsAtTheDeadline(t *testing.T) {
	authority := newAuthority(t)
	alice, bob, verifier := join(t, authority, "siteA"), join(t, authority, "siteA"), newVerifier(t, authority)
	near, far := net.Pipe() // the far end neither reads nor writes
	defer near.Close()
	defer far.Close()
	if err := near.SetDeadline(time.Now().Add(10 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	_, err := ExchangeMembership(near, alice.DER, verifier, "siteA", bob.Key.Public(), noon)
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("got %v, want the deadline", err)
	}
}
