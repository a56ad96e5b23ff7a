package issuer

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
)

// Config says whose tokens are taken; it is a file of YAML or JSON.
type Config struct {
	// Audience lists what a token may name as its audience: this queue, and perhaps
	// "https://wlcg.cern.ch/jwt/v1/any" (WLCG) or "ANY" (SciTokens) for everybody.
	Audience []string `yaml:"audience"`
	Issuers  []Issuer `yaml:"issuers"`
}

// Issuer is one whose tokens are taken.
type Issuer struct {
	Name   string   `yaml:"name"`   // persons are SUBJECT@NAME
	URL    string   `yaml:"url"`    // as its tokens name it
	JWKS   string   `yaml:"jwks"`   // of its public keys; default: as URL/.well-known/openid-configuration says
	CA     string   `yaml:"ca"`     // file of PEM with the authorities of its servers; default: the system's
	Groups []string `yaml:"groups"` // only tokens of one of these groups are taken; none: all
}

var nameForm = regexp.MustCompile(`^[a-z0-9][a-z0-9.-]{0,62}$`)

// Read reads and checks a file; errors name the field.
func Read(path string) (Config, error) {
	var config Config
	content, err := os.ReadFile(path)
	if err != nil {
		return config, fmt.Errorf("token issuers: %w", err)
	}
	if err := yaml.UnmarshalWithOptions(content, &config, yaml.Strict()); err != nil {
		return config, fmt.Errorf("token issuers: %s: %w", path, err)
	}
	if err := config.check(); err != nil {
		return config, fmt.Errorf("token issuers: %s: %w", path, err)
	}
	return config, nil
}

func (c *Config) check() error {
	if len(c.Audience) == 0 {
		return errors.New("audience is missing: name this queue as tokens name it, e.g. https://queue.example:7420")
	}
	if len(c.Issuers) == 0 {
		return errors.New("no issuers are named")
	}
	names, urls := map[string]bool{}, map[string]bool{}
	for i := range c.Issuers {
		one := &c.Issuers[i]
		for _, text := range []string{one.URL, one.JWKS} {
			if at, err := url.Parse(text); err != nil || text != "" && (at.Scheme != "https" || at.Host == "") {
				return fmt.Errorf("issuer %q: %q is no https URL", one.Name, text)
			}
		}
		switch {
		case !nameForm.MatchString(one.Name):
			return fmt.Errorf("issuer name %q: use small letters, digits, '.' and '-'", one.Name)
		case one.URL == "":
			return fmt.Errorf("issuer %s: url is missing", one.Name)
		case names[one.Name] || urls[one.URL]:
			return fmt.Errorf("issuer %s is named twice", one.Name)
		case one.CA != "" && !filepath.IsAbs(one.CA):
			return fmt.Errorf("issuer %s: ca %q is no absolute path", one.Name, one.CA)
		}
		names[one.Name], urls[one.URL] = true, true
	}
	return nil
}

// client reaches an issuer's servers.
func (i *Issuer) client() (*http.Client, error) {
	transport := &http.Transport{Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12}}
	if i.CA != "" {
		text, err := os.ReadFile(i.CA)
		if err != nil {
			return nil, fmt.Errorf("issuer %s: ca: %w", i.Name, err)
		}
		transport.TLSClientConfig.RootCAs = x509.NewCertPool()
		if !transport.TLSClientConfig.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("issuer %s: ca: %s holds no certificate in PEM", i.Name, i.CA)
		}
	}
	onlyHTTPS := func(next *http.Request, via []*http.Request) error {
		if next.URL.Scheme != "https" || len(via) > 5 {
			return fmt.Errorf("issuer %s: redirect to %s not followed: keys come by https, and by 5 redirects at most", i.Name, next.URL.Redacted())
		}
		return nil
	}
	return &http.Client{Transport: transport, CheckRedirect: onlyHTTPS, Timeout: 10 * time.Second}, nil
}

// discovery is where the issuer says where its keys are.
func (i *Issuer) discovery() string {
	return strings.TrimSuffix(i.URL, "/") + "/.well-known/openid-configuration"
}
