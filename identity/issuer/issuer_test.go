package issuer_test

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/pilotage-grid/pilotage/identity"
	"github.com/pilotage-grid/pilotage/identity/issuer"
)

const audience = "https://queue.example:7420"

// authority is an issuer of tokens that rotates its keys.
type authority struct {
	*httptest.Server
	mutex sync.Mutex
	keys  jose.JSONWebKeySet
	down  atomic.Bool
}

func newAuthority(t *testing.T, keys ...jose.JSONWebKey) *authority {
	a := &authority{keys: jose.JSONWebKeySet{Keys: keys}}
	a.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a.mutex.Lock()
		defer a.mutex.Unlock()
		switch {
		case a.down.Load():
			w.WriteHeader(http.StatusServiceUnavailable)
		case strings.HasSuffix(r.URL.Path, "openid-configuration"):
			_ = json.NewEncoder(w).Encode(map[string]string{"issuer": a.URL, "jwks_uri": a.URL + "/jwk"})
		default:
			_ = json.NewEncoder(w).Encode(a.keys)
		}
	}))
	t.Cleanup(a.Close)
	return a
}

func (a *authority) rotate(keys ...jose.JSONWebKey) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	a.keys.Keys = keys
}

// config takes the tokens of an issuer.
func (a *authority) config(t *testing.T) issuer.Config {
	file := filepath.Join(t.TempDir(), "ca.pem")
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.Certificate().Raw})
	if err := os.WriteFile(file, block, 0o600); err != nil {
		t.Fatal(err)
	}
	return issuer.Config{Audience: []string{audience, "https://wlcg.cern.ch/jwt/v1/any"}, Issuers: []issuer.Issuer{{Name: "wlcg", URL: a.URL, CA: file}}}
}

type memory struct{ sync.Map }

func (m *memory) Load(name string) ([]byte, error) {
	content, _ := m.Map.Load(name)
	text, _ := content.([]byte)
	return text, nil
}
func (m *memory) Save(name string, content []byte) error { m.Store(name, content); return nil }

func public(key crypto.Signer, id string) jose.JSONWebKey {
	return jose.JSONWebKey{Key: key.Public(), KeyID: id, Use: "sig"}
}

func sign(t *testing.T, algorithm jose.SignatureAlgorithm, key any, id string, claims map[string]any) string {
	t.Helper()
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: algorithm, Key: jose.JSONWebKey{Key: key, KeyID: id}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	text, err := jwt.Signed(signer).Claims(claims).Serialize()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// signed signs claims as they are written.
func signed(t *testing.T, key any, id, claims string) string {
	t.Helper()
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: key, KeyID: id}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	object, err := signer.Sign([]byte(claims))
	if err != nil {
		t.Fatal(err)
	}
	text, err := object.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// eventually is what is said of a token once no key is awaited any more.
func eventually(t *testing.T, keys *issuer.Keys, token string, now time.Time) (b issuer.Bearer, err error) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for over := time.Now().Add(20 * time.Second); ; <-tick.C {
		if b, err = keys.Verify(token, now); !errors.Is(err, issuer.ErrNoKeys) || time.Now().After(over) {
			return b, err
		}
	}
}

func run(t *testing.T, keys *issuer.Keys) {
	ctx, end := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- keys.Run(ctx) }()
	t.Cleanup(func() { end(); <-done })
}

func TestTokens(t *testing.T) {
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	ecKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	other, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	from := newAuthority(t, public(rsaKey, "r1"), public(ecKey, "e1"))
	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	cache := &memory{}
	keys, err := issuer.NewKeys(from.config(t), cache, log)
	if err != nil {
		t.Fatal(err)
	}
	run(t, keys)
	now := time.Now()
	claims := func(change ...any) map[string]any {
		c := map[string]any{
			"iss": from.URL, "sub": "alice", "aud": audience, "exp": now.Add(time.Hour).Unix(), "nbf": now.Unix(), "iat": now.Unix(),
			"scope": "compute.read compute.create", "wlcg.groups": []string{"/vo/higgs"}, "wlcg.ver": "1.0", "jti": "j1",
		}
		for i := 0; i < len(change); i += 2 {
			if c[change[i].(string)] = change[i+1]; change[i+1] == nil {
				delete(c, change[i].(string))
			}
		}
		return c
	}
	good := map[string]string{
		"RS256":             sign(t, jose.RS256, rsaKey, "r1", claims()),
		"ES256":             sign(t, jose.ES256, ecKey, "e1", claims()),
		"no key id":         sign(t, jose.ES256, ecKey, "", claims()),
		"several audiences": sign(t, jose.ES256, ecKey, "e1", claims("aud", []string{"https://se", "https://wlcg.cern.ch/jwt/v1/any"})),
		"clock ahead":       sign(t, jose.ES256, ecKey, "e1", claims("nbf", now.Add(50*time.Second).Unix())),
		"list of scopes":    sign(t, jose.ES256, ecKey, "e1", claims("scope", []string{"compute.read", "compute.create"})),
		"no nbf":            sign(t, jose.ES256, ecKey, "e1", claims("nbf", nil)),
	}
	for what, token := range good {
		b, err := eventually(t, keys, token, now)
		if err != nil || b.Person != "alice@wlcg" || !slices.Equal(b.Groups, []string{"/vo/higgs"}) || !slices.Equal(b.Scopes, []string{"compute.read", "compute.create"}) {
			t.Errorf("%s: %+v, %v", what, b, err)
		}
		if _, err := keys.Verify(token, now.Add(2*time.Hour)); !errors.Is(err, identity.ErrExpired) {
			t.Errorf("%s, when it is over: %v", what, err)
		}
	}
	publicDER, err := x509.MarshalPKIXPublicKey(rsaKey.Public())
	if err != nil {
		t.Fatal(err)
	}
	publicPEM := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: publicDER})
	part := func(value any) string {
		text, _ := json.Marshal(value)
		return base64.RawURLEncoding.EncodeToString(text)
	}
	head, body, _ := strings.Cut(good["ES256"], ".")
	_, signature, _ := strings.Cut(body, ".")
	forged := head + "." + part(claims("sub", "admin")) + "." + signature
	for what, c := range map[string]struct {
		token string
		want  error
	}{
		"alg none":                {part(map[string]string{"alg": "none"}) + "." + part(claims()) + ".", identity.ErrMalformed},
		"alg NONE":                {part(map[string]string{"alg": "NonE", "kid": "e1"}) + "." + part(claims()) + "." + signature, identity.ErrMalformed},
		"HS256 of the public key": {sign(t, jose.HS256, publicPEM, "r1", claims()), identity.ErrMalformed},
		"PS256":                   {sign(t, jose.PS256, rsaKey, "r1", claims()), identity.ErrMalformed},
		"another audience":        {sign(t, jose.ES256, ecKey, "e1", claims("aud", "https://se.example")), identity.ErrUnknownToken},
		"no audience":             {sign(t, jose.ES256, ecKey, "e1", claims("aud", nil)), identity.ErrUnknownToken},
		"expired":                 {sign(t, jose.ES256, ecKey, "e1", claims("exp", now.Add(-time.Second).Unix())), identity.ErrExpired},
		"no end":                  {sign(t, jose.ES256, ecKey, "e1", claims("exp", nil)), identity.ErrUnknownToken},
		"not yet":                 {sign(t, jose.ES256, ecKey, "e1", claims("nbf", now.Add(2*time.Minute).Unix())), identity.ErrUnknownToken},
		"no subject":              {sign(t, jose.ES256, ecKey, "e1", claims("sub", nil)), identity.ErrUnknownToken},
		"escape in the subject":   {sign(t, jose.ES256, ecKey, "e1", claims("sub", "a\x1b[2J")), identity.ErrUnknownToken},
		"another key":             {sign(t, jose.ES256, other, "e1", claims()), identity.ErrUnknownToken},
		"unknown key":             {sign(t, jose.ES256, other, "e9", claims()), identity.ErrUnknownToken},
		"key of another kind":     {sign(t, jose.ES256, ecKey, "r1", claims()), identity.ErrUnknownToken},
		"another issuer":          {sign(t, jose.ES256, ecKey, "e1", claims("iss", "https://evil.example")), identity.ErrUnknownToken},
		"no issuer":               {sign(t, jose.ES256, ecKey, "e1", claims("iss", nil)), identity.ErrUnknownToken},
		"other claims":            {forged, identity.ErrUnknownToken},
		"cut off":                 {good["ES256"][:len(good["ES256"])-4], identity.ErrUnknownToken},
		"no token":                {"a.b.c", identity.ErrMalformed},
		"turned subject":          {sign(t, jose.ES256, ecKey, "e1", claims("sub", "\u202eecila")), identity.ErrUnknownToken},
		"hidden in the subject":   {sign(t, jose.ES256, ecKey, "e1", claims("sub", "ali\u200bce")), identity.ErrUnknownToken},
		"path as key id":          {sign(t, jose.ES256, other, "../../e1", claims()), identity.ErrUnknownToken},
		"claims said twice":       {signed(t, ecKey, "e1", `{"iss":"`+from.URL+`","sub":"alice","sub":"admin","aud":"`+audience+`","exp":`+fmt.Sprint(now.Add(time.Hour).Unix())+`}`), identity.ErrMalformed},
		"end beyond all time":     {signed(t, ecKey, "e1", `{"iss":"`+from.URL+`","sub":"alice","aud":"`+audience+`","exp":1e300}`), identity.ErrExpired},
		"groups are no list":      {sign(t, jose.ES256, ecKey, "e1", claims("wlcg.groups", "/vo/higgs")), identity.ErrUnknownToken},
		"audience of lists":       {sign(t, jose.ES256, ecKey, "e1", claims("aud", []any{[]string{audience}})), identity.ErrMalformed},
		"huge":                    {strings.Repeat("a", 20_000) + ".b.c", identity.ErrMalformed},
	} {
		if b, err := eventually(t, keys, c.token, now); !errors.Is(err, c.want) || err != nil && strings.Contains(err.Error(), c.token) {
			t.Errorf("%s: %+v, %v, want %v", what, b, err, c.want)
		}
	}

	// Over an outage of the issuer, and a restart meanwhile, its keys go on.
	from.down.Store(true)
	again, err := issuer.NewKeys(from.config(t), cache, log)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := again.Verify(good["RS256"], now); err != nil {
		t.Errorf("during an outage of the issuer: %v", err)
	}
	if _, err := again.Verify(good["RS256"], now.Add(8*24*time.Hour)); err == nil {
		t.Error("keys are good for ever while their issuer does not answer")
	}
	// A new key is fetched when a token names it; one that is withdrawn is good no more.
	from.down.Store(false)
	from.rotate(public(other, "e2"))
	run(t, again)
	if _, err := eventually(t, again, sign(t, jose.ES256, other, "e2", claims()), now); err != nil {
		t.Errorf("a new key: %v", err)
	}
	if _, err := again.Verify(good["RS256"], now); err == nil {
		t.Error("a key that was withdrawn is good")
	}
}

// Keys that somebody on the way could exchange are not taken.
func TestKeysComeByHTTPSOnly(t *testing.T) {
	plain := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a redirect to plain http is followed") }))
	t.Cleanup(plain.Close)
	from := &authority{Server: httptest.NewTLSServer(http.RedirectHandler(plain.URL, http.StatusFound))}
	t.Cleanup(from.Close)
	told := make(said, 10)
	keys, err := issuer.NewKeys(from.config(t), &memory{}, slog.New(slog.NewTextHandler(told, nil)))
	if err != nil {
		t.Fatal(err)
	}
	run(t, keys)
	if line := <-told; !strings.Contains(line, "not followed") {
		t.Error(line)
	}
}

// said takes lines of a log.
type said chan string

func (s said) Write(line []byte) (int, error) {
	s <- string(line)
	return len(line), nil
}

func TestDiscovery(t *testing.T) {
	folder := t.TempDir()
	own := filepath.Join(folder, fmt.Sprintf("bt_u%d", os.Geteuid()))
	named := filepath.Join(folder, "named")
	for path, text := range map[string]string{own: "own\n", named: "named\n"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	set := map[string]string{"XDG_RUNTIME_DIR": folder, "BEARER_TOKEN_FILE": named, "BEARER_TOKEN": "here"}
	for _, c := range []struct{ without, want string }{{"", "here"}, {"BEARER_TOKEN", "named"}, {"BEARER_TOKEN_FILE", "own"}} {
		delete(set, c.without)
		if token, err := issuer.Discover(func(name string) string { return set[name] }); err != nil || token != c.want {
			t.Errorf("without %s: %q, %v", c.without, token, err)
		}
	}
	if _, err := issuer.Discover(func(name string) string { return map[string]string{"BEARER_TOKEN_FILE": folder + "/none"}[name] }); err == nil {
		t.Error("a file that is named and absent is passed over")
	}
	if err := os.Rename(own, own+".real"); err == nil {
		err = os.Symlink(own+".real", own)
		if err != nil {
			t.Fatal(err)
		}
	}
	if token, _ := issuer.Discover(func(name string) string { return set[name] }); token == "own" {
		t.Error("a link is followed")
	}
}

func TestConfig(t *testing.T) {
	file := filepath.Join(t.TempDir(), "issuers.yaml")
	for text, wrong := range map[string]bool{
		"audience: [a]\nissuers: [{name: wlcg, url: 'https://i.example/'}]":                                             false,
		`{"audience": ["a"], "issuers": [{"name": "wlcg", "url": "https://i.example", "jwks": "https://i.example/k"}]}`: false,
		"issuers: [{name: wlcg, url: 'https://i.example/'}]":                                                            true,
		"audience: [a]": true,
		"audience: [a]\nissuers: [{name: wlcg, url: 'http://i.example/'}]":                                     true,
		"audience: [a]\nissuers: [{name: 'W@', url: 'https://i.example/'}]":                                    true,
		"audience: [a]\nissuers: [{name: wlcg, uri: 'https://i.example/'}]":                                    true,
		"audience: [a]\nissuers: [{name: a, url: 'https://i.example/'}, {name: b, url: 'https://i.example/'}]": true,
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := issuer.Read(file); (err != nil) != wrong {
			t.Errorf("%s: %v", text, err)
		}
	}
}
