package main

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	pb "github.com/pilotage-grid/pilotage/proto/pilotage/v1"
)

// completionPatience bounds how long a shell waits for the queue on Tab.
const completionPatience = 2 * time.Second

// lister asks the queue for names that a shell may complete.
type lister func(context.Context, *clients) ([]string, error)

// completed lets the first arguments of commands be completed by names that the queue
// knows.
func (a *app) completed(list lister, commands ...*cobra.Command) []*cobra.Command {
	for _, command := range commands {
		command.ValidArgsFunction = func(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return a.ask(c.Context(), list), cobra.ShellCompDirectiveNoFileComp
		}
	}
	return commands
}

// completeFlag lets a flag be completed by names that the queue knows.
func (a *app) completeFlag(command *cobra.Command, flag string, list lister) {
	must(command.RegisterFlagCompletionFunc(flag, func(c *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		return a.ask(c.Context(), list), cobra.ShellCompDirectiveNoFileComp
	}))
}

// completeSites lets every flag --site of a command and those below it be completed.
func (a *app) completeSites(command *cobra.Command) {
	if flag := command.Flags().Lookup("site"); flag != nil && flag.Value.Type() != "stringArray" { // a simulated site
		a.completeFlag(command, "site", siteNames)
	}
	for _, child := range command.Commands() {
		a.completeSites(child)
	}
}

// completeWords lets a flag be completed by fixed words.
func completeWords(command *cobra.Command, flag string, words ...string) {
	must(command.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp)))
}

func must(err error) {
	if err != nil {
		panic(err) // the flag was just defined
	}
}

// ask returns names, or none when the queue does not answer: a shell that
// completes shows no errors.
func (a *app) ask(ctx context.Context, list lister) []string {
	ctx, cancel := context.WithTimeout(ctx, completionPatience)
	defer cancel()
	c, err := a.connect()
	if err != nil {
		return nil
	}
	defer c.close()
	names, err := list(ctx, c)
	if err != nil {
		return nil
	}
	return names
}

func siteNames(ctx context.Context, c *clients) ([]string, error) {
	sites, err := everyPage(ctx, c.sites.ListSites, &pb.ListSitesRequest{}, (*pb.ListSitesResponse).GetSites)
	names := make([]string, len(sites))
	for i, s := range sites {
		names[i] = s.GetSettings().GetName()
	}
	return names, err
}

// workflowNames gives ids, with names as their description.
func workflowNames(ctx context.Context, c *clients) ([]string, error) {
	reply, err := c.tasks.ListWorkflows(ctx, &pb.ListWorkflowsRequest{PageSize: 50})
	names := make([]string, len(reply.GetWorkflows()))
	for i, w := range reply.GetWorkflows() {
		names[i] = w.GetId() + "\t" + w.GetName() + ", " + strings.ToLower(stateName(w.GetState()))
	}
	return names, err
}

func pilotNames(ctx context.Context, c *clients) ([]string, error) {
	reply, err := c.pilots.ListPilots(ctx, &pb.ListPilotsRequest{PageSize: 200})
	names := make([]string, len(reply.GetPilots()))
	for i, p := range reply.GetPilots() {
		names[i] = p.GetContact().GetPilot() + "\t" + p.GetSite()
	}
	return names, err
}
