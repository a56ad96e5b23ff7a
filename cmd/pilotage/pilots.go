package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	pb "github.com/pilotage-grid/pilotage/proto/pilotage/v1"
	"github.com/pilotage-grid/pilotage/task/taskpb"
)

func newPilotList(a *app) *cobra.Command {
	var site string
	var all bool
	command := &cobra.Command{
		Use: "list", Short: "List pilots", Args: asUsed,
		RunE: func(c *cobra.Command, _ []string) error {
			return a.withQueue(func(cl *clients) error {
				var pilots []*pb.Pilot
				err := pages(func(token string) (string, error) {
					reply, err := cl.pilots.ListPilots(c.Context(), &pb.ListPilotsRequest{Site: site, All: all, PageSize: pageSize, PageToken: token})
					pilots = append(pilots, reply.GetPilots()...)
					return reply.GetNextPageToken(), err
				})
				if err != nil {
					return err
				}
				now := time.Now()
				rows := make([][]string, len(pilots))
				for i, p := range pilots {
					role := ""
					if p.GetMaster() {
						role = "master"
					}
					rows[i] = []string{
						p.GetContact().GetPilot(), p.GetSite(), p.GetState(), orDash(role), p.GetHost(),
						fmt.Sprintf("%d/%d", p.GetRunning(), p.GetSlots()), ago(p.GetRegistered().AsTime(), now), orDash(p.GetSandbox()), orDash(pilotReason(p)),
					}
				}
				return a.print(pilots, []string{"PILOT", "SITE", "STATE", "ROLE", "HOST", "RUNNING/SLOTS", "AGE", "PAYLOADS CONFINED BY", "REASON"}, rows)
			})
		},
	}
	command.Flags().StringVar(&site, "site", "", "of one site only")
	command.Flags().BoolVar(&all, "all", false, "also pilots that left or died")
	completeFlag(a, command, "site", siteNames)
	return command
}

// pilotReason says why a pilot has gone, or takes no new work.
func pilotReason(p *pb.Pilot) string {
	if p.GetReason() == "" && p.GetStopped() != "" {
		return "takes no new work: " + p.GetStopped()
	}
	return p.GetReason()
}

func newPilotShow(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "show PILOT", Short: "Show a pilot", Args: asUsed,
		RunE: func(c *cobra.Command, args []string) error {
			return a.withQueue(func(cl *clients) error {
				reply, err := cl.pilots.GetPilot(c.Context(), &pb.GetPilotRequest{PilotId: args[0]})
				if err != nil {
					return err
				}
				p := reply.GetPilot()
				return a.print(p, nil, [][]string{
					{"pilot", p.GetContact().GetPilot()}, {"site", p.GetSite()}, {"state", p.GetState()}, {"reason", orDash(pilotReason(p))},
					{"host", p.GetHost()}, {"slots", fmt.Sprintf("%d, %d running", p.GetSlots(), p.GetRunning())},
					{"resources", taskpb.FromResources(p.GetResources()).String()},
					{"features", fmt.Sprint(p.GetFeatures())}, {"payloads confined by", orDash(p.GetSandbox())},
					{"addresses", fmt.Sprint(p.GetContact().GetAddresses())}, {"data server", p.GetContact().GetDataUrl()},
					{"registered", p.GetRegistered().AsTime().Format(inUTC)}, {"ends", p.GetEnds().AsTime().Format(inUTC)},
					{"version", p.GetVersion()},
				})
			})
		},
	}
}

func newPilotDrain(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "drain PILOT", Short: "Let a pilot finish what runs and leave", Args: asUsed,
		RunE: func(c *cobra.Command, args []string) error {
			return a.withQueue(func(cl *clients) error {
				_, err := cl.pilots.DrainPilot(c.Context(), &pb.DrainPilotRequest{PilotId: args[0]})
				if err != nil {
					return err
				}
				return a.done(map[string]any{"pilot": args[0], "draining": true}, "pilot %s finishes what runs and leaves", args[0])
			})
		},
	}
}
