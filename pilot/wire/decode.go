package wire

import (
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/pilotage-grid/pilotage/matcher"
	"github.com/pilotage-grid/pilotage/pilot/message"
	pb "github.com/pilotage-grid/pilotage/proto/pilotage/v1"
	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/task/taskpb"
)

// Decode reads a message that came from another pilot. Errors wrap
// ErrMalformed and name the field and its limit.
func Decode(data []byte) (message.Message, error) {
	if len(data) > MaxMessage {
		return nil, fmt.Errorf("%w: %d bytes, at most %d", ErrMalformed, len(data), MaxMessage)
	}
	var envelope pb.RoundMessage
	if err := proto.Unmarshal(data, &envelope); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	var c check
	m := c.message(&envelope)
	if c.err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMalformed, c.err)
	}
	return m, nil
}

func (c *check) message(envelope *pb.RoundMessage) message.Message {
	switch body := envelope.GetBody().(type) {
	case *pb.RoundMessage_TaskList:
		return c.taskList(body.TaskList)
	case *pb.RoundMessage_Answer:
		return c.answer(body.Answer)
	case *pb.RoundMessage_State:
		return c.state(body.State)
	case *pb.RoundMessage_Report:
		return c.report(body.Report)
	case *pb.RoundMessage_Snapshot:
		return c.snapshot(body.Snapshot)
	case nil:
		c.fail("no body that this version knows")
		return nil
	default:
		return c.order(envelope)
	}
}

// order reads what a master tells a worker to do.
func (c *check) order(envelope *pb.RoundMessage) message.Message {
	switch body := envelope.GetBody().(type) {
	case *pb.RoundMessage_Assign:
		return message.Assign{
			Term: c.term(body.Assign.GetTerm()), Serial: body.Assign.GetSerial(),
			Tasks: list(c, "assign.tasks", body.Assign.GetTasks(), maxTasks, c.assignment),
		}
	case *pb.RoundMessage_Retract:
		m := body.Retract
		return message.Retract{
			Term: c.term(m.GetTerm()), Task: task.ID(c.text("retract.task", m.GetTask(), maxName)), Lease: task.LeaseID(m.GetLease()),
		}
	case *pb.RoundMessage_Kill:
		m := body.Kill
		return message.Kill{
			Term: c.term(m.GetTerm()), Task: task.ID(c.text("kill.task", m.GetTask(), maxName)), Lease: task.LeaseID(m.GetLease()),
			Reason: c.text("kill.reason", m.GetReason(), maxReason),
		}
	case *pb.RoundMessage_Acks:
		return message.Acks{
			Acks:     c.acks(body.Acks.GetAcks()),
			Stored:   list(c, "acks.stored", body.Acks.GetStored(), maxFiles, c.outputID),
			Relieved: list(c, "acks.relieved", body.Acks.GetRelieved(), maxFiles, c.outputID),
		}
	case *pb.RoundMessage_Want:
		m := body.Want
		return message.Want{
			Term: c.term(m.GetTerm()), Serial: m.GetSerial(), State: m.GetState(), Copies: m.GetCopies(), Row: m.GetRow(),
		}
	case *pb.RoundMessage_KeepCopy:
		return c.keepCopy(body.KeepCopy)
	case *pb.RoundMessage_StoreOrder:
		return message.StoreOrder{File: c.file(body.StoreOrder.GetFile())}
	case *pb.RoundMessage_Replicate:
		m := body.Replicate
		return message.Replicate{
			Term: c.term(m.GetTerm()), Files: list(c, "replicate.files", m.GetFiles(), maxFiles, c.file),
			Drops: list(c, "replicate.drops", m.GetDrops(), maxFiles, c.file),
		}
	case *pb.RoundMessage_DrainOrder:
		return message.DrainOrder{Reason: c.text("drain_order.reason", body.DrainOrder.GetReason(), maxReason)}
	}
	c.fail("a body %T that this version does not know", envelope.GetBody())
	return nil
}

func (c *check) keepCopy(m *pb.RoundKeepCopy) message.KeepCopy {
	return message.KeepCopy{
		Term: c.term(m.GetTerm()), Whole: m.GetWhole(), Leases: c.leases(m.GetLeases()),
		Drop: list(c, "keep_copy.drop", m.GetDrop(), maxFiles, func(id uint64) task.LeaseID { return task.LeaseID(id) }),
		Gone: list(c, "keep_copy.gone", m.GetGone(), maxRemoved, func(id *pb.RoundLeasedId) message.LeasedID {
			return message.LeasedID{Lease: task.LeaseID(id.GetLease()), Task: task.ID(c.text("gone.task", id.GetTask(), maxName))}
		}),
		Files: list(c, "keep_copy.files", m.GetFiles(), maxFiles, c.file),
	}
}

func (c *check) answer(m *pb.RoundAnswer) message.Answer {
	out := message.Answer{
		Pilot: task.PilotID(c.text("answer.pilot", m.GetPilot(), maxName)),
		Peer:  task.PeerID(c.text("answer.peer", m.GetPeer(), maxPeer)),
		Have:  list(c, "answer.have", m.GetHave(), maxFiles, c.key),
	}
	if m.GetUpdate() != nil {
		update := c.rowUpdate(m.GetUpdate())
		out.Update = &update
	}
	if m.GetState() != nil {
		state := c.state(m.GetState())
		out.State = &state
	}
	return out
}

func (c *check) state(m *pb.RoundState) message.State {
	p := m.GetPilot()
	return message.State{
		Pilot: matcher.Pilot{
			ID:        task.PilotID(c.text("state.pilot.id", p.GetId(), maxName)),
			Site:      task.Site(c.text("state.pilot.site", p.GetSite(), maxName)),
			Host:      c.text("state.pilot.host", p.GetHost(), maxName),
			Resources: c.resources("state.pilot.resources", p.GetResources()),
			Slots:     c.number("state.pilot.slots", p.GetSlots(), maxSlots),
			Features: list(c, "state.pilot.features", p.GetFeatures(), maxFeatures, func(feature string) string {
				return c.text("state.pilot.features", feature, maxFeature)
			}),
			Arch: c.text("state.pilot.arch", p.GetArch(), maxName), OS: c.text("state.pilot.os", p.GetOs(), maxName),
			Load: p.GetLoad(), Lifetime: p.GetLifetime().AsDuration(),
		},
		Peer: task.PeerID(c.text("state.peer", m.GetPeer(), maxPeer)), Draining: m.GetDraining(),
		Stopped:  c.text("state.stopped", m.GetStopped(), maxReason),
		InHand:   list(c, "state.in_hand", m.GetInHand(), maxTasks, c.inHand),
		Outcomes: c.outcomes(m.GetOutcomes()), Stored: c.stored(m.GetStored()), Copies: c.leases(m.GetCopies()),
		Gone:      list(c, "state.gone", m.GetGone(), maxFiles, c.file),
		CopyFiles: list(c, "state.copy_files", m.GetCopyFiles(), maxFiles, c.file), CopiesAge: m.GetCopiesAge().AsDuration(),
		Cache: c.cacheReport(m.GetCache()), Number: m.GetNumber(), Seen: m.GetSeen(), List: c.version(m.GetList()),
	}
}

func (c *check) inHand(m *pb.RoundInHand) message.InHand {
	return message.InHand{
		Attempt: c.attempt(m.GetAttempt()), Number: c.number("in_hand.number", m.GetNumber(), maxAttempts),
		Started: m.GetStarted(), Ended: m.GetEnded(), Prefill: m.GetPrefill(), Need: c.resources("in_hand.need", m.GetNeed()),
	}
}

func (c *check) cacheReport(m *pb.RoundCache) message.CacheReport {
	return message.CacheReport{
		Capacity: c.bytes("cache.capacity_bytes", m.GetCapacityBytes()), Used: c.bytes("cache.used_bytes", m.GetUsedBytes()),
		Evictions: m.GetEvictions(), Damaged: m.GetDamaged(),
	}
}

func (c *check) report(m *pb.RoundReport) message.Report {
	out := message.Report{
		Number: m.GetNumber(), Seen: m.GetSeen(), Starts: c.starts(m.GetStarts()), Ended: list(c, "report.ended", m.GetEnded(), maxTasks, c.attempt),
		Outcomes: c.outcomes(m.GetOutcomes()), Stored: c.stored(m.GetStored()),
		Returned: list(c, "report.returned", m.GetReturned(), maxTasks, func(h *pb.RoundHandback) message.Handback {
			return message.Handback{
				Task:  task.ID(c.text("returned.task", h.GetTask(), maxName)),
				Lease: task.LeaseID(h.GetLease()), Reason: c.text("returned.reason", h.GetReason(), maxReason),
				Missing: list(c, "returned.missing", h.GetMissing(), task.MaxInputs, c.file),
			}
		}),
		Updates: list(c, "report.updates", m.GetUpdates(), maxUpdates, c.rowUpdate), Cache: c.cacheReport(m.GetCache()),
		SEReads: c.storageReads(m.GetStorageReads()), Draining: m.GetDraining(), WantList: m.GetWantList(),
		Stopped: c.text("report.stopped", m.GetStopped(), maxReason),
		Retracts: list(c, "report.retracts", m.GetRetracts(), maxTasks, func(a *pb.RoundRetractAnswer) message.RetractAnswer {
			return message.RetractAnswer{
				Task: task.ID(c.text("retracts.task", a.GetTask(), maxName)), Lease: task.LeaseID(a.GetLease()), Retracted: a.GetRetracted(),
			}
		}),
		Leaves:    list(c, "report.leaves", m.GetLeaves(), maxFiles, c.file),
		Gone:      list(c, "report.gone", m.GetGone(), maxFiles, c.file),
		BadCopies: list(c, "report.bad_copies", m.GetBadCopies(), maxFiles, c.badCopy),
		Kept: list(c, "report.kept", m.GetKept(), maxFiles, func(k *pb.RoundKept) message.KeptAnswer {
			return message.KeptAnswer{Output: c.outputID(k.GetOutput()), Failure: c.text("kept.failure", k.GetFailure(), maxReason), Away: k.GetAway()}
		}),
		Replicated: list(c, "report.replicated", m.GetReplicated(), maxFiles, func(r *pb.RoundReplicated) message.ReplicatedAnswer {
			return message.ReplicatedAnswer{
				Key: c.key(r.GetKey()), Copied: r.GetCopied(), Bytes: c.bytes("replicated.bytes", r.GetBytes()),
				Failure: c.text("replicated.failure", r.GetFailure(), maxReason),
			}
		}),
	}
	if m.GetRow() != nil {
		row := c.row(m.GetRow())
		out.Row = &row
	}
	return out
}

func (c *check) assignment(m *pb.RoundAssignment) message.Assignment {
	a := message.Assignment{
		Task: c.task("assign.task", m.GetTask()), Lease: task.LeaseID(m.GetLease()), Generation: m.GetGeneration(),
		Number: c.number("assign.number", m.GetNumber(), maxAttempts),
		Files:  list(c, "assign.files", m.GetFiles(), task.MaxInputs, c.file), Prefill: m.GetPrefill(),
		Waited: m.GetWaited().AsDuration(),
	}
	if len(a.Files) != len(a.Task.Inputs) {
		c.fail("assign.files: %d for %d inputs of %s", len(a.Files), len(a.Task.Inputs), a.Task.ID)
	}
	return a
}

func (c *check) acks(list []*pb.Ack) []task.Ack {
	c.length("acks", len(list), maxOutcomes)
	for _, ack := range list {
		c.attempt(ack.GetAttempt())
		c.attempt(ack.GetWinner())
		if v := ack.GetVerdict(); v < pb.AckVerdict_ACK_VERDICT_ACCEPTED || v > pb.AckVerdict_ACK_VERDICT_UNKNOWN {
			c.fail("acks.verdict %d is unknown", v)
		}
	}
	if c.err != nil {
		return nil
	}
	return taskpb.FromAcks(list)
}
