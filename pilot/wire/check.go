package wire

import (
	"fmt"
	"math"

	pb "github.com/pilotage-grid/pilotage/proto/pilotage/v1"
	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/task/taskpb"
)

// check translates a message and keeps the first thing that is wrong with it.
type check struct{ err error }

func (c *check) fail(format string, arguments ...any) {
	if c.err == nil {
		c.err = fmt.Errorf(format, arguments...)
	}
}

func (c *check) length(field string, length, most int) {
	if length > most {
		c.fail("%s has %d items, at most %d", field, length, most)
	}
}

// list translates a list, unless it is too long or something was wrong before.
func list[A, B any](c *check, field string, items []A, most int, translate func(A) B) []B {
	c.length(field, len(items), most)
	if c.err != nil {
		return nil
	}
	return each(items, translate)
}

func (c *check) text(field, text string, most int) string {
	if len(text) > most {
		c.fail("%s has %d bytes, at most %d", field, len(text), most)
	}
	return text
}

func (c *check) lfn(name string) task.LFN { return task.LFN(c.text("lfn", name, maxLFN)) }

func (c *check) number(field string, number int32, most int) int {
	if number < 0 || int(number) > most {
		c.fail("%s is %d, from 0 to %d are allowed", field, number, most)
	}
	return int(number)
}

func (c *check) bytes(field string, amount uint64) task.Bytes {
	if amount > math.MaxInt64 {
		c.fail("%s is %d, at most %d", field, amount, int64(math.MaxInt64))
	}
	return task.Bytes(amount)
}

func (c *check) resources(field string, r *pb.Resources) task.Resources {
	resources := taskpb.FromResources(r)
	if err := resources.Validate(); err != nil {
		c.fail("%s: %w", field, err)
	}
	return resources
}

func (c *check) term(t *pb.Term) task.Term {
	c.text("term.peer", t.GetPeer(), maxPeer)
	return taskpb.FromTerm(t)
}

func (c *check) attempt(id *pb.AttemptId) task.AttemptID {
	c.text("attempt.task", id.GetTask(), maxName)
	c.text("attempt.pilot", id.GetPilot(), maxName)
	return taskpb.FromAttemptID(id)
}

func (c *check) outputID(id *pb.RoundOutputId) task.OutputID {
	return task.OutputID{Attempt: c.attempt(id.GetAttempt()), LFN: c.lfn(id.GetLfn())}
}

func (c *check) task(field string, in *pb.Task) task.Task {
	c.text(field+".id", in.GetId(), maxName)
	c.length(field+".argv", len(in.GetArgv()), task.MaxArgv)
	c.length(field+".env", len(in.GetEnv()), task.MaxEnv)
	c.text(field+".require", in.GetRequire(), task.MaxExpression)
	c.text(field+".rank", in.GetRank(), task.MaxExpression)
	c.resources(field+".resources", in.GetResources())
	described, err := taskpb.FromTask(in)
	if err != nil {
		c.fail("%s: %w", field, err)
	}
	for _, input := range described.Inputs {
		c.lfn(string(input.LFN))
		c.text(field+".inputs.name", input.Name, maxLFN)
	}
	for _, output := range described.Outputs {
		c.lfn(string(output.LFN))
		c.text(field+".outputs.name", output.Name, maxLFN)
	}
	return described
}

func (c *check) file(in *pb.File) task.File {
	c.lfn(in.GetLfn())
	c.attempt(in.GetProducer())
	c.length("file.announced", len(in.GetAnnounced()), maxReplicas)
	c.length("file.replicas", len(in.GetReplicas()), maxReplicas)
	c.text("file.adler32", in.GetAdler32(), 8)
	if in.GetSizeBytes() < -1 {
		c.fail("file.size_bytes of %s is %d", in.GetLfn(), in.GetSizeBytes())
	}
	for _, replica := range in.GetReplicas() {
		c.text("file.replicas.url", replica.GetUrl(), maxURL)
	}
	file, err := taskpb.FromFile(in)
	if err != nil {
		c.fail("%w", err)
	}
	return file
}

func (c *check) badCopy(in *pb.LostFile) task.LostFile {
	c.lfn(in.GetLfn())
	c.text("bad_copies.url", in.GetUrl(), maxURL)
	c.text("bad_copies.reason", in.GetReason(), maxReason)
	lost, err := taskpb.FromLostFile(in)
	if err != nil {
		c.fail("%w", err)
	}
	return lost
}

func (c *check) leases(in []*pb.Lease) []task.Lease {
	c.length("leases", len(in), maxLeases)
	for _, lease := range in {
		c.length("leases.tasks", len(lease.GetTasks()), maxTasks)
		c.length("leases.files", len(lease.GetFiles()), maxFiles)
		if c.err != nil {
			return nil
		}
		for _, leased := range lease.GetTasks() {
			c.number("leases.tasks.number", leased.GetNumber(), maxAttempts)
			c.task("leases.tasks.task", leased.GetTask())
		}
		for _, file := range lease.GetFiles() {
			c.file(file)
		}
	}
	if c.err != nil {
		return nil
	}
	leases, err := taskpb.FromLeases(in)
	if err != nil {
		c.fail("leases: %w", err)
	}
	return leases
}

func (c *check) outcomes(in []*pb.Outcome) []task.Outcome {
	c.length("outcomes", len(in), maxOutcomes)
	for _, outcome := range in {
		c.attempt(outcome.GetAttempt())
		c.number("outcomes.number", outcome.GetNumber(), maxAttempts)
		c.text("outcomes.reason", outcome.GetReason(), maxReason)
		c.text("outcomes.signal", outcome.GetSignal(), maxName)
		c.length("outcomes.outputs", len(outcome.GetOutputs()), task.MaxOutputs)
		c.length("outcomes.reads", len(outcome.GetReads()), task.MaxInputs)
	}
	if c.err != nil {
		return nil
	}
	outcomes, err := taskpb.FromOutcomes(in)
	if err != nil {
		c.fail("outcomes: %w", err)
	}
	return outcomes
}

func (c *check) stored(in []*pb.Stored) []task.Stored {
	c.length("stored", len(in), maxFiles)
	for _, stored := range in {
		c.lfn(stored.GetLfn())
		c.attempt(stored.GetAttempt())
		c.text("stored.url", stored.GetUrl(), maxURL)
	}
	if c.err != nil {
		return nil
	}
	files, err := taskpb.FromStoredList(in)
	if err != nil {
		c.fail("stored: %w", err)
	}
	return files
}

func (c *check) starts(in []*pb.Start) []task.Start {
	c.length("starts", len(in), maxTasks)
	for _, start := range in {
		c.attempt(start.GetAttempt())
		c.number("starts.number", start.GetNumber(), maxAttempts)
	}
	if c.err != nil {
		return nil
	}
	return taskpb.FromStarts(in)
}

func (c *check) storageReads(in []*pb.StorageReads) []task.SERead {
	c.length("storage_reads", len(in), maxOwners)
	for _, read := range in {
		c.text("storage_reads.owner", read.GetOwner(), maxName)
		c.bytes("storage_reads.bytes", read.GetBytes())
	}
	if c.err != nil {
		return nil
	}
	return taskpb.FromStorageReads(in)
}
