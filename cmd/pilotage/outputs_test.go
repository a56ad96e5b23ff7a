package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/zeebo/blake3"
	"google.golang.org/grpc"

	"github.com/pilotage-grid/pilotage/cache/storage"
	pb "github.com/pilotage-grid/pilotage/proto/pilotage/v1"
)

// doubted finds one of the copies bad that it is asked about.
type doubted struct{ pb.FileServiceClient }

func (d *doubted) DoubtCopy(_ context.Context, in *pb.DoubtCopyRequest, _ ...grpc.CallOption) (*pb.DoubtCopyResponse, error) {
	return &pb.DoubtCopyResponse{Struck: strings.HasSuffix(in.GetLfn(), ":gone")}, nil
}

// TestOutputsFetchesAllItCan: one copy is gone, one has other bytes, one output is
// not stored yet, one was never made; the others are fetched, and these are named.
func TestOutputsFetchesAllItCan(t *testing.T) {
	element, into := t.TempDir(), t.TempDir()
	var files []*pb.File
	for _, name := range []string{"gone", "a", "damaged", "unstored", "unmade", "z"} {
		path := filepath.Join(element, name)
		digest := blake3.Sum256([]byte(name))
		f := &pb.File{Lfn: "w-abcdefghij:" + name, SizeBytes: int64(len(name)), Digest: digest[:]}
		if name == "unstored" {
			f.Producer = &pb.AttemptId{Task: "w-abcdefghij/t", Generation: 1, Lease: 1, Pilot: "p-a", Counter: 1}
		} else if name != "unmade" {
			f.Replicas = []*pb.Replica{{Site: "siteA", Url: storage.FileURL(path)}}
		}
		files = append(files, f)
		content := name
		if name == "damaged" {
			content = "DAMAGED"
		}
		if name != "gone" {
			if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	var out, said bytes.Buffer
	a := &app{out: &console{stdout: &out, stderr: &said, output: "table"}}
	err := workflowCommands{a}.fetchOutputs(t.Context(), &clients{files: &doubted{}}, files, into, false)
	if err == nil || exitCode(t.Context(), err) != exitUnreachable {
		t.Fatalf("got %v", err)
	}
	for _, words := range []string{"4 of 6 outputs could not be fetched", "gone", "damaged has other bytes", "unstored is nowhere", "unmade was not made",
		"finds the copy at siteA bad, too", "reads the copy at siteA well"} {
		if !strings.Contains(err.Error(), words) {
			t.Errorf("%q is not in %v", words, err)
		}
	}
	entries, err := os.ReadDir(into)
	if err != nil || len(entries) != 2 || !strings.Contains(out.String(), "a ") || !strings.Contains(out.String(), "z ") || strings.Contains(out.String(), "gone") {
		t.Errorf("%v, %v: %s", entries, err, out.String())
	}
}
