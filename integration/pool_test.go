package integration

import (
	"crypto/x509"
	"testing"
)

func pool(t *testing.T, pem string) *x509.CertPool {
	t.Helper()
	p := x509.NewCertPool()
	if !p.AppendCertsFromPEM([]byte(pem)) {
		t.Fatal("the access file's authority cannot be read")
	}
	return p
}
