package identity

import (
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/pilotage-grid/pilotage/task"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// noon is the moment at which the tests live; nothing here waits.
var noon = time.Date(2031, 5, 17, 12, 0, 0, 0, time.UTC)

func at(moment time.Time) func() time.Time { return func() time.Time { return moment } }

func newAuthority(t testing.TB) *Authority {
	t.Helper()
	authority, err := NewAuthority(noon)
	if err != nil {
		t.Fatal(err)
	}
	return authority
}

func newKey(t testing.TB) *PilotKey {
	t.Helper()
	key, err := NewPilotKey()
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func newVerifier(t testing.TB, authority *Authority) *Verifier {
	t.Helper()
	certificate, _ := authority.PEM()
	verifier, err := NewVerifier(certificate)
	if err != nil {
		t.Fatal(err)
	}
	return verifier
}

// join makes a pilot of the site with a membership of an hour from noon.
func join(t testing.TB, authority *Authority, site task.Site) MemberCertificate {
	t.Helper()
	key := newKey(t)
	return MemberCertificate{DER: issue(t, authority, key, site, noon.Add(time.Hour)), Key: key}
}

func issue(t testing.TB, authority *Authority, key *PilotKey, site task.Site, end time.Time) []byte {
	t.Helper()
	der, err := authority.IssueMember(Member{Site: site, Pilot: "p-abcdefgh", NotAfter: end}, key.Public(), noon)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

// forge signs a membership certificate after change has spoiled it.
func forge(t testing.TB, authority *Authority, public any, change func(*x509.Certificate)) []byte {
	t.Helper()
	good, err := x509.ParseCertificate(join(t, authority, "siteA").DER)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: good.SerialNumber, Subject: good.Subject, URIs: good.URIs,
		NotBefore: good.NotBefore, NotAfter: good.NotAfter, KeyUsage: good.KeyUsage,
		ExtKeyUsage: good.ExtKeyUsage, BasicConstraintsValid: true,
	}
	if public == nil {
		public = good.PublicKey
	}
	change(template)
	der, err := x509.CreateCertificate(rand.Reader, template, authority.certificate, public, authority.key)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

func serverCertificate(t testing.TB, authority *Authority, hosts ...string) func() *tls.Certificate {
	t.Helper()
	certificate, err := authority.IssueServer(hosts, noon)
	if err != nil {
		t.Fatal(err)
	}
	return func() *tls.Certificate { return &certificate }
}
