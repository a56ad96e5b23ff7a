package identity

import (
	"errors"
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/task"
)

// What was found good once is judged by the clock and by the
// deny list all the same.
func TestKnownSignaturesDoNotOutliveTheCertificate(t *testing.T) {
	authority := newAuthority(t)
	first, end := newVerifier(t, authority), noon.Add(time.Hour)
	key := newKey(t)
	der := issue(t, authority, key, "siteA", end)
	member, err := first.Verify(der, noon)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := first.Verify(der, end.Add(time.Second)); !errors.Is(err, ErrExpired) {
		t.Errorf("after its end: %v", err)
	}
	if _, err := first.Verify(der, noon.Add(-ClockSkew-time.Second)); !errors.Is(err, ErrNotYetValid) {
		t.Errorf("before its beginning: %v", err)
	}
	spoilt := append([]byte(nil), der...)
	spoilt[len(spoilt)-1] ^= 1 // of the signature
	if _, err := first.Verify(spoilt, noon); err == nil {
		t.Error("a spoilt signature is taken for the good one")
	}
	first.Deny([]task.PeerID{member.Peer})
	if _, err := first.Verify(der, noon); !errors.Is(err, ErrDenied) {
		t.Errorf("denied: %v", err)
	}
}

// The memory is bounded, and the latest signatures stay.
func TestSignaturesAreForgottenByAge(t *testing.T) {
	authority := newAuthority(t)
	verifier := newVerifier(t, authority)
	der := issue(t, authority, newKey(t), "siteA", noon.Add(time.Hour))
	if _, err := verifier.Verify(der, noon); err != nil {
		t.Fatal(err)
	}
	fill := func(from int) {
		for i := range mostSignatures {
			verifier.seen.put([32]byte{byte(i), byte(i >> 8), byte(from), 1}, span{})
		}
	}
	fill(1)
	if !verifier.seen.good(der, noon) {
		t.Error("forgotten after one generation")
	}
	fill(2)
	fill(3)
	if verifier.seen.good(der, noon) || len(verifier.seen.young)+len(verifier.seen.old) > 2*mostSignatures {
		t.Error("remembered for ever")
	}
}
