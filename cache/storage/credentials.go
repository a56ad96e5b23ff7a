package storage

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"path"
	"strings"

	"github.com/pilotage-grid/pilotage/task"
)

// opened is a credential in use, with connections of its own where it changes how
// they are made.
type opened struct {
	task.StorageCredential
	base   *url.URL
	client *http.Client
	broken error
}

// use takes over secrets that have changed. What cannot be used is told when its
// element is asked.
func (w *web) use(secrets task.StorageSecrets) {
	if secrets == w.secrets {
		return
	}
	known := map[task.StorageCredential]*opened{}
	for _, one := range w.credentials {
		known[one.StorageCredential] = one
	}
	w.secrets, w.credentials = secrets, nil
	for _, credential := range secrets.Credentials() {
		one := known[credential] // keeps its connections
		if one == nil {
			one = w.open(credential)
		}
		delete(known, credential)
		w.credentials = append(w.credentials, one)
	}
	for _, gone := range known {
		gone.client.CloseIdleConnections()
	}
}

func (w *web) open(credential task.StorageCredential) *opened {
	base, err := parse(credential.URL)
	if err != nil {
		base = &url.URL{} // of nothing
	}
	one := &opened{StorageCredential: credential, base: base, client: w.client}
	if credential.Certificate == "" && credential.Authorities == "" {
		return one
	}
	secured := &tls.Config{MinVersion: tls.VersionTLS12}
	if credential.Authorities != "" {
		secured.RootCAs = x509.NewCertPool()
		if !secured.RootCAs.AppendCertsFromPEM([]byte(credential.Authorities)) {
			one.broken = errors.New("its authorities are no certificates in PEM")
		}
	}
	if credential.Certificate != "" {
		pair, err := tls.X509KeyPair([]byte(credential.Certificate), []byte(credential.Key))
		if err != nil {
			one.broken = fmt.Errorf("its client certificate: %w", err)
		}
		secured.Certificates = []tls.Certificate{pair}
	}
	one.client = &http.Client{Transport: newTransport(w.opts.Timeouts, secured), CheckRedirect: w.checkRedirect}
	return one
}

// credential is the one for a URL: of several that fit, that of the innermost
// folder. Nil: none.
func (w *web) credential(u *url.URL) *opened {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.opts.Secrets != nil {
		w.use(w.opts.Secrets())
	}
	place := path.Clean("/" + u.Path)
	var found *opened
	for _, one := range w.credentials {
		folder := path.Clean("/" + one.base.Path)
		below := folder == "/" || place == folder || strings.HasPrefix(place, folder+"/")
		if originOf(one.base) == originOf(u) && below && (found == nil || len(one.base.Path) > len(found.base.Path)) {
			found = one
		}
	}
	return found
}

// mayCarryToken: in plain text it must not leave the machine.
func mayCarryToken(u *url.URL) bool {
	ip := net.ParseIP(u.Hostname())
	return u.Scheme == "https" || u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
}
