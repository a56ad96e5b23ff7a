package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	pb "github.com/pilotage-grid/pilotage/proto/pilotage/v1"
)

// knownFiles is a file service that knows some files.
type knownFiles struct {
	pb.FileServiceClient
	known map[string]bool
	fail  error
	calls int
}

func (k *knownFiles) LocateFile(_ context.Context, in *pb.LocateFileRequest, _ ...grpc.CallOption) (*pb.LocateFileResponse, error) {
	k.calls++
	if k.fail != nil || k.known[in.GetLfn()] {
		return &pb.LocateFileResponse{}, k.fail
	}
	return nil, status.Error(codes.NotFound, "no")
}

func catalogueOf(t *testing.T, files *knownFiles) *catalogue {
	t.Helper()
	conn, err := grpc.NewClient("passthrough:nowhere", grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	c := testApp().openCatalogue(t.Context())
	c.connect = func() (*clients, error) { return &clients{conn: conn, files: files}, nil }
	t.Cleanup(c.close)
	return c
}

// An unknown shared file is told with its place in the workflow file.
func TestUnknownSharedFileHasItsPlace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "unk.yaml")
	text := "apiVersion: pilotage/v1\nkind: Workflow\nname: unk\ntasks:\n  a:\n    inputs: [\"vo:there\", \"vo:xx\"]\n    shell: 'true'\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	f := &submitFlags{file: path}
	_, err := f.plan(nil, catalogueOf(t, &knownFiles{known: map[string]bool{"vo:there": true}}).has)
	if err == nil || !strings.Contains(err.Error(), path+":6:26:") || !strings.Contains(err.Error(), "vo:xx") || strings.Contains(err.Error(), "shared file vo:there") {
		t.Errorf("got %v", err)
	}
	// What cannot be looked up is left to the queue.
	away := &knownFiles{fail: errAway}
	if _, err := f.plan(nil, catalogueOf(t, away).has); err != nil || away.calls == 0 {
		t.Errorf("with the queue away: %v after %d calls", err, away.calls)
	}
	many := &knownFiles{}
	c := catalogueOf(t, many)
	for range 2 {
		for _, name := range strings.Split(strings.Repeat("x", catalogueLookups*2), "") {
			c.has("vo:" + name)
		}
	}
	if many.calls != 1 {
		t.Errorf("one name was looked up %d times", many.calls)
	}
}

func TestFilesThatOneStorageElementHasAlone(t *testing.T) {
	file := func(sites ...string) *pb.File {
		f := &pb.File{}
		for _, site := range sites {
			f.Replicas = append(f.Replicas, &pb.Replica{Site: site})
		}
		return f
	}
	for _, c := range []struct {
		file *pb.File
		want bool
	}{{file(), false}, {file("a"), true}, {file("a", "a"), true}, {file("a", "b"), false}, {file("b"), false}} {
		if got := storedOnlyAt(c.file, "a"); got != c.want {
			t.Errorf("%v: %v, want %v", c.file, got, c.want)
		}
	}
}
