package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	pb "github.com/pilotage-grid/pilotage/proto/pilotage/v1"
	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/task/taskpb"
)

func (a pilotCommands) list() *cobra.Command {
	request := &pb.ListPilotsRequest{}
	command := a.tool("list", "List pilots", func(ctx context.Context, c *clients, _ []string) error {
		return printWhole(ctx, a.out, c.pilots.ListPilots, request, (*pb.ListPilotsResponse).GetPilots, pilotHeader, pilotRow)
	})
	command.Flags().StringVar(&request.Site, "site", "", "of one site only")
	command.Flags().BoolVar(&request.All, "all", false, "also pilots that left or died")
	return command
}

var pilotHeader = []string{"PILOT", "SITE", "STATE", "ROLE", "HOST", "RUNNING/SLOTS", "DONE", "FAILED", "JOB", "AGE", "PAYLOADS CONFINED BY", "REASON"}

func pilotRow(p *pb.Pilot) []any {
	role := ""
	if p.GetMaster() {
		role = "master"
	}
	return []any{
		p.GetContact().GetPilot(), p.GetSite(), p.GetState(), role, p.GetHost(), fmt.Sprintf("%d/%d", p.GetRunning(), p.GetSlots()),
		p.GetDone(), p.GetFailed(), p.GetBatchJob(), ago(p.GetRegistered().AsTime(), time.Now()), task.Confinement(p.GetConfinement()), pilotReason(p),
	}
}

// pilotReason says why a pilot has gone, or takes no new work.
func pilotReason(p *pb.Pilot) string {
	if p.GetReason() == "" && p.GetStopped() != "" {
		return "takes no new work: " + p.GetStopped()
	}
	return p.GetReason()
}

func (a pilotCommands) show() *cobra.Command {
	return a.tool("show PILOT", "Show a pilot", func(ctx context.Context, c *clients, args []string) error {
		reply, err := c.pilots.GetPilot(ctx, &pb.GetPilotRequest{PilotId: args[0]})
		if err != nil {
			return err
		}
		p := reply.GetPilot()
		return a.out.print(p, nil, [][]string{
			{"pilot", p.GetContact().GetPilot()}, {"site", p.GetSite()}, {"state", p.GetState()}, {"reason", orDash(pilotReason(p))},
			{"host", p.GetHost()}, {"slots", fmt.Sprintf("%d, %d running", p.GetSlots(), p.GetRunning())},
			{"resources", taskpb.FromResources(p.GetResources()).String()},
			{"features", fmt.Sprint(p.GetFeatures())}, {"payloads confined by", taskpb.Walls(p).String()},
			{"addresses", fmt.Sprint(p.GetContact().GetAddresses())}, {"data server", p.GetContact().GetDataUrl()},
			{"registered", p.GetRegistered().AsTime().Format(inUTC)}, {"ends", p.GetEnds().AsTime().Format(inUTC)},
			{"version", p.GetVersion()}, {"batch job", orDash(p.GetBatchJob())}, {"factory's name of it", orDash(p.GetJob())},
			{"attempts", fmt.Sprintf("%d done, %d failed", p.GetDone(), p.GetFailed())}, {"last error", orDash(p.GetLastError())},
			{"inputs", fmt.Sprintf("%d read, %d from its own cache, %d from other pilots", p.GetReads(), p.GetLocalReads(), p.GetPeerReads())},
		})
	})
}

func (a pilotCommands) drain() *cobra.Command {
	return a.tool("drain PILOT", "Let a pilot finish what runs and leave", func(ctx context.Context, c *clients, args []string) error {
		_, err := c.pilots.DrainPilot(ctx, &pb.DrainPilotRequest{PilotId: args[0]})
		return a.out.done(err, map[string]any{"pilot": args[0], "draining": true}, "pilot %s finishes what runs and leaves", args[0])
	})
}
