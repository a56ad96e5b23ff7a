package identity

import (
	"fmt"
	"time"

	"github.com/pilotage-grid/pilotage/task"
)

// Role is what the holder of a token may do.
type Role string

// Roles. Which call needs which role is a table of the queue's server.
const (
	RoleAdmin    Role = "admin"     // operates the VO: sites, tokens, pilots, workflows
	RoleOperator Role = "operator"  // operates one site: settings, pilots, their tokens and bans
	RoleSubmit   Role = "submit"    // submits and follows workflows
	RolePilot    Role = "pilot"     // registers pilots of one site, nothing else
	RoleReadOnly Role = "read-only" // looks, and changes nothing
	// RoleFactory reads what waits for one site and makes tokens for its pilots.
	RoleFactory Role = "factory"
)

// RoleBearer is that of an access file without a token: its user shows a token of
// another issuer. The queue makes no token of this role.
const RoleBearer Role = "bearer"

// ParseRole checks a role that came from outside.
func ParseRole(text string) (Role, error) {
	switch role := Role(text); role {
	case RoleAdmin, RoleOperator, RoleSubmit, RolePilot, RoleFactory, RoleReadOnly:
		return role, nil
	}
	return "", fmt.Errorf("%.60q is not a role: use admin, operator, submit, read-only, pilot or factory", text)
}

// OfSite tells whether a token of the role is for one site.
func (r Role) OfSite() bool { return r == RolePilot || r == RoleFactory || r == RoleOperator }

// checkScope checks that role and site fit: roles without a site may be limited to one.
func checkScope(role Role, site task.Site) error {
	if _, err := ParseRole(string(role)); err != nil {
		return err
	}
	if site == "" && !role.OfSite() {
		return nil
	}
	if site == "" {
		return fmt.Errorf("role %s is for one site: name it (--site)", role)
	}
	_, err := task.ParseSite(string(site))
	return err
}

// Grant is by what the queue knows a token: never the secret.
type Grant struct {
	ID      string
	Hash    [32]byte  // of the secret, see HashSecret
	Expires time.Time // zero counts as expired: every token ends
	Revoked bool
}

// NewGrant makes a token for a role, of one site or with "" for all, and by what the
// queue knows it. The token text is returned once and stored nowhere.
func NewGrant(role Role, site task.Site, now, expires time.Time) (Grant, string, error) {
	if err := checkScope(role, site); err != nil {
		return Grant{}, "", fmt.Errorf("create an access: %w", err)
	}
	if !expires.After(now) {
		return Grant{}, "", fmt.Errorf("create an access: it would end at %s, which has passed: give a later end", expires.UTC().Format(time.RFC3339))
	}
	id, secret, err := NewToken()
	if err != nil {
		return Grant{}, "", err
	}
	return Grant{ID: id, Hash: HashSecret(secret), Expires: expires}, FormatToken(id, secret), nil
}

// Check decides whether the secret opens the grant at now. Refusals are
// ErrUnknownToken (wrong secret, told first: who does not know the secret
// learns nothing else), ErrRevoked and *ExpiredError. The zero Grant, which a
// failed look-up gives, refuses everything with ErrUnknownToken.
func (g Grant) Check(secret string, now time.Time) error {
	if !VerifySecret(g.Hash, secret) {
		g = Grant{}
	}
	return g.Valid(now)
}

// Valid is Check for whoever has shown the secret before.
func (g Grant) Valid(now time.Time) error {
	switch {
	case g.ID == "":
		return fmt.Errorf("%w: ask the VO's admin for a new access file", ErrUnknownToken)
	case g.Revoked:
		return fmt.Errorf("token %s: %w: ask the VO's admin for a new access file", g.ID, ErrRevoked)
	case !now.Before(g.Expires):
		return &ExpiredError{Subject: "token " + g.ID, Expired: g.Expires, Advice: "ask the VO's admin for a new access file"}
	}
	return nil
}
