package server

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

const (
	// secretsEvery is how often the files with credentials are read: tokens live
	// for minutes or hours and are renewed some time before their end.
	secretsEvery = 5 * time.Second
	// maxCredential bounds a file: a chain of certificates has some kB.
	maxCredential = 256 << 10
)

// secrets are what opens the sites' storage elements, as files on this host have
// it. They are kept in memory and told to pilots of sites that may read there.
type secrets struct {
	turns  *turns
	config *Config

	mu     sync.Mutex
	sites  map[task.Site]task.StorageSecrets
	all    task.StorageSecrets
	broken map[task.Site]string // why its files cannot be read, said once
}

// Secrets open the storage elements of all sites, as their files are by now.
func (s *Server) Secrets() task.StorageSecrets {
	s.secrets.mu.Lock()
	defer s.secrets.mu.Unlock()
	return s.secrets.all
}

// of is what a site's pilots are told.
func (s *secrets) of(site task.Site) task.StorageSecrets {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sites[site]
}

// run reads the files again and again, until ctx ends.
func (s *secrets) run(ctx context.Context) error {
	return s.config.every(ctx, secretsEvery, "the credentials of storage elements are not read again", s.read)
}

// read reads the files of all sites. What cannot be read stays as it was: a file
// may be exchanged just now.
func (s *secrets) read(ctx context.Context) error {
	sites, err := seen(ctx, s.turns, func(t *taskqueue.Turn) ([]taskqueue.SiteRecord, error) { return t.Sites().All() })
	if err != nil {
		return fmt.Errorf("load sites: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	known := map[string]task.StorageCredential{}
	for _, credential := range s.all.Credentials() {
		known[credential.URL] = credential
	}
	broken := map[task.Site]string{}
	read := map[task.Site]task.StorageCredential{}
	for i := range sites {
		site := &sites[i]
		if site.SEFiles == (taskqueue.SEFiles{}) || site.SE == "" {
			continue
		}
		credential, err := readCredential(site.SE, site.SEFiles)
		if err != nil {
			broken[site.Name] = err.Error()
			if s.broken[site.Name] != err.Error() {
				s.config.Log.Error("pilots are not told the credentials of a storage element as they are now", "site", site.Name, "error", err)
			}
			if credential = known[site.SE]; credential.URL == "" {
				continue
			}
		}
		read[site.Name] = credential
	}
	s.sites, s.broken = map[task.Site]task.StorageSecrets{}, broken
	var all []task.StorageCredential
	for i := range sites {
		var own []task.StorageCredential
		for j := range sites { // in the order of names
			if credential, has := read[sites[j].Name]; has && sites[i].Reaches(sites[j].Name) {
				own = append(own, credential)
			}
		}
		if credential, has := read[sites[i].Name]; has {
			all = append(all, credential)
		}
		s.sites[sites[i].Name] = task.SealStorage(own)
	}
	s.all = task.SealStorage(all)
	return nil
}

// readCredential reads the files of one storage element, and refuses what is no
// credential: whoever may add sites is not to have other files of the queue's
// account told to pilots.
func readCredential(element string, files taskqueue.SEFiles) (task.StorageCredential, error) {
	credential := task.StorageCredential{URL: element}
	if files == (taskqueue.SEFiles{}) {
		return credential, nil
	}
	var err error
	if files.Token != "" {
		if credential.Token, err = readCredentialFile(files.Token); err != nil {
			return credential, err
		}
		credential.Token = strings.TrimSpace(credential.Token)
		if credential.Token == "" || strings.ContainsFunc(credential.Token, notInToken) {
			return credential, fmt.Errorf("%s holds no bearer token: one line of letters, digits and -._~+/=", files.Token)
		}
	}
	if files.Certificate != "" {
		if credential.Certificate, err = readCredentialFile(files.Certificate); err != nil {
			return credential, err
		}
		credential.Key = credential.Certificate // one file has both
		if _, err := tls.X509KeyPair([]byte(credential.Certificate), []byte(credential.Key)); err != nil {
			return credential, fmt.Errorf("%s: %w: put certificate, chain and key into the one file", files.Certificate, err)
		}
	}
	if files.Authorities != "" {
		if credential.Authorities, err = readCredentialFile(files.Authorities); err != nil {
			return credential, err
		}
		if !x509.NewCertPool().AppendCertsFromPEM([]byte(credential.Authorities)) {
			return credential, fmt.Errorf("%s holds no certificate in PEM", files.Authorities)
		}
	}
	return credential, nil
}

func readCredentialFile(path string) (string, error) {
	if !filepath.IsAbs(path) {
		return "", fmt.Errorf("%q is no absolute path: name the file as it is called on the queue's host", path)
	}
	file, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("credential on the queue's host: %w", err)
	}
	defer func() { _ = file.Close() }()
	data, err := io.ReadAll(io.LimitReader(file, maxCredential+1))
	if err == nil && len(data) > maxCredential {
		err = errors.New("it is too large for a credential")
	}
	if err != nil {
		return "", fmt.Errorf("credential %s: %w", path, err)
	}
	return string(data), nil
}

// notInToken: RFC 6750 section 2.1.
func notInToken(r rune) bool {
	return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-._~+/=", r))
}
