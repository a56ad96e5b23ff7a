package wire

import (
	"fmt"
	"math"

	"github.com/pilotage-grid/pilotage/internal/codec"
	"github.com/pilotage-grid/pilotage/pilot/message"
	"github.com/pilotage-grid/pilotage/task"
)

// MaxMessage is the largest message in bytes: what the overlay carries before
// compression.
const MaxMessage = 32 << 20

// maxItems is what all lists of a message have together.
const maxItems = 2_000_000

const (
	maxName  = 512              // bytes of an id: a workflow and a task name with its index
	maxLFN   = task.MaxLFN + 16 // with its workflow
	maxTasks = 50_000           // of a list, a hand-out, a pilot
)

// limits are what a message must keep to: by type, and by field where one is
// narrower or wider than its type.
var limits = map[string]codec.Range{
	"text": codec.UpTo(64 << 10), // reasons, which may quote a payload
	"list": codec.UpTo(200_000),
	"int":  {Least: math.MinInt32, Most: math.MaxInt32}, // as the queue takes them

	"task.ID": codec.UpTo(maxName), "task.PilotID": codec.UpTo(maxName), "task.Site": codec.UpTo(maxName),
	"task.PeerID": codec.UpTo(128), "task.LFN": codec.UpTo(maxLFN), "task.FileKey": codec.UpTo(maxLFN + 4),
	"task.Bytes": {Least: 0, Most: math.MaxInt64}, "task.Source": codec.UpTo(int(task.SourceRemote)),
	"task.FailureKind": codec.UpTo(int(task.StorageFailed)), "task.AckVerdict": {Least: int64(task.AckAccepted), Most: int64(task.AckUnknown)},

	"task.Task.Argv": codec.UpTo(task.MaxArgv), "task.Task.Argv[]": codec.UpTo(task.MaxArgvBytes), "task.Task.Shell": codec.UpTo(task.MaxArgvBytes),
	"wire.variables.Values[]": codec.UpTo(task.MaxArgvBytes), "wire.variables.Names": codec.UpTo(task.MaxEnv), "task.Task.Inputs": codec.UpTo(task.MaxInputs),
	"task.Task.Outputs": codec.UpTo(task.MaxOutputs), "task.Input.Name": codec.UpTo(maxLFN), "task.Output.Name": codec.UpTo(maxLFN),
	"task.Task.Require": codec.UpTo(task.MaxExpression), "task.Task.Rank": codec.UpTo(task.MaxExpression),
	"task.Class.Require": codec.UpTo(task.MaxExpression), "task.Class.Rank": codec.UpTo(task.MaxExpression),

	"task.File.Size": {Least: -1, Most: math.MaxInt64}, "task.File.Adler32": codec.UpTo(8),
	"task.File.Announced": codec.UpTo(1_000), "task.File.Replicas": codec.UpTo(1_000), "task.Replica.URL": codec.UpTo(4096),
	"task.LostFile.URL": codec.UpTo(4096), "task.Stored.URL": codec.UpTo(4096),

	"task.Outcome.Number": codec.UpTo(1 << 30), "task.Outcome.Signal": codec.UpTo(maxName),
	"task.Outcome.Outputs": codec.UpTo(task.MaxOutputs), "task.Outcome.Reads": codec.UpTo(task.MaxInputs),
	"task.Outcome.Stdout": codec.UpTo(task.LogTail), "task.Outcome.Stderr": codec.UpTo(task.LogTail),
	"task.Outcome.Process": codec.UpTo(math.MaxInt32), "task.Start.Process": codec.UpTo(math.MaxInt32),
	"task.Start.Number": codec.UpTo(1 << 30), "task.Lease.Tasks": codec.UpTo(maxTasks), "task.LeasedTask.Number": codec.UpTo(1 << 30),

	"matcher.ListDelta.Classes": codec.UpTo(maxTasks), "matcher.ListSnapshot.Classes": codec.UpTo(maxTasks),
	"wire.listed.IDs": codec.UpTo(maxTasks), "wire.listed.Inputs[]": codec.UpTo(task.MaxInputs), "wire.listed.Names": codec.UpTo(maxItems),
	"wire.listed.Sizes": codec.UpTo(maxItems), "wire.listed.Sizes[]": {Least: -1, Most: math.MaxInt64},
	"wire.listed.Sources": codec.UpTo(maxItems), "wire.listed.Sources[]": codec.UpTo(int(task.SourceRemote)), "wire.listed.Keys": codec.UpTo(maxItems),
	"wire.columns.Numbers": codec.UpTo(maxTasks), "wire.columns.Clauses[]": codec.UpTo(task.MaxExpression),
	"matcher.Row.Classes": codec.UpTo(maxTasks), "matcher.RowUpdate.Classes": codec.UpTo(maxTasks),
	"matcher.ClassAnswer.FailedClause": codec.UpTo(task.MaxExpression),
	"matcher.Pilot.Host":               codec.UpTo(maxName), "matcher.Pilot.Arch": codec.UpTo(maxName), "matcher.Pilot.OS": codec.UpTo(maxName),
	"matcher.Pilot.Slots": codec.UpTo(1 << 20), "matcher.Pilot.Features": codec.UpTo(256), "matcher.Pilot.Features[]": codec.UpTo(256), "task.Walls.Up": codec.UpTo(256),

	"message.State.InHand": codec.UpTo(maxTasks), "message.Status.Outcomes": codec.UpTo(maxTasks), "message.State.Copies": codec.UpTo(10_000),
	"message.InHand.Number": codec.UpTo(1 << 30), "message.Report.Starts": codec.UpTo(maxTasks), "message.Report.Ended": codec.UpTo(maxTasks),
	"message.Report.Returned": codec.UpTo(maxTasks), "message.Report.Retracts": codec.UpTo(maxTasks),
	"message.Report.Updates": codec.UpTo(10_000), "message.Report.SEReads": codec.UpTo(10_000), "message.Handback.Missing": codec.UpTo(task.MaxInputs),
	"message.Assign.Tasks": codec.UpTo(maxTasks), "message.Assignment.Number": codec.UpTo(1 << 30), "message.Assignment.Files": codec.UpTo(task.MaxInputs),
	"message.Acks.Acks": codec.UpTo(maxTasks), "message.KeepCopy.Leases": codec.UpTo(10_000),
}

func checkResources(r *task.Resources) error { return r.Validate() }

func checkAssignment(a *message.Assignment) error {
	if len(a.Files) != len(a.Task.Inputs) {
		return fmt.Errorf("%d files for %d inputs of %s", len(a.Files), len(a.Task.Inputs), a.Task.ID)
	}
	return nil
}

func checkAck(a *task.Ack) error {
	if a.Verdict == 0 {
		return fmt.Errorf("no verdict")
	}
	return nil
}

func checkOutcome(o *task.Outcome) error {
	_, err := task.ParseID(string(o.Attempt.Task))
	return err
}
