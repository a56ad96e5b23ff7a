package server

import (
	"context"
	"fmt"
	"path"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/tap"

	"github.com/pilotage-grid/pilotage/identity"
	"github.com/pilotage-grid/pilotage/identity/issuer"
	pb "github.com/pilotage-grid/pilotage/proto/pilotage/v1"
	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

// caller is who makes a call.
type caller struct {
	kind     may
	site     task.Site // of a pilot, registered or not
	token    string    // id of the access token; of another issuer's the person
	person   taskqueue.Person
	pilot    task.PilotID
	peer     task.PeerID
	notAfter time.Time
	arrival  *arrival // of the call, but of strangers and of pilots that register
}

func (c caller) String() string {
	if c.kind&bearers != 0 {
		return c.person.Name + " with a token of scope " + strings.Join(c.kind.scopes(), " ")
	}
	switch c.kind {
	case admin:
		return "an admin's token"
	case submit:
		return "a submit token"
	case newPilot:
		return "a pilot token of site " + string(c.site)
	case reader:
		return "a read-only token"
	case factory:
		return "the factory of site " + string(c.site)
	case operator:
		return "the operator of site " + string(c.site)
	case member:
		return fmt.Sprintf("pilot %s of site %s", c.pilot, c.site)
	}
	return "a stranger"
}

// of refuses a caller that is bound to another site.
func (c caller) of(site string) error {
	if c.kind&(newPilot|member|factory|operator) != 0 && string(c.site) != site {
		return fmt.Errorf("%w: %s cannot act for site %.80q", errForbidden, c, site)
	}
	return nil
}

// speaksForItsSite refuses a pilot's request that names another site than its own, or
// none.
func (c caller) speaksForItsSite(request any) error {
	if pull, is := request.(*pb.PullRequest); is {
		request = pull.GetSync()
	}
	if named, is := request.(interface{ GetSite() string }); is && c.kind&(newPilot|member) != 0 {
		return c.of(named.GetSite())
	}
	return nil
}

type callerKey struct{}

// callerOf returns who makes a call; calls do not get past admit without one.
func callerOf(ctx context.Context) caller {
	c, _ := ctx.Value(callerKey{}).(caller)
	return c
}

// known holds every token and every revoked membership: a call must not wait for
// the store to learn who makes it. New tokens are added; it is replaced after every
// other change, and once a day, which drops what the queue has forgotten. Both come
// before the change is answered.
type known struct {
	grants sync.Map // of taskqueue.Grant by id
	denied map[task.PeerID]struct{}
	banned map[string]string // persons, and why
	since  time.Time
}

const reloadAccessEvery = 24 * time.Hour

// grant returns the grant with the id; a zero one refuses everything.
func (k *known) grant(id string) taskqueue.Grant {
	found, _ := k.grants.Load(id)
	grant, _ := found.(taskqueue.Grant)
	return grant
}

// opening is what opens the queue of a grant.
func opening(g *taskqueue.Grant) identity.Grant {
	return identity.Grant{ID: g.ID, Hash: g.Hash, Expires: g.Expires, Revoked: g.Revoked}
}

// access decides who may call, and gives out what opens the queue: the VO's authority,
// certificates, tokens and the files that hold them.
type access struct {
	turns     *turns
	config    *Config
	addresses *Addresses

	issuers      *issuer.Keys // whose tokens are taken, too; nil: nobody's
	authority    *identity.Authority
	authorityPEM string // of all that count: more than one during a rotation
	certificate  certificate

	reloading sync.Mutex
	revoked   []byte // what revokedFile says
	known     atomic.Pointer[known]
}

// reloadAccess makes changes of tokens and memberships count.
func (a *access) reloadAccess(ctx context.Context) error {
	a.reloading.Lock()
	defer a.reloading.Unlock()
	next := &known{denied: make(map[task.PeerID]struct{}), banned: make(map[string]string), since: time.Now()}
	var shutOut revocations
	err := a.turns.view(ctx, func(t *taskqueue.Turn) error {
		grants := taskqueue.Read(t.Grants().All())
		for _, g := range grants {
			next.grants.Store(g.ID, g)
		}
		shutOut = a.revocationsIn(t)
		for _, peer := range shutOut.Pilots {
			next.denied[peer] = struct{}{}
		}
		for i := range shutOut.Bans {
			if ban := &shutOut.Bans[i]; ban.Kind == taskqueue.BanPerson {
				next.banned[ban.Name] = ban.Why
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	a.known.Store(next)
	a.keep(shutOut)
	return nil
}

// addGrant makes a new token count. The store has it already, so that a reload
// under way either read it or is waited for.
func (a *access) addGrant(ctx context.Context, grant taskqueue.Grant) error {
	a.reloading.Lock()
	if current := a.known.Load(); current != nil && time.Since(current.since) < reloadAccessEvery {
		current.grants.LoadOrStore(grant.ID, grant) // a reload may know that its site has gone
		a.reloading.Unlock()
		return nil
	}
	a.reloading.Unlock()
	return a.reloadAccess(ctx)
}

// admit decides on a call by its headers, before its message is read: a
// stranger cannot make the server hold a large one. It runs in the
// connection's own goroutine and therefore asks nobody.
func (a *access) admit(ctx context.Context, info *tap.Info) (context.Context, error) {
	allowed, served := permissions[info.FullMethodName]
	if !served {
		return ctx, nil // gRPC answers that there is no such method
	}
	c, err := a.identify(ctx, info.Header, time.Now())
	if allowed&anybody != 0 {
		return context.WithValue(ctx, callerKey{}, c), nil
	}
	if err == nil && allowed&c.kind == 0 {
		err = fmt.Errorf("%w: %s may not call %s, which takes %s", errForbidden, c, path.Base(info.FullMethodName), allowed)
	}
	if err != nil {
		return ctx, statusOf(err)
	}
	return context.WithValue(ctx, callerKey{}, c), nil
}

// identify finds out who calls: by token if one is sent, else by the
// membership certificate of the connection, which the handshake has verified.
func (a *access) identify(ctx context.Context, header metadata.MD, now time.Time) (caller, error) {
	if sent := header.Get("authorization"); len(sent) > 0 {
		return a.byToken(sent[0], now)
	}
	from, found := peer.FromContext(ctx)
	if !found {
		return caller{}, errNoCredentials
	}
	secured, ok := from.AuthInfo.(shownIdentity)
	if !ok {
		return caller{}, errNoCredentials
	}
	m, ok := identity.MemberOfConnection(secured.State)
	if !ok {
		return caller{}, errNoCredentials
	}
	c := caller{kind: member, site: m.Site, pilot: m.Pilot, peer: m.Peer, notAfter: m.NotAfter}
	return c, a.recheck(c, now)
}

// kinds of callers, by the roles of their tokens.
var kinds = map[identity.Role]may{
	identity.RoleAdmin: admin, identity.RoleSubmit: submit, identity.RolePilot: newPilot,
	identity.RoleReadOnly: reader, identity.RoleFactory: factory, identity.RoleOperator: operator,
}

func (a *access) byToken(header string, now time.Time) (caller, error) {
	scheme, token, _ := strings.Cut(header, " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return caller{}, fmt.Errorf("%w: the authorization header is not \"Bearer TOKEN\"", identity.ErrMalformed)
	}
	if token = strings.TrimSpace(token); a.issuers != nil && issuer.IsToken(token) {
		return a.byBearer(token, now)
	}
	id, secret, err := identity.ParseToken(token)
	if err != nil {
		return caller{}, err
	}
	grant := a.known.Load().grant(id)
	if err := opening(&grant).Check(secret, now); err != nil {
		return caller{}, err
	}
	kind, is := kinds[identity.Role(grant.Role)]
	if !is {
		return caller{}, fmt.Errorf("token %s has the unknown role %q: %w", id, grant.Role, identity.ErrUnknownToken)
	}
	c := caller{kind: kind, site: grant.Site, token: grant.ID, person: grant.Holder()}
	return c, a.known.Load().admits(c.person.Name)
}

// admits refuses a person who is banned.
func (k *known) admits(person string) error {
	if why, banned := k.banned[person]; banned {
		return fmt.Errorf("%s is banned by the VO: %w: %s", person, errBanned, why)
	}
	return nil
}

// recheck tells whether a caller that was admitted still is: calls that last
// ask again before they answer.
func (a *access) recheck(c caller, now time.Time) error {
	current := a.known.Load()
	if c.kind == member {
		if _, denied := current.denied[c.peer]; denied {
			return revoked(c)
		}
		if !now.Before(c.notAfter) {
			return &identity.ExpiredError{Subject: "the membership of pilot " + string(c.pilot), Expired: c.notAfter, Advice: "start a new pilot"}
		}
		return nil
	}
	if err := current.admits(c.person.Name); err != nil {
		return err
	}
	if c.kind&bearers != 0 {
		if !now.Before(c.notAfter) {
			return &identity.ExpiredError{Subject: "the token of " + c.person.Name, Expired: c.notAfter, Advice: "get a new one"}
		}
		return nil
	}
	grant := current.grant(c.token)
	return opening(&grant).Valid(now)
}

func revoked(c caller) error {
	return fmt.Errorf("pilot %s at site %s: %w", c.pilot, c.site, errMemberRevoked)
}
