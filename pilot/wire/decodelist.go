package wire

import (
	"github.com/pilotage-grid/pilotage/matcher"
	"github.com/pilotage-grid/pilotage/pilot/message"
	pb "github.com/pilotage-grid/pilotage/proto/pilotage/v1"
	"github.com/pilotage-grid/pilotage/task"
)

func (c *check) taskList(m *pb.RoundTaskList) message.TaskList {
	return message.TaskList{
		Delta: matcher.ListDelta{
			Base: c.version(m.GetBase()), Version: c.version(m.GetVersion()),
			Classes: list(c, "task_list.classes", m.GetClasses(), maxClasses, c.class),
			Add:     list(c, "task_list.add", m.GetAdd(), maxTasks, c.entry),
			Remove:  list(c, "task_list.remove", m.GetRemove(), maxRemoved, func(no uint64) uint64 { return no }),
			DropClasses: list(c, "task_list.drop_classes", m.GetDropClasses(), maxClasses,
				func(no uint32) uint32 { return no }),
		},
		Census: m.GetCensus(), Copies: m.GetCopies(), Ask: list(c, "task_list.ask", m.GetAsk(), maxFiles, c.key),
	}
}

func (c *check) snapshot(m *pb.RoundSnapshot) message.Snapshot {
	return message.Snapshot{List: matcher.ListSnapshot{
		Version: c.version(m.GetVersion()),
		Rates: matcher.Rates{
			Peer: m.GetRates().GetPeer(), SE: m.GetRates().GetSe(), Remote: m.GetRates().GetRemote(),
			PerFile: m.GetRates().GetPerFile().AsDuration(),
		},
		Classes: list(c, "snapshot.classes", m.GetClasses(), maxClasses, c.class),
		Entries: list(c, "snapshot.entries", m.GetEntries(), maxTasks, c.entry),
	}}
}

func (c *check) version(v *pb.RoundVersion) matcher.ListVersion {
	return matcher.ListVersion{Term: c.term(v.GetTerm()), N: v.GetNumber()}
}

func (c *check) class(m *pb.RoundClass) matcher.ListClass {
	return matcher.ListClass{No: m.GetNumber(), Class: task.Class{
		Require: c.text("class.require", m.GetRequire(), task.MaxExpression),
		Rank:    c.text("class.rank", m.GetRank(), task.MaxExpression), Resources: c.resources("class.resources", m.GetResources()),
	}}
}

func (c *check) entry(m *pb.RoundEntry) *matcher.ListEntry {
	described := c.task("entry.task", m.GetTask())
	return &matcher.ListEntry{
		No: m.GetNumber(), Version: m.GetVersion(), Class: m.GetClass(), Task: &described,
		Files: list(c, "entry.files", m.GetFiles(), task.MaxInputs, c.listedFile),
	}
}

func (c *check) listedFile(m *pb.RoundFile) matcher.FileInfo {
	file := matcher.FileInfo{LFN: c.lfn(m.GetLfn()), Size: task.Bytes(m.GetSizeBytes()), Source: task.Source(m.GetSource() - 1)}
	if s := m.GetSource(); s < pb.ReadSource_READ_SOURCE_LOCAL || s > pb.ReadSource_READ_SOURCE_REMOTE {
		c.fail("entry.files.source %d is unknown", s)
	}
	if m.GetSizeBytes() < -1 {
		c.fail("entry.files.size_bytes is %d", m.GetSizeBytes())
	}
	if len(m.GetKey()) == 0 {
		file.Key = task.KeyOf(file.LFN, task.Digest{})
	} else {
		file.Key = c.key(m.GetKey())
	}
	return file
}

func (c *check) key(data []byte) task.FileKey {
	if len(data) > 0 && data[0] == digestKey {
		var digest task.Digest
		if len(data) != 1+len(digest) {
			c.fail("a file's key has %d bytes of a digest, want %d", len(data)-1, len(digest))
			return ""
		}
		copy(digest[:], data[1:])
		return task.KeyOf("", digest)
	}
	return task.FileKey(c.text("a file's key", string(data), maxKey))
}

func (c *check) row(m *pb.RoundRow) matcher.Row {
	return matcher.Row{
		Pilot: task.PilotID(c.text("row.pilot", m.GetPilot(), maxName)), Version: c.version(m.GetVersion()),
		Classes:    list(c, "row.classes", m.GetClasses(), maxClasses, c.classAnswer),
		Exceptions: c.exceptions(m.GetExceptions()),
		Files:      list(c, "row.files", m.GetFiles(), maxFiles, c.key),
	}
}

func (c *check) rowUpdate(m *pb.RoundRowUpdate) matcher.RowUpdate {
	c.length("row_update.clear", len(m.GetClear()), maxRemoved)
	return matcher.RowUpdate{
		Pilot: task.PilotID(c.text("row_update.pilot", m.GetPilot(), maxName)),
		Base:  c.version(m.GetBase()), Version: c.version(m.GetVersion()),
		Classes: list(c, "row_update.classes", m.GetClasses(), maxClasses, c.classAnswer),
		Set:     c.exceptions(m.GetSet()), Clear: sums(m.GetClear()),
		Came: list(c, "row_update.came", m.GetCame(), maxFiles, c.key), Left: list(c, "row_update.left", m.GetLeft(), maxFiles, c.key),
	}
}

func (c *check) classAnswer(m *pb.RoundClassAnswer) matcher.ClassAnswer {
	return matcher.ClassAnswer{
		Class: m.GetClass(), Feasible: m.GetFeasible(), FailedClause: c.text("failed_clause", m.GetFailedClause(), task.MaxExpression),
		Base: m.GetBase(), PerTask: m.GetPerTask(),
	}
}

func (c *check) exceptions(m *pb.RoundExceptions) []matcher.Exception {
	n := len(m.GetNumbers())
	c.length("exceptions.numbers", n, maxTasks)
	if len(m.GetRanks()) != n || len(m.GetFailed()) != 0 && len(m.GetFailed()) != n {
		c.fail("exceptions: %d numbers, %d ranks, %d failed", n, len(m.GetRanks()), len(m.GetFailed()))
	}
	for _, clause := range m.GetClauses() {
		c.text("exceptions.clauses", clause, task.MaxExpression)
	}
	for _, failed := range m.GetFailed() {
		if int(failed) > len(m.GetClauses()) {
			c.fail("exceptions.failed: clause %d of %d", failed, len(m.GetClauses()))
		}
	}
	if c.err != nil || n == 0 {
		return nil
	}
	numbers := sums(m.GetNumbers())
	out := make([]matcher.Exception, n)
	for i := range out {
		out[i] = matcher.Exception{No: numbers[i], Rank: m.GetRanks()[i]}
		if len(m.GetFailed()) > 0 && m.GetFailed()[i] > 0 {
			out[i].Infeasible, out[i].FailedClause = true, m.GetClauses()[m.GetFailed()[i]-1]
		}
	}
	return out
}
