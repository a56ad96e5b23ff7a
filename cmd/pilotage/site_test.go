package main

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/pilotage-grid/pilotage/proto/pilotage/v1"
	"github.com/pilotage-grid/pilotage/task/workflow"
)

// Only flags that were given reach a site that exists.
func TestOnlyGivenSettingsAreChanged(t *testing.T) {
	for line, want := range map[string][]string{
		"": nil, "--se file:///x": {"storage_url"}, "--remote-read=false --prefill 0": {"prefill", "remote_read"},
		"--reach siteB --round-period 1s --mode distributed": {"mode", "reach", "round_period"},
	} {
		command := siteCommands{testApp()}.add()
		if err := command.ParseFlags(strings.Fields(line)); err != nil {
			t.Fatal(err)
		}
		got := settingsGiven(command.Flags())
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("%q gives %v, want %v", line, got, want)
		}
	}
	flags, all := siteCommands{testApp()}.add().Flags(), 0
	flags.VisitAll(func(flag *pflag.Flag) {
		all++
		if err := flags.Set(flag.Name, flag.DefValue); err != nil {
			t.Error(err)
		}
	})
	if got := settingsGiven(flags); len(got) != all || all < 10 {
		t.Errorf("%d flags give %d settings: %v", all, len(got), got)
	}
}

// uploadPlan is a file service that plans uploads.
type uploadPlan struct {
	pb.FileServiceClient
	targets []*pb.UploadTarget
}

func (p uploadPlan) PlanUpload(context.Context, *pb.PlanUploadRequest, ...grpc.CallOption) (*pb.PlanUploadResponse, error) {
	return &pb.PlanUploadResponse{Targets: p.targets}, nil
}

// One site that cannot be reached is named, with the flag that goes without it.
func TestUploadNamesTheWayAroundABadSite(t *testing.T) {
	for url, code := range map[string]int{"http://127.0.0.1:1/x": exitUnreachable, "ftp://x/y": exitInternal} {
		cl := &clients{files: uploadPlan{targets: []*pb.UploadTarget{{Site: "bad", StorageUrl: url}}}}
		_, err := testApp().uploadSources(t.Context(), cl, []workflow.ExternalFile{sourceFile(t, "content")}, nil)
		if err == nil || exitCode(t.Context(), err) != code || !strings.Contains(err.Error(), "--site NAME") || !strings.Contains(err.Error(), "bad") {
			t.Errorf("%s: %v", url, err)
		}
	}
	_, err := testApp().uploadSources(t.Context(), &clients{files: uploadPlan{}}, []workflow.ExternalFile{sourceFile(t, "content")}, nil)
	if err == nil || !strings.Contains(err.Error(), "--resume") {
		t.Errorf("without a site to upload to: %v", err)
	}
}

// A site whose pilots have all gone has no master, only a last one.
func TestSiteTextsSayWhatHolds(t *testing.T) {
	for want, got := range map[string]string{
		"none, as there is no pilot; the last one was p-1, term 2, heard 0s ago": masterText(&pb.Site{Master: "p-1", Term: "2"}),
		"p-1, term 2, heard 0s ago": masterText(&pb.Site{Master: "p-1", Term: "2", Pilots: 1}),
		"-":                         masterText(&pb.Site{}),
		"none: pilots of a site in mode isolated speak for themselves": masterText(&pb.Site{
			Master: "p-1", Pilots: 1, Settings: &pb.SiteSettings{Mode: pb.SiteMode_SITE_MODE_ISOLATED},
		}),
		"its own storage element only":                                           reachText(&pb.SiteSettings{StorageUrl: "file:///x", Reach: []string{"b"}}),
		"its own storage element, and those of b, c":                             reachText(&pb.SiteSettings{StorageUrl: "file:///x", RemoteRead: true, Reach: []string{"b", "c"}}),
		"its own storage element, and those of all other sites":                  reachText(&pb.SiteSettings{StorageUrl: "file:///x", RemoteRead: true}),
		"no storage element of its own; those of b":                              reachText(&pb.SiteSettings{RemoteRead: true, Reach: []string{"b"}}),
		"no storage element: it has none, and may not read those of other sites": reachText(&pb.SiteSettings{Reach: []string{"b"}}),
		"driven by events; beside its running task a slot gets none early":       roundsText(&pb.SiteSettings{Mode: pb.SiteMode_SITE_MODE_DISTRIBUTED}),
		"every 20s; beside its running task a slot gets 2 early (prefill)": roundsText(&pb.SiteSettings{
			Mode: pb.SiteMode_SITE_MODE_DISTRIBUTED, Prefill: proto.Int32(2), RoundPeriod: durationpb.New(20 * time.Second),
		}),
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// Seconds of a bench may carry their unit, like times elsewhere.
func TestSecondsTakeUnits(t *testing.T) {
	for text, want := range map[string]time.Duration{"20": 20 * time.Second, "0.5": 500 * time.Millisecond, "30s": 30 * time.Second, "200ms": 200 * time.Millisecond} {
		var value time.Duration
		if err := (seconds{&value}).Set(text); err != nil || value != want {
			t.Errorf("%s is %s, %v; want %s", text, value, err, want)
		}
	}
	for _, text := range []string{"", "x", "NaN", "1e300", "5 s"} {
		var value time.Duration
		if err := (seconds{&value}).Set(text); err == nil {
			t.Errorf("%q is taken as %s", text, value)
		}
	}
}

func TestWhatNoPilotCouldRunIsNamed(t *testing.T) {
	clauses := []*pb.ClauseCount{{Clause: "memory 500GiB", Pilots: 2}}
	if got, want := refusedText(&pb.RefusedClass{Clauses: clauses}), "tasks: 2 pilots fail `memory 500GiB`"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got, want := refusedText(&pb.RefusedClass{Require: "pilot.cores > 9", Clauses: clauses}), "tasks that require `pilot.cores > 9`: 2 pilots fail `memory 500GiB`"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
