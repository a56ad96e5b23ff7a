package main

import (
	"cmp"
	"fmt"
	"os"

	"github.com/pilotage-grid/pilotage/cache/storage"
	"github.com/pilotage-grid/pilotage/identity/issuer"
	"github.com/pilotage-grid/pilotage/task"
)

// ownStorage is a client that shows storage elements the user's own credential, as it
// is by then, since tokens and proxies are renewed.
func (a *app) ownStorage(elements []string) *storage.Client {
	return storage.NewClient(storage.Options{Secrets: func() task.StorageSecrets {
		if len(elements) == 0 {
			return ""
		}
		own, err := ownCredential(a.getenv)
		if err != nil {
			a.unshown.Do(func() { a.out.note("storage elements are not shown your own credential: %s\n", err) })
			return ""
		}
		if own == (task.StorageCredential{}) {
			return "" // the storage element says what it misses
		}
		var secrets []task.StorageCredential
		for _, element := range elements {
			own.URL = element
			secrets = append(secrets, own)
		}
		return task.SealStorage(secrets)
	}})
}

// ownCredential is the user's bearer token (WLCG Bearer Token Discovery) and client
// certificate: the proxy that X509_USER_PROXY names, else what X509_USER_CERT and
// X509_USER_KEY name.
func ownCredential(getenv func(string) string) (own task.StorageCredential, err error) {
	if own.Token, err = issuer.Discover(getenv); err != nil {
		return own, err
	}
	certificate := cmp.Or(getenv("X509_USER_PROXY"), getenv("X509_USER_CERT"))
	if certificate == "" {
		return own, nil
	}
	key := certificate // a proxy's file has both
	if getenv("X509_USER_PROXY") == "" {
		key = cmp.Or(getenv("X509_USER_KEY"), certificate)
	}
	if own.Certificate, err = readText(certificate); err == nil {
		own.Key, err = readText(key)
	}
	if err != nil {
		return own, fmt.Errorf("client certificate: %w", err)
	}
	return own, nil
}

func readText(path string) (string, error) {
	content, err := os.ReadFile(path)
	return string(content), err
}
