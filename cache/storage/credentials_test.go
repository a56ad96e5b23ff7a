package storage_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/cache/storage"
	"github.com/pilotage-grid/pilotage/cache/storage/storagetest"
	"github.com/pilotage-grid/pilotage/task"
)

// TestRefusedWithoutCredentials: an element that wants a token and a client
// certificate, signed by authorities of its own, serves whoever shows both.
func TestRefusedWithoutCredentials(t *testing.T) {
	certificate, key := selfSigned(t)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer T" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		storagetest.NewServer().ServeHTTP(w, r)
	}))
	clients := x509.NewCertPool()
	clients.AppendCertsFromPEM([]byte(certificate))
	server.TLS = &tls.Config{ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: clients}
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	defer server.Close()
	all := task.StorageCredential{
		URL: server.URL + "/vo", Token: "T", Certificate: certificate, Key: key,
		Authorities: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})),
	}
	var waited patience
	var shown task.StorageCredential
	client := newClient(t, storage.Options{
		Retry: waited.retry(1, 10), Secrets: func() task.StorageSecrets { return secret(shown)() },
	})
	for missing, with := range map[string]func(*task.StorageCredential){
		"everything":      func(c *task.StorageCredential) { *c = task.StorageCredential{URL: c.URL} },
		"the token":       func(c *task.StorageCredential) { c.Token = "" },
		"the right token": func(c *task.StorageCredential) { c.Token = "U" },
		"the certificate": func(c *task.StorageCredential) { c.Certificate, c.Key = "", "" },
		"the authorities": func(c *task.StorageCredential) { c.Authorities = "" },
		"the right place": func(c *task.StorageCredential) { c.URL = server.URL + "/v" },
	} {
		shown = all
		with(&shown)
		_, err := element(t, client, server.URL+"/vo").Put(t.Context(), "x", 1, strings.NewReader("x"))
		if !errors.Is(err, storage.ErrRefused) && !errors.Is(err, storage.ErrUnreachable) {
			t.Errorf("without %s: %v", missing, err)
		}
	}
	shown = all
	_, err := element(t, client, server.URL+"/vo").Head(t.Context(), "x")
	if !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("with all: %v", err)
	}
	if _, _, err := client.OpenReplica(t.Context(), server.URL+"/vo/../other/x", 0); errors.Is(err, storage.ErrNotFound) {
		t.Error("the credential was shown beside its folder")
	}
	shown.Key = "no key"
	if _, err := element(t, client, server.URL+"/vo").Head(t.Context(), "x"); !errors.Is(err, storage.ErrRefused) || !strings.Contains(err.Error(), "client certificate") {
		t.Errorf("with a broken key: %v", err)
	}
}

func selfSigned(t *testing.T) (certificate, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "pilot"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})),
		string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: encoded}))
}
