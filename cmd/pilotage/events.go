package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	pb "github.com/pilotage-grid/pilotage/proto/pilotage/v1"
)

func newEvents(a *app) *cobra.Command {
	request := &pb.WatchEventsRequest{}
	command := a.tool("events", "Tell what has happened: pilots that come, die or are held, masters, what fails", func(ctx context.Context, c *clients, _ []string) error {
		err := a.events(ctx, c, request)
		if request.GetFollow() && ctx.Err() != nil {
			return nil // whoever follows ends it so
		}
		return err
	})
	command.Long = `Tells what the queue's log tells: pilots that join, leave, die or take no new work;
nodes that are set back; masters, and sites whose master is not heard; classes of
tasks that no pilot can run; steps of workflows whose tasks fail, every 10 s at most
for the same reason; workflows that are over.

The queue keeps the newest 5,000 since its start. With --follow, the command goes on
with what happens, and waits for a queue that is away. A line is an event;
--output jsonl gives JSON.`
	flags := command.Flags()
	flags.BoolVarP(&request.Follow, "follow", "f", false, "go on with what happens from now on")
	flags.StringVar(&request.Site, "site", "", "only what is of a site")
	return command
}

// events prints events until they end, or for ever if they are followed.
func (a *app) events(ctx context.Context, c *clients, request *pb.WatchEventsRequest) error {
	if request.GetFollow() && a.out.output == "json" {
		return coded(exitUsage, "a list that goes on has no end to write: give --output jsonl")
	}
	var all []*pb.Event
	for {
		err := watchEvents(ctx, c, request, func(events []*pb.Event) error {
			if a.out.output == "json" {
				all = append(all, events...)
				return nil
			}
			return a.out.printEvents(events)
		})
		switch {
		case err == nil && a.out.output == "json":
			return a.out.printJSON(all)
		case !request.GetFollow() || !unreachable(err):
			return err
		}
		a.out.note("waiting for the task queue: %s\n", reason(err))
		request.After = 0 // another queue counts anew
		select {
		case <-time.After(watchPause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func watchEvents(ctx context.Context, c *clients, request *pb.WatchEventsRequest, heard func([]*pb.Event) error) error {
	stream, err := c.sites.WatchEvents(ctx, request)
	if err != nil {
		return err
	}
	for {
		reply, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := heard(reply.GetEvents()); err != nil {
			return err
		}
	}
}

// printEvents prints each event on a line.
func (o *console) printEvents(events []*pb.Event) error {
	return o.show(events, func() error {
		for _, e := range events {
			if _, err := fmt.Fprintln(o.stdout, eventLine(e)); err != nil {
				return err
			}
		}
		return nil
	})
}

// eventLine is an event for people.
func eventLine(e *pb.Event) string {
	line := fmt.Sprintf("%s  %-15s", e.GetTime().AsTime().Local().Format(time.DateTime), e.GetKind())
	for _, part := range []string{e.GetSite(), e.GetPilot(), e.GetNode(), cmp.Or(e.GetTask(), e.GetWorkflow()), e.GetText()} {
		if part != "" {
			line += "  " + part
		}
	}
	return cellText(line)
}
