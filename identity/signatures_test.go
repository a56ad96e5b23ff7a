package identity

import (
	"crypto/sha256"
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

// The memory is bounded, and the latest certificates stay.
func TestSignaturesAreForgottenByAge(t *testing.T) {
	authority := newAuthority(t)
	verifier := newVerifier(t, authority)
	der := issue(t, authority, newKey(t), "siteA", noon.Add(time.Hour))
	known := func() bool { return verifier.seen.Contains(sha256.Sum256(der)) }
	verify := func() {
		t.Helper()
		if _, err := verifier.Verify(der, noon); err != nil {
			t.Fatal(err)
		}
	}
	fill := func(from, n int) {
		for i := range n {
			verifier.seen.Add([32]byte{byte(i), byte(i >> 8), byte(from), 1}, membership{})
		}
	}
	verify()
	fill(1, mostSeen-1)
	verify() // and is the latest again
	fill(2, mostSeen-1)
	if !known() {
		t.Error("forgotten while it is used")
	}
	fill(3, 1)
	if known() || verifier.seen.Len() > mostSeen {
		t.Errorf("remembered for ever, with %d others", verifier.seen.Len())
	}
}

// What was found good is good while the authority's own certificate is, and no longer.
func TestKnownSignaturesEndWithTheAuthority(t *testing.T) {
	authority := newAuthority(t)
	verifier := newVerifier(t, authority)
	der := issue(t, authority, newKey(t), "siteA", noon.Add(time.Hour))
	if _, err := verifier.Verify(der, noon); err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(der)
	known, _ := verifier.seen.Get(sum)
	if end := authority.NotAfter(); known.signedTo.After(end) || known.signedFrom.IsZero() {
		t.Errorf("good until %s, the authority until %s", known.signedTo, end)
	}
	known.member.Pilot, known.signedTo = "p-wrongone", noon.Add(-time.Second) // as if the authority had ended
	verifier.seen.Add(sum, known)
	if member, err := verifier.Verify(der, noon); err != nil || member.Pilot != "p-abcdefgh" {
		t.Errorf("it was not looked at again: %v, %v", member, err)
	}
}
