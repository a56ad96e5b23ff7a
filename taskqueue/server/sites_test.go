package server_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"github.com/pilotage-grid/pilotage/identity"
	pb "github.com/pilotage-grid/pilotage/proto/pilotage/v1"
)

// With a mask, settings that are not named stay as they are.
func TestSettingsThatAreNotNamedStay(t *testing.T) {
	q := start(t)
	change := func(settings *pb.SiteSettings, paths ...string) *pb.SiteSettings {
		t.Helper()
		settings.Name = "siteA"
		reply, err := q.admin().AddSite(q.ctx, &pb.AddSiteRequest{Settings: settings, UpdateMask: &fieldmaskpb.FieldMask{Paths: paths}})
		if err != nil {
			t.Fatal(err)
		}
		return reply.GetSite().GetSettings()
	}
	if _, err := q.admin().AddSite(q.ctx, &pb.AddSiteRequest{Settings: &pb.SiteSettings{Name: "siteB"}}); err != nil {
		t.Fatal(err)
	}
	first := change(&pb.SiteSettings{
		StorageUrl: "file:///se/siteA", RemoteRead: true, Reach: []string{"siteB"}, RoundPeriod: durationpb.New(time.Second), Prefill: proto.Int32(3),
		LocalityWait: durationpb.New(time.Minute),
	})
	if first.GetStorageUrl() != "file:///se/siteA" || first.GetPrefill() != 3 || first.GetLocalityWait().AsDuration() != time.Minute {
		t.Fatalf("a new site takes all settings, whatever the mask: %v", first)
	}
	if same := change(&pb.SiteSettings{}); !proto.Equal(same, first) {
		t.Errorf("an empty mask made %v of %v", same, first)
	}
	want := proto.CloneOf(first)
	want.RemoteRead, want.Prefill, want.Solver, want.Rank, want.Replicate, want.MinConfinement = false, proto.Int32(0), "exact", "rest", "alpha(15)", 1
	if got := change(&pb.SiteSettings{Solver: "exact", Rank: "rest", Replicate: "alpha(15)", MinConfinement: 1}, "solver", "rank", "replicate", "min_confinement"); got.GetSolver() != "exact" || got.GetRank() != "rest" {
		t.Errorf("got %v, want %v", got, want)
	}
	if got := change(&pb.SiteSettings{Prefill: proto.Int32(0)}, "remote_read", "prefill"); !proto.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	want.LocalityWait = durationpb.New(0)
	if got := change(&pb.SiteSettings{LocalityWait: durationpb.New(0)}, "locality_wait"); !proto.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	want.StorageUrl, want.Reach, want.RoundPeriod = "file:///other", nil, nil
	got := change(&pb.SiteSettings{StorageUrl: "file:///other"}, "storage_url", "reach", "round_period", "mode")
	if got.GetRoundPeriod().AsDuration() != 0 || got.GetStorageUrl() != want.GetStorageUrl() || len(got.GetReach()) != 0 {
		t.Errorf("got %v, want %v", got, want)
	}
	_, err := q.admin().AddSite(q.ctx, &pb.AddSiteRequest{
		Settings: &pb.SiteSettings{Name: "siteA"}, UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"draining"}},
	})
	wantRefusal(t, err, codes.InvalidArgument, "INVALID")
}

func TestRemovedSiteLeavesNothingOpen(t *testing.T) {
	q := start(t)
	q.addSite("siteA")
	q.addSite("siteB")
	file := filepath.Join(q.dir, "access", "pilot-siteB.json")
	if _, err := os.Stat(file); err != nil {
		t.Fatal(err)
	}
	q.join("siteA")
	_, err := q.admin().RemoveSite(q.ctx, &pb.RemoveSiteRequest{Name: "siteA"})
	wantRefusal(t, err, codes.Aborted, "CONFLICT")
	token := q.dial(q.access("pilot-siteB").Token, nil)
	if _, err := q.admin().RemoveSite(q.ctx, &pb.RemoveSiteRequest{Name: "siteB"}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(file); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the access file of the removed site is there: %v", err)
	}
	_, err = token.Register(q.ctx, &pb.RegisterRequest{})
	wantRefusal(t, err, codes.Unauthenticated, "ACCESS_REVOKED")
	_, err = q.admin().GetSite(q.ctx, &pb.GetSiteRequest{Name: "siteB"})
	wantRefusal(t, err, codes.NotFound, "NOT_FOUND")
	q.addSite("siteB") // and it can be added anew, with an access that opens
	q.join("siteB")
}

// Uploads go to the sites that get tasks; a drained one can still be named.
func TestUploadsSkipDrainedSites(t *testing.T) {
	q := start(t)
	q.addSite("siteA")
	q.addSite("siteB")
	if _, err := q.admin().DrainSite(q.ctx, &pb.DrainSiteRequest{Name: "siteB"}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		named []string
		want  string
	}{{nil, "siteA"}, {[]string{"siteB"}, "siteB"}} {
		plan, err := q.submit().PlanUpload(q.ctx, &pb.PlanUploadRequest{Sites: c.named})
		if err != nil || len(plan.GetTargets()) != 1 || plan.GetTargets()[0].GetSite() != c.want {
			t.Errorf("named %v: %v, %v; want %s", c.named, plan, err, c.want)
		}
	}
}

// TestPilotsWithTooFewWallsAreRefused by the minimum of their site and of the VO.
func TestPilotsWithTooFewWallsAreRefused(t *testing.T) {
	q := start(t)
	q.addSite("siteA")
	if _, err := q.admin().AddSite(q.ctx, &pb.AddSiteRequest{Settings: &pb.SiteSettings{Name: "siteA", MinConfinement: 2}, UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"min_confinement"}}}); err != nil {
		t.Fatal(err)
	}
	key, err := identity.NewPilotKey()
	if err != nil {
		t.Fatal(err)
	}
	request, pilots := registration(t, "siteA", key), q.dial(q.access("pilot-siteA").Token, nil)
	request.Confinement, request.Walls, request.Sandbox = 1, []string{"files"}, "no namespaces: sysctl user.max_user_namespaces=15000 brings them"
	_, err = pilots.Register(q.ctx, request)
	wantRefusal(t, err, codes.PermissionDenied, "REFUSED")
	if text := err.Error(); !strings.Contains(text, "takes pilots that confine payloads by NAMESPACES at least, and host node has LANDLOCK (files): no namespaces: sysctl") {
		t.Error(text)
	}
	request.Confinement = 2
	if _, err = pilots.Register(q.ctx, request); err != nil {
		t.Fatal(err)
	}
	reply, err := q.submit().ListPilots(q.ctx, &pb.ListPilotsRequest{Site: "siteA"})
	listed := reply.GetPilots()
	if err != nil || len(listed) != 1 || listed[0].GetConfinement() != 2 || len(listed[0].GetWalls()) != 1 {
		t.Errorf("listed: %v, %v", listed, err)
	}
}
