package worker_test

import (
	"testing"

	"github.com/pilotage-grid/pilotage/pilot/message"
	"github.com/pilotage-grid/pilotage/pilot/worker"
	"github.com/pilotage-grid/pilotage/task"
)

// A successor is staged in when its input is published, and reads it as what
// that attempt has made at this site: else its read counts as one of an external
// file.
func TestASuccessorReadsWhatItsPilotHasMade(t *testing.T) {
	b := newWorkerBench(t)
	const file task.LFN = "w-aaaaaaaaaa:x" // that the tasks of this bench make
	maker := b.running("a", 1)
	reader := message.Assignment{
		Task: task.Task{ID: id("b"), Shell: "true", Resources: task.Resources{Cores: 1, Memory: task.MiB},
			Inputs: []task.Input{{LFN: file, Name: "x"}}},
		Lease: 7, Generation: 1, Number: 1, Files: []task.File{{LFN: file, Size: -1}}, Prefill: true,
	}
	said := message.Assign{Term: firstTerm, Serial: 2, Tasks: []message.Assignment{reader}}
	if staging := all[worker.StageIn](b.do(worker.FromMaster{From: "m1", Message: said})); len(staging) > 0 {
		t.Fatalf("an input that does not exist is staged in: %+v", staging)
	}
	outcome := task.Outcome{OK: true, Delay: -1}
	b.do(worker.PayloadEnded{Attempt: maker, Outcome: outcome})
	staging := all[worker.StageIn](b.do(worker.Published{
		Attempt: maker, Outcome: outcome, Outputs: []task.Produced{{LFN: file, Size: 3, Digest: digestOf("x")}},
	}))
	if len(staging) != 1 || len(staging[0].Files) != 1 {
		t.Fatalf("when its input is there, %d successors are staged in", len(staging))
	}
	read := staging[0].Files[0]
	if read.Producer != maker || len(read.Announced) != 1 || read.Announced[0] != siteName || read.Digest != digestOf("x") || read.Size != 3 {
		t.Errorf("it reads %+v, made by %v", read, maker)
	}
	if said.Tasks[0].Files[0].Size != -1 {
		t.Error("the master's message was changed")
	}
}
