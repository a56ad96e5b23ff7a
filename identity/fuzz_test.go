package identity

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/sha256"
	"encoding/json"
	"math/big"
	"testing"
	"time"
)

// fuzzIdentities are made of fixed keys, since fuzzing runs in several
// processes: what one of them issued must be good for the others.
func fuzzIdentities(f *testing.F) (authority *Authority, alice, bob MemberCertificate) {
	f.Helper()
	scalar := sha256.Sum256([]byte("authority for fuzzing"))
	root, err := ecdsa.ParseRawPrivateKey(elliptic.P256(), scalar[:])
	if err != nil {
		f.Fatal(err)
	}
	authority, err = newAuthorityOf(root, big.NewInt(1<<32), noon)
	if err != nil {
		f.Fatal(err)
	}
	members := make([]MemberCertificate, 2)
	for i, name := range []string{"alice for fuzzing", "bob for fuzzing"} {
		seed := sha256.Sum256([]byte(name))
		key := &PilotKey{private: ed25519.NewKeyFromSeed(seed[:])}
		if key.peer, err = PeerOf(key.Public()); err != nil {
			f.Fatal(err)
		}
		members[i] = MemberCertificate{DER: issue(f, authority, key, "siteA", noon.Add(time.Hour)), Key: key}
	}
	return authority, members[0], members[1]
}

// Only what the authority issued is a membership.
func FuzzVerify(f *testing.F) {
	authority, alice, _ := fuzzIdentities(f)
	verifier := newVerifier(f, authority)
	f.Add(alice.DER)
	f.Add(alice.DER[:len(alice.DER)-1])
	f.Add(join(f, newAuthority(f), "siteA").DER)
	f.Add(authority.certificate.Raw)
	f.Add(serverCertificate(f, authority)().Certificate[0])
	f.Add([]byte("garbage"))
	issued := Member{Site: "siteA", Pilot: "p-abcdefgh", Peer: alice.Key.Peer(), NotAfter: noon.Add(time.Hour)}
	f.Fuzz(func(t *testing.T, der []byte) {
		if got, err := verifier.Verify(der, noon); err == nil && got != issued {
			t.Fatalf("a forgery passes as %+v", got)
		}
	})
}

func FuzzParseToken(f *testing.F) {
	id, secret, err := NewToken()
	if err != nil {
		f.Fatal(err)
	}
	for _, text := range []string{"", "pil_", "pil__", FormatToken(id, secret), FormatToken(secret, id), "pil_" + id + "_" + secret + "_"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		id, secret, err := ParseToken(text)
		if err == nil && FormatToken(id, secret) != text {
			t.Fatalf("%q was read as %q", text, FormatToken(id, secret))
		}
		if err != nil && (id != "" || secret != "") {
			t.Fatalf("%q is refused and yet has parts", text)
		}
	})
}

// What is read is valid, not expired, and can be written and read again.
func FuzzReadAccessFile(f *testing.F) {
	access := newAccess(f)
	good, err := json.Marshal(access)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add(good[:len(good)/2])
	f.Add(bytes.Replace(good, []byte("7420"), []byte("99999"), 1))
	f.Add([]byte(`{"version":1}`))
	f.Add([]byte(`{"version":1e9,"queue":{}}`))
	now := access.Expires.Add(-time.Minute)
	f.Fuzz(func(t *testing.T, content []byte) {
		read, err := decodeAccessFile(content, now)
		if err != nil {
			return
		}
		if !read.Expires.After(now) {
			t.Fatal("read although expired")
		}
		written, err := json.Marshal(read)
		if err != nil {
			t.Fatal(err)
		}
		again, err := decodeAccessFile(written, now)
		if err != nil {
			t.Fatal(err)
		}
		if again.Token != read.Token || again.Role != read.Role || again.Site != read.Site || !again.Expires.Equal(read.Expires) {
			t.Fatal("changed by writing and reading")
		}
	})
}

// Whatever the other end sends, the exchange ends without a panic and accepts
// the one certificate only.
func FuzzExchangeMembership(f *testing.F) {
	authority, alice, bob := fuzzIdentities(f)
	verifier := newVerifier(f, authority)
	f.Add(framed(bob.DER))
	f.Add(framed(alice.DER))
	f.Add(framed(nil))
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 1})
	f.Fuzz(func(t *testing.T, sent []byte) {
		var own bytes.Buffer
		got, err := ExchangeMembership(recorded{bytes.NewReader(sent), &own}, alice.DER, verifier, "siteA", bob.Key.Public(), noon)
		if err == nil && got.Peer != bob.Key.Peer() {
			t.Fatalf("%x passes as %+v", sent, got)
		}
	})
}
