package identity

import (
	"crypto/ed25519"
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/task"
)

// BenchmarkSeal opens the seal of one outcome of a pilot that has been heard before, and
// checks its signature alone, which is the least that it can take.
func BenchmarkSeal(b *testing.B) {
	authority := newAuthority(b)
	verifier := newVerifier(b, authority)
	key := newKey(b)
	member := MemberCertificate{DER: issue(b, authority, key, "siteA", noon.Add(time.Hour)), Key: key}
	digests := []task.OutcomeDigest{{1}}
	seal := member.Seal(digests)
	b.Run("open", func(b *testing.B) {
		for b.Loop() {
			if _, err := verifier.VerifySeal(seal, "siteA", noon); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("signature", func(b *testing.B) {
		for b.Loop() {
			if !ed25519.Verify(key.Public(), statement(factOutcomes, digestParts(digests)...), seal.Signature) {
				b.Fatal("a good signature is refused")
			}
		}
	})
}
