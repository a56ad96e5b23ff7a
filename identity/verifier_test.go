package identity

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"errors"
	"net/url"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/pilotage-grid/pilotage/task"
)

func TestVerifyReadsWhatWasIssued(t *testing.T) {
	authority := newAuthority(t)
	verifier, key := newVerifier(t, authority), newKey(t)
	rapid.Check(t, func(t *rapid.T) {
		want := Member{
			Site:     task.Site(rapid.StringMatching(`[A-Za-z0-9][A-Za-z0-9._-]{0,62}`).Draw(t, "site")),
			Pilot:    task.PilotID(rapid.StringMatching(`p-[a-z2-7]{8}`).Draw(t, "pilot")),
			Peer:     key.Peer(),
			NotAfter: noon.Add(time.Duration(rapid.IntRange(1, 1e6).Draw(t, "seconds")) * time.Second),
		}
		der, err := authority.IssueMember(want, key.Public(), noon)
		if err != nil {
			t.Fatal(err)
		}
		got, err := verifier.Verify(der, noon)
		if err != nil {
			t.Fatal(err)
		}
		if got != want {
			t.Fatalf("issued %+v, verified %+v", want, got)
		}
	})
}

func TestVerifyJudgesTheClock(t *testing.T) {
	authority := newAuthority(t)
	verifier, end := newVerifier(t, authority), noon.Add(time.Hour)
	der := issue(t, authority, newKey(t), "siteA", end)
	for _, example := range []struct {
		name string
		now  time.Time
		want error
	}{
		{"at its beginning", noon, nil},
		{"on a clock behind by the allowed skew", noon.Add(-ClockSkew), nil},
		{"on a clock behind by more", noon.Add(-ClockSkew - time.Second), ErrNotYetValid},
		{"at its end", end, nil},
		{"just after its end, without grace", end.Add(time.Second), ErrExpired},
		{"after the authority's end", noon.Add(AuthorityLife + time.Hour), ErrExpired},
	} {
		if _, err := verifier.Verify(der, example.now); !errors.Is(err, example.want) {
			t.Errorf("%s: got %v, want %v", example.name, err, example.want)
		}
	}
	var expired *ExpiredError
	if _, err := verifier.Verify(der, end.Add(time.Second)); !errors.As(err, &expired) || !expired.Expired.Equal(end) {
		t.Errorf("the refusal %v does not say that it expired at %s", err, end)
	}
}

func TestVerifyRefuses(t *testing.T) {
	authority, foreign := newAuthority(t), newAuthority(t)
	verifier := newVerifier(t, authority)
	weak, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	unspoiled := func(*x509.Certificate) {}
	named := func(text string) func(*x509.Certificate) {
		return func(c *x509.Certificate) {
			name, err := url.Parse(text)
			if err != nil {
				t.Fatal(err)
			}
			c.URIs = []*url.URL{name}
		}
	}
	impostor := impersonate(t, authority)
	outlived := noon.Add(-24 * time.Hour)

	for _, example := range []struct {
		name string
		der  []byte
		want error
	}{
		{"foreign authority", join(t, foreign, "siteA").DER, ErrForeignAuthority},
		{"foreign authority and expired", forge(t, foreign, nil, func(c *x509.Certificate) { c.NotBefore, c.NotAfter = outlived, outlived }), ErrForeignAuthority},
		{"key of another authority under this one's name", forge(t, impostor, nil, unspoiled), ErrForeignAuthority},
		{"ECDSA key", forge(t, authority, weak.Public(), unspoiled), ErrWrongUse},
		{"peer id of another key", forge(t, authority, newKey(t).Public(), unspoiled), ErrWrongKey},
		{"no peer id", forge(t, authority, nil, func(c *x509.Certificate) { c.Subject = pkix.Name{} }), ErrWrongKey},
		{"no name", forge(t, authority, nil, func(c *x509.Certificate) { c.URIs = nil }), ErrWrongUse},
		{"two names", forge(t, authority, nil, func(c *x509.Certificate) { c.URIs = append(c.URIs, c.URIs[0]) }), ErrWrongUse},
		{"name of another kind", forge(t, authority, nil, named("https:///siteA/p-abcdefgh")), ErrWrongUse},
		{"name with a host", forge(t, authority, nil, named("pilotage://siteA/p-abcdefgh")), ErrWrongUse},
		{"name without pilot", forge(t, authority, nil, named("pilotage:///siteA")), ErrWrongUse},
		{"name with more", forge(t, authority, nil, named("pilotage:///siteA/p-abcdefgh/x")), ErrWrongUse},
		{"name with a query", forge(t, authority, nil, named("pilotage:///siteA/p-abcdefgh?x")), ErrWrongUse},
		{"escaped site", forge(t, authority, nil, named("pilotage:///site%2FA/p-abcdefgh")), ErrWrongUse},
		{"for servers only", forge(t, authority, nil, func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth} }), ErrWrongUse},
		{"not for signatures", forge(t, authority, nil, func(c *x509.Certificate) { c.KeyUsage = x509.KeyUsageKeyAgreement }), ErrWrongUse},
		{"an authority itself", forge(t, authority, nil, func(c *x509.Certificate) { c.IsCA = true }), ErrWrongUse},
		{"the VO's own certificate", authority.certificate.Raw, ErrWrongUse},
		{"the queue server's certificate", serverCertificate(t, authority)().Certificate[0], ErrWrongUse},
		{"nothing", nil, ErrMalformed},
		{"garbage", []byte("-----BEGIN CERTIFICATE-----"), ErrMalformed},
		{"trailing bytes", append(join(t, authority, "siteA").DER, 0), ErrMalformed},
		{"oversize though well signed", forge(t, authority, nil, func(c *x509.Certificate) {
			c.ExtraExtensions = []pkix.Extension{{Id: asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 99999}, Value: make([]byte, MaxCertificate)}}
		}), ErrMalformed},
	} {
		member, err := verifier.Verify(example.der, noon)
		if !errors.Is(err, example.want) || member != (Member{}) {
			t.Errorf("%s: got %+v, %v, want %v", example.name, member, err, example.want)
		}
	}
	if _, err := verifier.Verify(forge(t, authority, nil, unspoiled), noon); err != nil {
		t.Errorf("the unspoiled forgery must pass, or the table above proves nothing: %v", err)
	}
}

func TestVerifyRefusesEveryTruncation(t *testing.T) {
	authority := newAuthority(t)
	verifier, der := newVerifier(t, authority), join(t, authority, "siteA").DER
	for length := range der {
		if _, err := verifier.Verify(der[:length], noon); !errors.Is(err, ErrMalformed) {
			t.Fatalf("the first %d of %d bytes: %v, want %v", length, len(der), err, ErrMalformed)
		}
	}
}

func TestVerifyRefusesEveryChangedBit(t *testing.T) {
	authority := newAuthority(t)
	verifier, der := newVerifier(t, authority), join(t, authority, "siteA").DER
	rapid.Check(t, func(t *rapid.T) {
		changed := bytes.Clone(der)
		bit := rapid.IntRange(0, 8*len(der)-1).Draw(t, "bit")
		changed[bit/8] ^= 1 << (bit % 8)
		if member, err := verifier.Verify(changed, noon); err == nil {
			t.Fatalf("accepted as %+v", member)
		}
	})
}

func TestDenyOnlyGrows(t *testing.T) {
	authority := newAuthority(t)
	verifier, pilot, other := newVerifier(t, authority), join(t, authority, "siteA"), join(t, authority, "siteA")
	verifier.Deny([]task.PeerID{pilot.Key.Peer(), "x"})
	verifier.Deny([]task.PeerID{"y"}) // an older list, arriving late
	if _, err := verifier.Verify(pilot.DER, noon); !errors.Is(err, ErrDenied) {
		t.Errorf("denied pilot: %v, want %v", err, ErrDenied)
	}
	if _, err := verifier.Verify(other.DER, noon); err != nil {
		t.Errorf("the pilot beside it: %v", err)
	}
	want := []task.PeerID{pilot.Key.Peer(), "x", "y"}
	if got := verifier.Denied(); !slices.Equal(got, want) {
		t.Errorf("Denied() = %v, want %v", got, want)
	}
	if !verifier.IsDenied("y") || verifier.IsDenied(other.Key.Peer()) {
		t.Error("IsDenied disagrees with the list")
	}
}

func TestNewVerifierRefuses(t *testing.T) {
	authority := newAuthority(t)
	certificate, key := authority.PEM()
	for name, text := range map[string][]byte{
		"nothing": nil, "garbage": []byte("hello"), "a key": key, "a member": pemOf(join(t, authority, "siteA").DER),
	} {
		if _, err := NewVerifier(text); err == nil {
			t.Errorf("%s was taken for an authority", name)
		}
	}
	second := newAuthority(t)
	secondPEM, _ := second.PEM()
	both, err := NewVerifier(append(certificate, secondPEM...))
	if err != nil {
		t.Fatal(err)
	}
	for _, issuer := range []*Authority{authority, second} {
		if _, err := both.Verify(join(t, issuer, "siteA").DER, noon); err != nil {
			t.Errorf("during a change of authority: %v", err)
		}
	}
}

func TestIssueMemberRefuses(t *testing.T) {
	authority, key := newAuthority(t), newKey(t)
	good := Member{Site: "siteA", Pilot: "p-abcdefgh", NotAfter: noon.Add(time.Hour)}
	for name, change := range map[string]func(*Member, *ed25519.PublicKey){
		"bad site":               func(m *Member, _ *ed25519.PublicKey) { m.Site = "site/A" },
		"no site":                func(m *Member, _ *ed25519.PublicKey) { m.Site = "" },
		"bad pilot":              func(m *Member, _ *ed25519.PublicKey) { m.Pilot = "p-ABC" },
		"peer of another key":    func(m *Member, _ *ed25519.PublicKey) { m.Peer = newKey(t).Peer() },
		"ended":                  func(m *Member, _ *ed25519.PublicKey) { m.NotAfter = noon },
		"outlives the authority": func(m *Member, _ *ed25519.PublicKey) { m.NotAfter = authority.NotAfter().Add(time.Second) },
		"short key":              func(_ *Member, k *ed25519.PublicKey) { *k = (*k)[:31] },
		"no key":                 func(_ *Member, k *ed25519.PublicKey) { *k = nil },
	} {
		member, public := good, key.Public()
		change(&member, &public)
		if _, err := authority.IssueMember(member, public, noon); err == nil {
			t.Errorf("%s: issued", name)
		}
	}
	if _, err := authority.IssueMember(good, key.Public(), noon); err != nil {
		t.Errorf("the good one: %v", err)
	}
}

// impersonate makes an authority of the same name and key id, but another key.
func impersonate(t *testing.T, authority *Authority) *Authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := *authority.certificate
	template.PublicKey = key.Public()
	der, err := x509.CreateCertificate(rand.Reader, &template, &template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &Authority{certificate: certificate, key: key}
}
