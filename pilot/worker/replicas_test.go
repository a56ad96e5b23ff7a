package worker_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/pilot/message"
	"github.com/pilotage-grid/pilotage/pilot/worker"
	"github.com/pilotage-grid/pilotage/task"
)

// A worker makes two copies at a time, takes an order once, and refuses what
// it has no room for.
func TestAWorkerMakesCopies(t *testing.T) {
	b := newWorkerBench(t)
	b.do(worker.SiteChanged{Settings: task.SiteSettings{Site: siteName, SiteScheduling: task.SiteScheduling{Replicate: "alpha(2)"}}})
	b.do(worker.CacheChanged{Cache: message.CacheReport{Capacity: 8 * task.MiB}})
	var files []task.File
	for i := range 6 {
		files = append(files, task.File{LFN: name(fmt.Sprint("f", i)), Size: task.MiB, Digest: digestOf(fmt.Sprint("f", i))})
	}
	order := worker.FromMaster{From: "m1", Message: message.Replicate{Term: firstTerm, Files: files, Drops: files[5:]}}
	actions := b.do(order)
	if began := all[worker.CopyIn](actions); len(began) != 2 || began[0].File.LFN != files[0].LFN {
		t.Errorf("%d copies are begun: %+v", len(began), began)
	}
	if dropped := all[worker.DropCopy](actions); len(dropped) != 1 {
		t.Errorf("%d files are dropped", len(dropped))
	}
	b.now = b.now.Add(time.Second)
	answers := func(actions []message.Action) (answers []message.ReplicatedAnswer) {
		for _, report := range told[message.Report](actions) {
			answers = append(answers, report.Replicated...)
		}
		return answers
	}
	if got := answers(b.do(message.Tick{})); len(got) != 2 || got[0].Failure == "" || got[0].Key != files[4].Key() {
		t.Errorf("of 6 MiB into half of 8 the answers are %+v", got)
	}
	if began := all[worker.CopyIn](b.do(worker.FromMaster{From: "m1", Message: message.Replicate{Term: firstTerm, Files: files[:4]}})); len(began) != 0 {
		t.Errorf("told again, it begins %+v", began)
	}
	next := b.do(worker.CopiedIn{File: files[0], Copied: true, Bytes: task.MiB})
	if began := all[worker.CopyIn](next); len(began) != 1 || began[0].File.LFN != files[2].LFN {
		t.Errorf("after the first it begins %+v", began)
	}
	b.now = b.now.Add(time.Second)
	want := []message.ReplicatedAnswer{{Key: files[0].Key(), Copied: true, Bytes: task.MiB}}
	if got := answers(b.do(message.Tick{})); !slices.Equal(got, want) {
		t.Errorf("the master hears %+v, want %+v", got, want)
	}
	b.do(worker.Drain{Reason: "its lifetime ends"})
	b.do(worker.FromMaster{From: "m1", Message: message.Replicate{Term: firstTerm, Files: files[4:5]}})
	b.now = b.now.Add(time.Second)
	if got := answers(b.do(message.Tick{})); len(got) != 1 || got[0].Failure == "" {
		t.Errorf("a leaving pilot answers %+v", got)
	}
}
