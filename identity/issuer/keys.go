package issuer

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/pilotage-grid/pilotage/identity"
)

const (
	// fetchEvery is when keys are fetched anew; issuers publish a new key long
	// before they sign with it, and WLCG wants caches of at most 6 hours or so.
	fetchEvery = time.Hour
	// fetchAgain is how soon at the earliest, when a fetch failed or a token names
	// a key that is not known: strangers must not have us ask without end.
	fetchAgain = 30 * time.Second
	// keepFor is how long keys are good while their issuer does not answer.
	keepFor = 7 * 24 * time.Hour
	// maxKeys in bytes of an issuer's answer.
	maxKeys = 1 << 20
	// maxRemembered bounds the tokens of an issuer whose signatures were found good.
	maxRemembered = 4096
)

// Cache keeps what was fetched over restarts, by the issuer's name.
type Cache interface {
	Load(name string) ([]byte, error) // nil if there is none
	Save(name string, content []byte) error
}

// Keys are the public keys of all issuers. Safe for concurrent use.
type Keys struct {
	audience []string
	sets     []*keySet
	cache    Cache
	log      *slog.Logger
	wake     chan struct{} // a key is missing
}

// keySet is one issuer with its keys.
type keySet struct {
	Issuer
	client *http.Client

	mutex   sync.Mutex
	keys    jose.JSONWebKeySet
	fetched time.Time // when they came last
	tried   time.Time
	wanted  bool // a token named a key that is not known
	good    map[[32]byte]Bearer
}

// kept is a key set as the cache has it.
type kept struct {
	Fetched time.Time          `json:"fetched"`
	Keys    jose.JSONWebKeySet `json:"keys"`
}

// NewKeys returns the keys that the cache has of the issuers; Run fetches them.
func NewKeys(config Config, cache Cache, log *slog.Logger) (*Keys, error) {
	if err := config.check(); err != nil {
		return nil, fmt.Errorf("token issuers: %w", err)
	}
	k := &Keys{audience: config.Audience, cache: cache, log: log, wake: make(chan struct{}, 1)}
	for _, one := range config.Issuers {
		client, err := one.client()
		if err != nil {
			return nil, err
		}
		set := &keySet{Issuer: one, client: client, good: make(map[[32]byte]Bearer)}
		content, err := cache.Load(one.Name)
		if err != nil {
			return nil, fmt.Errorf("keys of issuer %s: %w", one.Name, err)
		}
		var old kept
		if json.Unmarshal(content, &old) == nil {
			set.keys, set.fetched = old.Keys, old.Fetched
		}
		k.sets = append(k.sets, set)
	}
	return k, nil
}

func (k *Keys) of(issuer string) *keySet {
	for _, set := range k.sets {
		if set.URL == issuer {
			return set
		}
	}
	return nil
}

// missing refuses a token whose key is not known, and has the keys fetched unless they
// were just now.
func (k *Keys) missing(from *keySet) error {
	from.mutex.Lock()
	soon, fetched := time.Since(from.tried) >= fetchAgain, from.fetched
	from.wanted = from.wanted || soon
	from.mutex.Unlock()
	if !soon {
		if fetched.IsZero() {
			return fmt.Errorf("%w: the keys of its issuer %s cannot be had: try again in %s; the queue's log says why", identity.ErrUnknownToken, from.Name, fetchAgain)
		}
		return fmt.Errorf("%w: its key is not among those that issuer %s told at %s: get a new token, or try again in %s",
			identity.ErrUnknownToken, from.Name, fetched.UTC().Format(time.RFC3339), fetchAgain)
	}
	select {
	case k.wake <- struct{}{}:
	default:
	}
	return fmt.Errorf("%w: %s", ErrNoKeys, from.Name)
}

// keysOf returns the keys that a token may be signed with.
func (s *keySet) keysOf(id string, now time.Time) []jose.JSONWebKey {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	switch {
	case now.Sub(s.fetched) > keepFor:
		return nil
	case id == "":
		return s.keys.Keys
	}
	return s.keys.Key(id)
}

// remembered returns who shows a token that was found good before.
func (s *keySet) remembered(text string, now time.Time) (Bearer, bool) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	b, ok := s.good[sha256.Sum256([]byte(text))]
	return b, ok && now.Before(b.Expires) && now.Sub(s.fetched) <= keepFor
}

func (s *keySet) remember(text string, b Bearer) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if len(s.good) >= maxRemembered {
		clear(s.good)
	}
	s.good[sha256.Sum256([]byte(text))] = b
}

// Run fetches keys until ctx ends.
func (k *Keys) Run(ctx context.Context) error {
	ticker := time.NewTicker(fetchAgain)
	defer ticker.Stop()
	for {
		for _, set := range k.sets {
			if set.due(time.Now()) {
				k.fetch(ctx, set)
			}
		}
		select {
		case <-ticker.C:
		case <-k.wake:
		case <-ctx.Done():
			for _, set := range k.sets {
				set.client.CloseIdleConnections()
			}
			return nil
		}
	}
}

func (s *keySet) due(now time.Time) bool {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return now.Sub(s.tried) >= fetchAgain && (s.wanted || len(s.keys.Keys) == 0 || now.Sub(s.fetched) >= fetchEvery)
}

// fetch takes over an issuer's keys as they are now. What cannot be fetched stays as
// it was.
func (k *Keys) fetch(ctx context.Context, set *keySet) {
	keys, err := set.load(ctx)
	now := time.Now()
	set.mutex.Lock()
	set.tried, set.wanted = now, false
	if err == nil {
		set.keys, set.fetched = keys, now
		clear(set.good) // a key may have been withdrawn
	}
	since := set.fetched
	set.mutex.Unlock()
	if err == nil {
		var content []byte
		if content, err = json.Marshal(kept{now, keys}); err == nil {
			err = k.cache.Save(set.Name, content)
		}
	}
	if err != nil && ctx.Err() == nil {
		if since.IsZero() {
			k.log.Warn("the keys of a token issuer cannot be had: its tokens are refused", "issuer", set.Name, "error", err)
		} else {
			k.log.Warn("the keys of a token issuer are not renewed: those that are known go on", "issuer", set.Name, "since", since, "error", err)
		}
	}
}

func (s *keySet) load(ctx context.Context) (keys jose.JSONWebKeySet, err error) {
	at := s.JWKS
	if at == "" {
		var said struct {
			JWKS string `json:"jwks_uri"`
		}
		if err := s.get(ctx, s.discovery(), &said); err != nil {
			return keys, err
		}
		if where, err := url.Parse(said.JWKS); err != nil || where.Scheme != "https" {
			return keys, fmt.Errorf("%s names no https URL of keys", s.discovery())
		}
		at = said.JWKS
	}
	if err := s.get(ctx, at, &keys); err != nil {
		return keys, err
	}
	if len(keys.Keys) == 0 {
		return keys, fmt.Errorf("%s has no key", at)
	}
	return keys, nil
}

func (s *keySet) get(ctx context.Context, at string, into any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, at, http.NoBody)
	if err != nil {
		return err
	}
	reply, err := s.client.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = reply.Body.Close() }()
	content, err := io.ReadAll(io.LimitReader(reply.Body, maxKeys))
	switch {
	case err != nil:
		return err
	case reply.StatusCode != http.StatusOK:
		return fmt.Errorf("%s answers %s", at, reply.Status)
	}
	if err := json.Unmarshal(content, into); err != nil {
		return fmt.Errorf("%s: %w", at, err)
	}
	return nil
}
