package server_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"google.golang.org/grpc/codes"

	pb "github.com/pilotage-grid/pilotage/proto/pilotage/v1"
	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
	"github.com/pilotage-grid/pilotage/taskqueue/server"
)

// answer is a Finder that says the same of every copy.
type answer struct{ err error }

func (a *answer) List(context.Context, string, string, int) ([]string, error) {
	return nil, server.ErrNotListed
}

func (a *answer) Find(_ context.Context, element, name string, _ task.Bytes, _ task.Digest) (string, error) {
	return element + "/" + name, a.err
}

// A user's word strikes a copy only where the queue sees the same.
func TestUsersAloneStrikeNoCopy(t *testing.T) {
	finder := &answer{}
	q := start(t, func(c *serverConfig) { c.Finder = finder })
	q.addSite("A")
	const url = "file:///se/A/w-a/t/g1-l1-p-1/o"
	err := q.server.Store().Update(q.ctx, func(tx taskqueue.Tx) error {
		file := taskqueue.FileRecord{ProducerTask: "w-a/t"}
		file.LFN, file.Producer = "w-a:o", task.AttemptID{Task: "w-a/t", Generation: 1, Lease: 1, Pilot: "p", Counter: 1}
		file.Replicas = []task.Replica{{Site: "A", URL: url}, {Site: "A", URL: "file:///etc/passwd"}}
		return tx.Files().Save(file)
	})
	if err != nil {
		t.Fatal(err)
	}
	files := q.submit()
	doubt := func(url string) (*pb.DoubtCopyResponse, error) {
		return files.DoubtCopy(q.ctx, &pb.DoubtCopyRequest{Lfn: "w-a:o", Url: url})
	}
	if out, err := doubt(url); err != nil || out.GetStruck() || out.GetReason() != "" {
		t.Errorf("a good copy: %v, %v", out, err)
	}
	finder.err = errors.New("it is away")
	if out, err := doubt(url); err != nil || out.GetStruck() || out.GetReason() != "it is away" {
		t.Errorf("a storage element that does not answer: %v, %v", out, err)
	}
	finder.err = fmt.Errorf("%w: other bytes", server.ErrNotThere)
	if out, err := doubt("file:///etc/passwd"); err != nil || out.GetStruck() || out.GetReason() == "" {
		t.Errorf("a copy elsewhere: %v, %v", out, err)
	}
	if out, err := doubt(url); err != nil || !out.GetStruck() {
		t.Errorf("a bad copy: %v, %v", out, err)
	}
	_, err = doubt(url)
	wantRefusal(t, err, codes.NotFound, "NOT_FOUND")
}
