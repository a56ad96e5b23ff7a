package server

import (
	"context"
	"fmt"
	"slices"
	"strings"

	pb "github.com/pilotage-grid/pilotage/proto/pilotage/v1"
	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/task/taskpb"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

// banPilot is the kind of a ban that is kept with the pilot's site.
const banPilot = "pilot"

// banOf reads a ban, and refuses an operator one that is not on its site.
func banOf(c caller, in *pb.Ban) (taskqueue.Ban, error) {
	for field, text := range map[string]string{"name": in.GetName(), "site": in.GetSite(), "why": in.GetWhy()} {
		if err := checkText(field, text, maxText); err != nil {
			return taskqueue.Ban{}, err
		}
	}
	ban := taskqueue.Ban{
		Kind: taskqueue.BanKind(in.GetKind()), Name: in.GetName(), Site: task.Site(in.GetSite()), Why: in.GetWhy(), By: c.person.Name,
	}
	site := in.GetSite()
	switch ban.Kind {
	case banPilot:
		return ban, nil // whose site the store knows
	case taskqueue.BanPerson:
		if c.kind == operator {
			return ban, fmt.Errorf("%w: %s bans pilots, nodes and its site, no person", errForbidden, c)
		}
		if ban.Name == c.person.Name {
			return ban, invalid("you would ban yourself: ask another admin")
		}
	case taskqueue.BanSite:
		site = in.GetName()
	case taskqueue.BanNode:
		if site == "" && c.kind == operator {
			site, ban.Site = string(c.site), c.site
		}
	}
	if ban.Site != "" && ban.Kind != taskqueue.BanNode {
		return ban, invalid("only the ban of a node is at one site: leave the site out")
	}
	return ban, c.of(site)
}

// deny revokes a pilot, whom an operator must have at its site.
func (h *siteHandlers) deny(ctx context.Context, t *taskqueue.Turn, id task.PilotID) error {
	if c := callerOf(ctx); c.kind == operator {
		taskqueue.Check(c.ofPilot(t, id))
	}
	return h.server.turns.rules.Deny(t, string(id))
}

// ofPilot refuses a caller that is bound to another site than a pilot's.
func (c caller) ofPilot(t *taskqueue.Turn, id task.PilotID) error {
	found := taskqueue.Read(t.Pilots().Load(id))
	if len(found) == 0 {
		return nil // the rules say so
	}
	return c.of(string(found[0].Site))
}

// Ban shuts a person, a pilot, a node or a site out.
func (h *siteHandlers) Ban(ctx context.Context, in *pb.BanRequest) (*pb.BanResponse, error) {
	ban, err := banOf(callerOf(ctx), in.GetBan())
	if err != nil {
		return nil, err
	}
	var banned taskqueue.Banned
	err = h.server.turns.update(ctx, func(t *taskqueue.Turn) (err error) {
		if ban.Kind == banPilot {
			id, err := pilotID(ban.Name)
			if err != nil {
				return err
			}
			banned.Pilots = []task.PilotID{id}
			return h.deny(ctx, t, id)
		}
		banned, err = h.server.turns.rules.Ban(t, ban)
		return err
	})
	if err != nil {
		return nil, err
	}
	return &pb.BanResponse{Pilots: pilotIDs(banned.Pilots), Tasks: int32(banned.Tasks), More: banned.More}, h.shutOut(ctx)
}

// Unban lifts a ban.
func (h *siteHandlers) Unban(ctx context.Context, in *pb.UnbanRequest) (*pb.UnbanResponse, error) {
	ban, err := banOf(callerOf(ctx), in.GetBan())
	if err != nil {
		return nil, err
	}
	if ban.Kind == banPilot {
		return nil, invalid("a pilot that was revoked does not come back: start a new one at its node")
	}
	if err := h.server.turns.update(ctx, func(t *taskqueue.Turn) error { return h.server.turns.rules.Unban(t, ban) }); err != nil {
		return nil, err
	}
	return &pb.UnbanResponse{}, h.server.access.reloadAccess(ctx)
}

// ListBans lists the bans in force, by what they are on; those of pilots are told by their
// reasons.
func (h *siteHandlers) ListBans(ctx context.Context, in *pb.ListBansRequest) (*pb.ListBansResponse, error) {
	bans, err := seen(ctx, h.server.turns, h.server.turns.rules.Bans)
	if err != nil {
		return nil, err
	}
	out := &pb.ListBansResponse{}
	key := func(b *taskqueue.Ban) string { return string(b.Kind) + "\x00" + b.Name + "\x00" + string(b.Site) }
	slices.SortFunc(bans, func(x, y taskqueue.Ban) int { return strings.Compare(key(&x), key(&y)) })
	out.Bans, out.NextPageToken, err = pageOf("bans", in, bans, key, func(b *taskqueue.Ban) *pb.Ban {
		return &pb.Ban{Kind: string(b.Kind), Name: b.Name, Site: string(b.Site), Why: b.Why, By: b.By, At: taskpb.Time(b.At)}
	})
	return out, err
}

func pilotIDs(ids []task.PilotID) (texts []string) {
	for _, id := range ids {
		texts = append(texts, string(id))
	}
	return texts
}
