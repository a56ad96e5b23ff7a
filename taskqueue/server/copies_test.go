package server_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	pb "github.com/pilotage-grid/pilotage/proto/pilotage/v1"
	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/task/taskpb"
	"github.com/pilotage-grid/pilotage/taskqueue"
	"github.com/pilotage-grid/pilotage/taskqueue/server"
)

// folders is a Finder of one storage element, which is away at first.
type folders struct {
	deletions
	found map[string][]string
	asked int
}

func (f *folders) Find(context.Context, string, string, task.Bytes, task.Digest) (string, error) {
	return "", server.ErrNotThere
}

func (f *folders) List(_ context.Context, element, folder string, _ int) ([]string, error) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	if f.asked++; f.asked < 3 {
		return nil, errors.New("it is away")
	}
	if names, there := f.found[element+" "+folder]; there {
		return names, nil
	}
	return nil, server.ErrNotThere
}

// What a pilot has stored that died before anybody told of its attempt is found by its
// name when its workflow is over, and deleted.
func TestUntoldCopiesAreDeleted(t *testing.T) {
	storage := &folders{found: make(map[string][]string)}
	q := start(t, quickRules(func(c *taskqueue.Config) {
		c.Lease.TTL, c.Site.Pilot.AbsentAfter, c.Workflow.TickEvery = 100*time.Millisecond, 100*time.Millisecond, 10*time.Millisecond
	}), func(c *serverConfig) {
		c.Deleter, c.Finder, c.Timing.Garbage = storage, storage, 5*time.Millisecond
	})
	q.addSite("here")
	p := q.join("here")
	one := single("one")
	one.Tasks = []*pb.Task{taskpb.Task(task.Task{
		ID: "/t", Argv: []string{"true"}, Resources: task.Resources{Cores: 1, Memory: task.MiB, Disk: task.MiB}, Walltime: time.Minute,
		Outputs: []task.Output{{LFN: "x", Name: "x"}},
	})}
	id := q.mustSubmit(one)
	reply, err := p.Sync(q.ctx, p.report(0))
	if err != nil || len(reply.GetLeases()) != 1 {
		t.Fatalf("leases %v, %v", reply.GetLeases(), err)
	}
	won := p.outcome(reply.GetLeases()[0], 0)
	storage.mutex.Lock()
	storage.found["file:///se/here "+id+"/t"] = []string{fmt.Sprintf("g1-l%d-%s-1/", reply.GetLeases()[0].GetId(), p.id), "g1-l1-p-aaaaaaaa-7/", "data"}
	storage.mutex.Unlock()
	last := p.report(0, reply.GetLeases()...)
	last.Outcomes = append(last.Outcomes, won)
	if reply, err = p.Sync(q.ctx, last); err != nil || len(reply.GetAcks()) != 1 {
		t.Fatalf("acknowledged %v, %v", reply.GetAcks(), err)
	}
	q.eventually("the copy that nobody told is deleted", func() bool { // the site falls silent
		storage.mutex.Lock()
		defer storage.mutex.Unlock()
		return len(storage.done) > 0
	})
	asked := storage.asked
	for range 20 {
		<-time.After(5 * time.Millisecond)
	}
	q.stop()
	if len(storage.done) != 1 || storage.done[0] != "file:///se/here "+id+"/t/g1-l1-p-aaaaaaaa-7/x" {
		t.Errorf("deleted %v", storage.done)
	}
	if storage.asked > asked {
		t.Errorf("a workflow that is tidy was looked at %d times more", storage.asked-asked)
	}
}

// deletions is a Deleter that fails for one storage element.
type deletions struct {
	mutex sync.Mutex
	done  []string
	tries int
}

func (d *deletions) Delete(_ context.Context, element, name string) error {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	if element == "file:///se/away" {
		d.tries++
		return errors.New("the storage element is away")
	}
	d.done = append(d.done, element+" "+name)
	return nil
}

// Losers' copies are deleted; one that cannot be is tried again and holds up
// nobody; what is not on its site's storage element is left alone.
func TestGarbageIsDeleted(t *testing.T) {
	deleter := &deletions{}
	q := start(t, func(c *serverConfig) { c.Deleter, c.Timing.Garbage = deleter, 5*time.Millisecond })
	q.addSite("away")
	q.addSite("here")
	err := q.server.Store().Update(q.ctx, func(tx taskqueue.Tx) error {
		return tx.Files().AddGarbage(
			task.Replica{Site: "away", URL: "file:///se/away/a"}, task.Replica{Site: "here", URL: "file:///etc/passwd"},
			task.Replica{Site: "gone", URL: "file:///se/gone/x"}, task.Replica{Site: "here", URL: "file:///se/here/w/b"})
	})
	if err != nil {
		t.Fatal(err)
	}
	q.eventually("the copy is deleted and the other tried again", func() bool {
		deleter.mutex.Lock()
		defer deleter.mutex.Unlock()
		return deleter.tries > 2 && len(deleter.done) > 0
	})
	q.stop()
	if len(deleter.done) != 1 || deleter.done[0] != "file:///se/here w/b" {
		t.Errorf("deleted %v", deleter.done)
	}
}

// Workflows that are deleted leave copies by the thousand: they all go in one round.
func TestMuchGarbageIsDeletedInOneRound(t *testing.T) {
	deleter := &deletions{}
	q := start(t, func(c *serverConfig) { c.Deleter, c.Timing.Garbage = deleter, patience/10 })
	q.addSite("here")
	const copies = 2_345 // at most ten rounds pass in the time that is waited
	err := q.server.Store().Update(q.ctx, func(tx taskqueue.Tx) error {
		for i := range copies {
			if err := tx.Files().AddGarbage(task.Replica{Site: "here", URL: fmt.Sprintf("file:///se/here/w/%d", i)}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	q.eventually("all are deleted", func() bool {
		deleter.mutex.Lock()
		defer deleter.mutex.Unlock()
		return len(deleter.done) == copies
	})
}
