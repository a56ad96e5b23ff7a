package server

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pilotage-grid/pilotage/identity"
	pb "github.com/pilotage-grid/pilotage/proto/pilotage/v1"
	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/task/taskpb"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

// usualAccessLife is how long an access is valid unless asked otherwise.
const usualAccessLife = 30 * 24 * time.Hour

// maxJobAccessLife bounds the access of a pilot job, which may wait in a batch
// system for so long.
const maxJobAccessLife = 72 * time.Hour

// CreateAccess makes a token and returns the access file for it.
func (h *siteHandlers) CreateAccess(ctx context.Context, in *pb.CreateAccessRequest) (*pb.CreateAccessResponse, error) {
	role, err := identity.ParseRole(in.GetRole())
	if err != nil {
		return nil, invalid("%w", err)
	}
	if c := callerOf(ctx); c.kind == factory {
		switch {
		case role != identity.RolePilot || !in.GetOnce():
			return nil, fmt.Errorf("%w: %s makes accesses for one pilot of its site each, nothing else", errForbidden, c)
		case in.GetValidFor().AsDuration() > maxJobAccessLife:
			return nil, invalid("valid_for %s: the access of a pilot job lasts %s at most", in.GetValidFor().AsDuration(), maxJobAccessLife)
		}
		if err := c.of(in.GetSite()); err != nil {
			return nil, err
		}
	}
	if c := callerOf(ctx); c.kind == operator {
		if role != identity.RolePilot && role != identity.RoleFactory {
			return nil, fmt.Errorf("%w: %s makes accesses for pilots and factories of its site, nothing else", errForbidden, c)
		}
		if err := c.of(in.GetSite()); err != nil {
			return nil, err
		}
	}
	if !role.OfSite() && in.GetSite() != "" {
		return nil, invalid("an access for role %s is for all sites: leave the site out", role)
	}
	if err := checkText("label", in.GetLabel(), maxKey); err != nil {
		return nil, err
	}
	if err := checkText("job", in.GetJob(), maxKey); err != nil {
		return nil, err
	}
	if err := checkText("person", in.GetPerson(), maxKey); err != nil {
		return nil, err
	}
	if err := checkTexts("groups", in.GetGroups(), maxGroups, maxKey); err != nil {
		return nil, err
	}
	life, err := duration("valid_for", in.GetValidFor())
	switch {
	case err != nil:
		return nil, err
	case in.GetValidFor() == nil:
		life = usualAccessLife
	case life < time.Second || life > identity.AuthorityLife:
		return nil, invalid("valid_for %s: give a second to ten years", life)
	}
	grant := taskqueue.Grant{
		Role: string(role), Site: task.Site(in.GetSite()), Label: in.GetLabel(), Once: in.GetOnce(), Job: in.GetJob(),
		Person: in.GetPerson(), Groups: in.GetGroups(),
	}
	if c := callerOf(ctx); c.kind != admin { // who else would have others answer for its pilots
		grant.Person, grant.Groups = c.person.Name, nil
	}
	file, id, err := h.server.access.newAccess(ctx, grant, life)
	if err != nil {
		return nil, err
	}
	content, err := json.MarshalIndent(file, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode the access file: %w", err)
	}
	return &pb.CreateAccessResponse{AccessFile: append(content, '\n'), Id: id}, nil
}

// RevokeAccess makes a token, or the membership of a pilot, useless at once.
func (h *siteHandlers) RevokeAccess(ctx context.Context, in *pb.RevokeAccessRequest) (*pb.RevokeAccessResponse, error) {
	id, notPilot := task.ParsePilotID(in.GetId())
	out := &pb.RevokeAccessResponse{}
	err := h.server.turns.update(ctx, func(t *taskqueue.Turn) error {
		out.Reset()
		if notPilot == nil {
			return h.deny(ctx, t, id)
		}
		grants := taskqueue.Read(t.Grants().Load(in.GetId()))
		if len(grants) > 0 {
			if err := callerOf(ctx).of(string(grants[0].Site)); err != nil {
				return err
			}
		}
		pilots, err := h.server.turns.rules.RevokeGrant(t, in.GetId(), in.GetPilots())
		out.Pilots = pilotIDs(pilots)
		return err
	})
	if err != nil {
		return nil, err
	}
	return out, h.shutOut(ctx)
}

// shutOut makes what was revoked or banned count in calls under way: they ask again
// whether they are still allowed.
func (h *siteHandlers) shutOut(ctx context.Context) error {
	if err := h.server.access.reloadAccess(ctx); err != nil {
		return err
	}
	h.server.masters.desk.WakeAll()
	h.server.watches.all()
	h.server.shown.events.watches.all()
	return nil
}

// ListAccess lists all tokens, or those of the operator's site, by time of creation, never
// their secrets.
func (h *siteHandlers) ListAccess(ctx context.Context, in *pb.ListAccessRequest) (*pb.ListAccessResponse, error) {
	var grants []taskqueue.Grant
	for _, known := range h.server.access.known.Load().grants.Range {
		if grant := known.(taskqueue.Grant); callerOf(ctx).of(string(grant.Site)) == nil {
			grants = append(grants, grant)
		}
	}
	key := func(g *taskqueue.Grant) string { return fmt.Sprintf("%020d %s", g.Created.UnixNano(), g.ID) }
	slices.SortFunc(grants, func(x, y taskqueue.Grant) int { return strings.Compare(key(&x), key(&y)) })
	out := &pb.ListAccessResponse{}
	var err error
	out.Accesses, out.NextPageToken, err = pageOf("accesses", in, grants, key, func(g *taskqueue.Grant) *pb.Access {
		return &pb.Access{
			Id: g.ID, Role: g.Role, Site: string(g.Site), Label: g.Label,
			Created: taskpb.Time(g.Created), Expires: taskpb.Time(g.Expires), Revoked: g.Revoked,
			Person: g.Holder().Name, Groups: g.Groups,
		}
	})
	return out, err
}
