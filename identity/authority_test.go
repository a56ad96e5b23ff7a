package identity

import (
	"bytes"
	"crypto"
	"encoding/pem"
	"errors"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
)

func pemOf(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func TestLoadedAuthorityIssuesForTheSameVO(t *testing.T) {
	authority := newAuthority(t)
	verifier := newVerifier(t, authority)
	again, err := LoadAuthority(authority.PEM())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := verifier.Verify(join(t, again, "siteA").DER, noon); err != nil {
		t.Error(err)
	}
	firstCert, firstKey := authority.PEM()
	secondCert, secondKey := again.PEM()
	if !bytes.Equal(firstCert, secondCert) || !bytes.Equal(firstKey, secondKey) {
		t.Error("loading and storing changes the PEM text")
	}
}

func TestLoadAuthorityRefuses(t *testing.T) {
	authority, other := newAuthority(t), newAuthority(t)
	certificate, key := authority.PEM()
	otherCert, otherKey := other.PEM()
	for name, texts := range map[string][2][]byte{
		"key of another":   {certificate, otherKey},
		"no key":           {certificate, nil},
		"certificate twin": {append(bytes.Clone(certificate), otherCert...), key},
		"no certificate":   {nil, key},
		"swapped":          {key, certificate},
		"torn key":         {certificate, key[:len(key)/2]},
		"a member":         {pemOf(join(t, authority, "siteA").DER), key},
	} {
		if _, err := LoadAuthority(texts[0], texts[1]); err == nil {
			t.Errorf("%s: loaded", name)
		}
	}
	if _, err := LoadAuthority(certificate, otherKey); !errors.Is(err, ErrWrongKey) {
		t.Errorf("key of another: %v, want %v", err, ErrWrongKey)
	}
}

func TestServerCertificateNamesItsHosts(t *testing.T) {
	authority := newAuthority(t)
	leaf := serverCertificate(t, authority, "queue.example.org", "10.9.0.1", "::1", "[fe80::1]", "host_1.")().Leaf
	for _, host := range []string{QueueServerName, "queue.example.org", "10.9.0.1", "::1", "fe80::1", "host_1"} {
		if err := leaf.VerifyHostname(host); err != nil {
			t.Error(err)
		}
	}
	if err := leaf.VerifyHostname("other.example.org"); err == nil {
		t.Error("a host that was not named passes")
	}
	if !leaf.NotAfter.Equal(noon.Add(ServerLife)) {
		t.Errorf("ends at %s", leaf.NotAfter)
	}
	for _, host := range []string{"", "host:7420", "a b", "a..b", "*", "*.example.org", "-a", "x\x00y", "é"} {
		if _, err := authority.IssueServer([]string{host}, noon); err == nil {
			t.Errorf("host %q was taken", host)
		}
	}
}

func TestNothingIsIssuedBeyondTheAuthority(t *testing.T) {
	authority := newAuthority(t)
	late := authority.NotAfter().Add(-time.Hour)
	certificate, err := authority.IssueServer(nil, late)
	if err != nil {
		t.Fatal(err)
	}
	if !certificate.Leaf.NotAfter.Equal(authority.NotAfter()) {
		t.Errorf("server certificate ends at %s, the authority at %s", certificate.Leaf.NotAfter, authority.NotAfter())
	}
	if _, err := authority.IssueServer(nil, authority.NotAfter().Add(time.Second)); !errors.Is(err, ErrExpired) {
		t.Errorf("issued by an expired authority: %v", err)
	}
}

func TestPilotKeyIsTheLibp2pIdentity(t *testing.T) {
	key := newKey(t)
	id, err := peer.IDFromPrivateKey(key.Libp2p())
	if err != nil {
		t.Fatal(err)
	}
	if id.String() != string(key.Peer()) {
		t.Errorf("libp2p sees %s, the key says %s", id, key.Peer())
	}
	message := []byte("what libp2p signs verifies with the same public key")
	signature, err := key.Libp2p().Sign(message)
	if err != nil {
		t.Fatal(err)
	}
	own, err := key.Sign(nil, message, crypto.Hash(0))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(signature, own) {
		t.Error("libp2p and crypto.Signer sign differently")
	}
	if newKey(t).Peer() == key.Peer() {
		t.Error("two keys are the same")
	}
}
