package server

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/pilotage-grid/pilotage/identity"
	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

// labels of the tokens that the server makes by itself.
const defaultLabel = "default"

// accessFolder holds the access files, in the data folder.
const accessFolder = "access"

func (a *access) accessPath(role identity.Role, site task.Site) string {
	name := string(role)
	if site != "" {
		name += "-" + string(site)
	}
	return filepath.Join(a.config.DataDir, accessFolder, name+".json")
}

// prepareAccess sees to it that the folder has an access file for operators,
// one for workflow managers and one for each site's pilots, which name the
// addresses of this start.
func (a *access) prepareAccess(ctx context.Context) error {
	if err := a.ensureAccess(ctx, identity.RoleAdmin, ""); err != nil {
		return err
	}
	if err := a.ensureAccess(ctx, identity.RoleSubmit, ""); err != nil {
		return err
	}
	sites, err := seen(ctx, a.turns, func(t *taskqueue.Turn) ([]taskqueue.SiteRecord, error) { return t.Sites().All() })
	if err != nil {
		return fmt.Errorf("load sites: %w", err)
	}
	for i := range sites {
		if err := a.ensureAccess(ctx, identity.RolePilot, sites[i].Name); err != nil {
			return err
		}
	}
	return nil
}

// ensureAccess keeps an access file that still opens the queue, up to its
// addresses and authorities; one that is missing, expired, soon to expire or of another queue
// is replaced. A revoked one stays: who revoked it would not want another.
func (a *access) ensureAccess(ctx context.Context, role identity.Role, site task.Site) error {
	path := a.accessPath(role, site)
	old, err := identity.ReadAccessFile(path)
	now := time.Now()
	switch {
	case errors.Is(err, os.ErrNotExist), errors.Is(err, identity.ErrExpired):
		return a.makeAccess(ctx, role, site, old)
	case err != nil:
		return fmt.Errorf("%w: repair it, or delete it to get a new one", err)
	}
	switch err := a.opens(old, role, site, now); {
	case errors.Is(err, identity.ErrRevoked):
		a.config.Log.Warn("the token of an access file was revoked: delete the file to get a new one at the next start", "file", path)
		return nil
	case err != nil:
		return a.makeAccess(ctx, role, site, old)
	}
	if slices.Equal(old.Queue, a.addresses.Access) && old.CAPEM == a.authorityPEM {
		return nil
	}
	old.Queue, old.CAPEM = a.addresses.Access, a.authorityPEM
	return old.Write(path)
}

// opens tells whether an access file is one of this queue and will be for a
// good while.
func (a *access) opens(file *identity.AccessFile, role identity.Role, site task.Site, now time.Time) error {
	if file.Role != role || file.Site != site {
		return identity.ErrForeignAuthority
	}
	id, secret, err := identity.ParseToken(file.Token)
	if err != nil {
		return err
	}
	grant := a.known.Load().grant(id)
	return opening(&grant).Check(secret, now.Add(a.config.Timing.AccessLife/3))
}

func (a *access) makeAccess(ctx context.Context, role identity.Role, site task.Site, old *identity.AccessFile) error {
	grant := taskqueue.Grant{Role: string(role), Site: site, Label: defaultLabel}
	if old != nil {
		grant.Person, grant.Groups = old.Person, old.Groups
	}
	file, _, err := a.newAccess(ctx, grant, a.config.Timing.AccessLife)
	if err != nil {
		return err
	}
	return file.Write(a.accessPath(role, site))
}

// newAccess makes a token, keeps its grant, and returns the access file for
// it: the one place where the token is ever to be seen.
func (a *access) newAccess(ctx context.Context, g taskqueue.Grant, life time.Duration) (*identity.AccessFile, string, error) {
	now := time.Now()
	// Access files tell whole seconds; no life is shortened by that.
	expires := now.Add(life + time.Second - 1).UTC().Truncate(time.Second)
	if end := a.authority.NotAfter(); expires.After(end) {
		expires = end
	}
	opens, token, err := identity.NewGrant(identity.Role(g.Role), g.Site, now, expires)
	if err != nil {
		return nil, "", invalid("%w", err)
	}
	g.ID, g.Hash, g.Created, g.Expires = opens.ID, opens.Hash, now.UTC(), expires
	err = a.turns.update(ctx, func(t *taskqueue.Turn) error {
		return a.turns.rules.AddGrant(t, g)
	})
	if err != nil {
		return nil, "", err
	}
	if err := a.addGrant(ctx, g); err != nil {
		return nil, "", err
	}
	return &identity.AccessFile{
		Version: identity.AccessVersion, Queue: a.addresses.Access, CAPEM: a.authorityPEM,
		Role: identity.Role(g.Role), Site: g.Site, Person: g.Person, Groups: g.Groups, Token: token, Expires: expires,
	}, g.ID, nil
}
