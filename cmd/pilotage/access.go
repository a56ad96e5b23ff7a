package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/pilotage-grid/pilotage/identity"
	pb "github.com/pilotage-grid/pilotage/proto/pilotage/v1"
	"github.com/pilotage-grid/pilotage/task"
)

func (a accessCommands) group() *cobra.Command {
	command := &cobra.Command{Use: "access", Short: "Create, revoke and list access files; ban persons, pilots, nodes and sites"}
	command.AddCommand(a.create(), a.revoke(), a.list(), a.ban(), a.unban(), a.bans(), a.audit())
	return command
}

func (a accessCommands) create() *cobra.Command {
	request := &pb.CreateAccessRequest{}
	var into string
	life := 30 * day
	var force bool
	command := a.tool("create --role ROLE [--site SITE]", "Make an access file", func(ctx context.Context, c *clients, _ []string) error {
		reply, err := c.sites.CreateAccess(ctx, request)
		if err != nil {
			return err
		}
		if into == "" {
			_, err := a.out.stdout.Write(append(reply.GetAccessFile(), '\n'))
			return err
		}
		var file identity.AccessFile
		if err := json.Unmarshal(reply.GetAccessFile(), &file); err != nil {
			return fmt.Errorf("the queue's access file: %w", err)
		}
		if err := file.Write(into); err != nil {
			return err
		}
		return a.out.done(nil, map[string]any{"id": reply.GetId(), "file": into}, "access %s written to %s", reply.GetId(), into)
	})
	command.PreRunE = func(*cobra.Command, []string) error {
		if _, err := identity.ParseRole(request.GetRole()); err != nil {
			return usage(err)
		}
		request.ValidFor = durationpb.New(life)
		if _, err := os.Lstat(into); err == nil && !force {
			return coded(exitConflict, "%s is there: give another --to, or --force to replace it", into)
		}
		if old, err := identity.ReadAccessFile(into); err == nil && request.Person == "" {
			request.Person = old.Person // a renewal is for the same one
			if len(request.Groups) == 0 {
				request.Groups = old.Groups
			}
		}
		return nil
	}
	flags := command.Flags()
	flags.StringVar(&request.Role, "role", "submit", "admin, operator, submit, read-only, pilot or factory")
	flags.StringVar(&request.Site, "site", "", "site of the access of a pilot, factory or operator")
	flags.StringVar(&request.Label, "label", "", "whom it is for, shown by access list")
	flags.StringVar(&request.Person, "person", "", "whose work is done with it (default: whom the file to replace names, else the label, else the id of the access)")
	flags.StringSliceVar(&request.Groups, "group", nil, "group of the person; may be given several times")
	flags.Var((*days)(&life), "expires", "how long it is valid, e.g. 12h or 90d")
	flags.StringVar(&into, "to", "", "file to write (default: standard output)")
	flags.BoolVar(&force, "force", false, "replace a file that is there")
	completeWords(command, "role", "admin", "operator", "submit", "read-only", "pilot", "factory")
	return command
}

// parseLife reads a length of time that may be given in days.
func parseLife(text string) (time.Duration, error) {
	if days, is := strings.CutSuffix(text, "d"); is {
		if n, err := strconv.ParseFloat(days, 64); err == nil && n > 0 && n < 36500 {
			return time.Duration(n * 24 * float64(time.Hour)), nil
		}
	}
	life, err := time.ParseDuration(text)
	if err != nil || life <= 0 {
		return 0, fmt.Errorf("%q is no length of time: write e.g. 12h or 90d", text)
	}
	return life, nil
}

func (a accessCommands) revoke() *cobra.Command {
	request := &pb.RevokeAccessRequest{}
	command := a.tool("revoke ID", "Revoke an access (by id), or a pilot's membership (by pilot id)", func(ctx context.Context, c *clients, args []string) error {
		request.Id = args[0]
		reply, err := c.sites.RevokeAccess(ctx, request)
		pilots := task.Counted(len(reply.GetPilots()), "pilot")
		if len(reply.GetPilots()) > 0 && !request.GetPilots() {
			a.out.note("%s that registered with it still work; end them with: pilotage access revoke %s --pilots\n", pilots, args[0])
		}
		err = a.out.done(err, map[string]any{"id": args[0], "revoked": true, "pilots": reply.GetPilots()}, "%s is revoked", args[0])
		if err == nil && request.GetPilots() {
			a.out.say("%s that registered with it: revoked\n", pilots)
		}
		return err
	})
	command.Flags().BoolVar(&request.Pilots, "pilots", false, "revoke the pilots that registered with the access, too")
	return command
}

// banKinds are what can be banned, for --help and completion.
var banKinds = []string{"person", "pilot", "node", "site"}

// banTool makes a command on a ban.
func (a accessCommands) banTool(name, short string, run func(ctx context.Context, c *clients, ban *pb.Ban) error) *cobra.Command {
	ban := &pb.Ban{}
	command := a.tool(name+" KIND NAME", short, func(ctx context.Context, c *clients, args []string) error {
		ban.Kind, ban.Name = args[0], args[1]
		return run(ctx, c, ban)
	})
	command.Long = short + ".\n\nKIND is person, pilot (by id), node or site."
	command.ValidArgsFunction = func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) == 0 {
			return banKinds, cobra.ShellCompDirectiveNoFileComp
		}
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	command.Flags().StringVar(&ban.Site, "site", "", "site of the node (default: every site)")
	if name == "ban" {
		command.Flags().StringVar(&ban.Why, "why", "", "reason, told to who is refused")
	}
	return command
}

func (a accessCommands) ban() *cobra.Command {
	return a.banTool("ban", "Shut out a person, a pilot, a node or a site, and end what it runs", func(ctx context.Context, c *clients, ban *pb.Ban) error {
		reply, err := c.sites.Ban(ctx, &pb.BanRequest{Ban: ban})
		rest := ""
		if reply.GetMore() {
			rest = "; the rest follows"
		}
		return a.out.done(err, reply, "%s %s is banned: %s revoked, %s cancelled%s", ban.GetKind(), ban.GetName(),
			task.Counted(len(reply.GetPilots()), "pilot"), task.Counted(reply.GetTasks(), "task"), rest)
	})
}

func (a accessCommands) unban() *cobra.Command {
	return a.banTool("unban", "Lift a ban; new pilots may come, cancelled work is run again by workflow retry", func(ctx context.Context, c *clients, ban *pb.Ban) error {
		reply, err := c.sites.Unban(ctx, &pb.UnbanRequest{Ban: ban})
		return a.out.done(err, reply, "%s %s is not banned any more", ban.GetKind(), ban.GetName())
	})
}

func (a accessCommands) bans() *cobra.Command {
	return a.tool("bans", "List the bans of persons, nodes and sites", func(ctx context.Context, c *clients, _ []string) error {
		return printWhole(ctx, a.out, c.sites.ListBans, &pb.ListBansRequest{}, (*pb.ListBansResponse).GetBans, []string{"KIND", "NAME", "SITE", "BY", "SINCE", "WHY"}, func(b *pb.Ban) []any {
			return []any{b.GetKind(), b.GetName(), b.GetSite(), b.GetBy(), b.GetAt().AsTime().Format(inUTC), b.GetWhy()}
		})
	})
}

func (a accessCommands) list() *cobra.Command {
	return a.tool("list", "List accesses; tokens are not kept and cannot be shown", func(ctx context.Context, c *clients, _ []string) error {
		return printWhole(ctx, a.out, c.sites.ListAccess, &pb.ListAccessRequest{}, (*pb.ListAccessResponse).GetAccesses, []string{"ID", "ROLE", "SITE", "PERSON", "LABEL", "STATE", "EXPIRES"}, func(g *pb.Access) []any {
			state, expires := "valid", g.GetExpires().AsTime()
			switch {
			case g.GetRevoked():
				state = "revoked"
			case expires.Before(time.Now()):
				state = "expired"
			}
			return []any{g.GetId(), g.GetRole(), g.GetSite(), g.GetPerson(), g.GetLabel(), state, expires.Format(inUTC)}
		})
	})
}

// accessError adds what to do when no access file is there, and tells a file
// that is no good from one that was good once.
func accessError(err error) error {
	var expired *identity.ExpiredError
	switch {
	case errors.As(err, &expired):
		return err
	case errors.Is(err, fs.ErrNotExist):
		return coded(exitUsage, "%w\nGive --access FILE, set PILOTAGE_ACCESS, or ask the queue's operator for an access file.", err)
	default:
		return usage(err)
	}
}
