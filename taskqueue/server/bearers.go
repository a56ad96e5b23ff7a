package server

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/pilotage-grid/pilotage/identity"
	"github.com/pilotage-grid/pilotage/identity/issuer"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

// byBearer finds out who shows a token of another issuer. What its scopes do not allow
// nothing else of it does.
func (a *access) byBearer(token string, now time.Time) (caller, error) {
	b, err := a.issuers.Verify(token, now)
	if err != nil {
		return caller{}, err
	}
	c := caller{token: b.Person, person: taskqueue.Person{Name: b.Person, Groups: b.Groups}, notAfter: b.Expires}
	for _, scope := range scopes {
		for _, has := range b.Scopes {
			if has == scope.name {
				c.kind |= scope.may
			}
		}
	}
	if c.kind == 0 {
		return caller{}, fmt.Errorf("%w: the token of %s has no scope for this queue: ask for compute.read, compute.create, compute.modify or compute.cancel", errForbidden, b.Person)
	}
	return c, a.known.Load().admits(b.Person)
}

// keptKeys keeps the keys of issuers in the store.
type keptKeys struct{ turns *turns }

func (k keptKeys) Load(name string) ([]byte, error) {
	return seen(context.Background(), k.turns, func(t *taskqueue.Turn) ([]byte, error) { return t.Meta().Get("jwks " + name) })
}

func (k keptKeys) Save(name string, content []byte) error {
	return k.turns.update(context.Background(), func(t *taskqueue.Turn) error { return t.Meta().Set("jwks "+name, content) })
}

// openIssuers knows the issuers of the configuration, and writes the access file for
// those who have their tokens: it holds no secret.
func (a *access) openIssuers(context.Context) (err error) {
	if len(a.config.Issuers.Issuers) == 0 {
		return nil
	}
	if a.issuers, err = issuer.NewKeys(a.config.Issuers, keptKeys{a.turns}, a.config.Log); err != nil {
		return err
	}
	file := identity.AccessFile{
		Version: identity.AccessVersion, Queue: a.addresses.Access, CAPEM: a.authorityPEM, Role: identity.RoleBearer,
		Expires: a.authority.NotAfter().UTC().Truncate(time.Second),
	}
	return file.Write(filepath.Join(a.config.DataDir, accessFolder, string(identity.RoleBearer)+".json"))
}

// runIssuers keeps the keys of issuers fresh.
func (a *access) runIssuers(ctx context.Context) error {
	if a.issuers == nil {
		return nil
	}
	return a.issuers.Run(ctx)
}
