package wire_test

import (
	"math"
	"time"

	"pgregory.net/rapid"

	"github.com/pilotage-grid/pilotage/matcher"
	"github.com/pilotage-grid/pilotage/pilot/message"
	"github.com/pilotage-grid/pilotage/task"
)

// The generators fill every field, so that one that is forgotten on the wire
// shows.

func several[T any](t *rapid.T, label string, most int, draw func(*rapid.T) T) []T {
	n := rapid.IntRange(0, most).Draw(t, label)
	if n == 0 {
		return nil
	}
	out := make([]T, n)
	for i := range out {
		out[i] = draw(t)
	}
	return out
}

func yes(t *rapid.T) bool { return rapid.Bool().Draw(t, "yes") }

func text(t *rapid.T) string { return rapid.StringN(0, 12, 60).Draw(t, "text") }

func taskID(t *rapid.T) task.ID {
	return task.ID("w-abcdefghij/" + rapid.StringMatching(`[a-z]{1,5}(\[[0-9]{1,3}\])?`).Draw(t, "task"))
}

func lfn(t *rapid.T) task.LFN {
	return task.LFN("w-abcdefghij:" + rapid.StringMatching(`[a-z]{1,6}(\.[0-9]{1,3})?`).Draw(t, "lfn"))
}

func digest(t *rapid.T) (d task.Digest) {
	if yes(t) {
		copy(d[:], rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(t, "digest"))
	}
	return d
}

func key(t *rapid.T) task.FileKey { return task.KeyOf(lfn(t), digest(t)) }

func lease(t *rapid.T) task.LeaseID { return task.LeaseID(rapid.Uint64().Draw(t, "lease")) }

func number(t *rapid.T) int { return rapid.IntRange(0, 1000).Draw(t, "number") }

func amount(t *rapid.T) task.Bytes {
	return task.Bytes(rapid.Int64Range(0, math.MaxInt64).Draw(t, "bytes"))
}

func size(t *rapid.T) task.Bytes { return task.Bytes(rapid.Int64Min(-1).Draw(t, "size")) }

func span(t *rapid.T) time.Duration { return time.Duration(rapid.Int64Min(0).Draw(t, "span")) }

func moment(t *rapid.T) time.Time {
	return time.Unix(rapid.Int64Range(1, 4e9).Draw(t, "seconds"), rapid.Int64Range(0, 999_999_999).Draw(t, "nanos")).UTC()
}

func serial(t *rapid.T) uint64 { return rapid.Uint64().Draw(t, "serial") }

func rank(t *rapid.T) float64 { return rapid.Float64().Draw(t, "rank") }

func term(t *rapid.T) task.Term {
	return task.Term{Epoch: rapid.Uint64().Draw(t, "epoch"), Ballot: rapid.Uint64().Draw(t, "ballot"), Peer: "12D3KooWmaster"}
}

func version(t *rapid.T) matcher.ListVersion {
	return matcher.ListVersion{Term: term(t), N: rapid.Uint64().Draw(t, "n")}
}

func attempt(t *rapid.T) task.AttemptID {
	return task.AttemptID{
		Task: taskID(t), Generation: rapid.Uint32().Draw(t, "generation"), Lease: lease(t),
		Pilot: "p-abcdefgh", Counter: rapid.Uint64().Draw(t, "counter"),
	}
}

func resources(t *rapid.T) task.Resources {
	return task.Resources{Cores: number(t), Memory: amount(t), Disk: amount(t)}
}

func class(t *rapid.T) task.Class {
	return task.Class{Require: text(t), Rank: text(t), Resources: resources(t)}
}

func described(t *rapid.T) task.Task {
	c := class(t)
	out := task.Task{
		ID: taskID(t), Shell: text(t), Argv: several(t, "argv", 3, text), Resources: c.Resources, Require: c.Require, Rank: c.Rank,
		Priority: rapid.IntRange(-1000, 1000).Draw(t, "priority"), Retries: number(t), Walltime: span(t),
		Inputs:  several(t, "inputs", 3, func(t *rapid.T) task.Input { return task.Input{LFN: lfn(t), Name: text(t)} }),
		Outputs: several(t, "outputs", 3, func(t *rapid.T) task.Output { return task.Output{LFN: lfn(t), Name: text(t)} }),
	}
	if yes(t) {
		out.Env = map[string]string{"LC_ALL": text(t)}
	}
	return out
}

func file(t *rapid.T) task.File {
	out := task.File{
		LFN: lfn(t), Size: size(t), Digest: digest(t), Adler32: rapid.StringMatching(`([0-9a-f]{8})?`).Draw(t, "adler32"),
		Exec: yes(t), Announced: several(t, "announced", 2, func(t *rapid.T) task.Site { return task.Site(text(t)) }),
		Replicas: several(t, "replicas", 2, func(t *rapid.T) task.Replica { return task.Replica{Site: "siteA", URL: text(t)} }),
	}
	if yes(t) {
		out.Producer = attempt(t)
	}
	return out
}

func outcome(t *rapid.T) task.Outcome {
	return task.Outcome{
		Attempt: attempt(t), Number: number(t), Site: "siteA", OK: yes(t), Failure: task.FailureKind(rapid.IntRange(0, int(task.StorageFailed)).Draw(t, "failure")),
		Reason: text(t), ExitCode: rapid.IntRange(-1, 255).Draw(t, "exit"), Signal: text(t),
		Usage: task.Usage{UserCPU: span(t), SystemCPU: span(t), MaxMemory: amount(t)},
		Outputs: several(t, "outputs", 2, func(t *rapid.T) task.Produced {
			return task.Produced{LFN: lfn(t), Size: amount(t), Digest: digest(t), Exec: yes(t), URL: text(t)}
		}),
		Reads: several(t, "reads", 2, func(t *rapid.T) task.Read {
			return task.Read{
				LFN: lfn(t), Size: amount(t), Digest: digest(t), Source: task.Source(rapid.IntRange(0, 3).Draw(t, "source")),
				Intermediate: yes(t), Producer: attempt(t),
			}
		}),
		Stdout: rapid.SliceOfN(rapid.Byte(), 1, 9).Draw(t, "stdout"), Stderr: rapid.SliceOfN(rapid.Byte(), 1, 9).Draw(t, "stderr"),
		StageIn: span(t), Run: span(t), Started: moment(t), Ended: moment(t), Delay: time.Duration(rapid.Int64Min(-1).Draw(t, "delay")),
	}
}

func stored(t *rapid.T) task.Stored {
	return task.Stored{LFN: lfn(t), Attempt: attempt(t), URL: text(t), Size: amount(t), Digest: digest(t)}
}

func handOut(t *rapid.T) task.Lease {
	return task.Lease{
		ID: lease(t), TTL: span(t), Files: several(t, "files", 2, file),
		Tasks: several(t, "tasks", 2, func(t *rapid.T) task.LeasedTask {
			return task.LeasedTask{
				Avoid: several(t, "avoid", 2, text),
				Task:  described(t), Generation: rapid.Uint32().Draw(t, "generation"), Number: number(t),
				Age: rapid.Uint64().Draw(t, "age"), Blocked: yes(t),
			}
		}),
	}
}

func listClass(t *rapid.T) matcher.ListClass {
	return matcher.ListClass{No: rapid.Uint32().Draw(t, "class"), Class: class(t)}
}

func entry(t *rapid.T) *matcher.ListEntry {
	all := described(t)
	listed := task.Task{ID: all.ID, Resources: all.Resources, Priority: all.Priority, Walltime: all.Walltime, Bound: all.Bound}
	return &matcher.ListEntry{
		No: rapid.Uint64().Draw(t, "no"), Version: rapid.Uint64().Draw(t, "version"), Class: rapid.Uint32().Draw(t, "class"), Task: &listed,
		Files: several(t, "files", 3, func(t *rapid.T) matcher.FileInfo {
			name := lfn(t)
			known := task.KeyOf(name, digest(t))
			if rapid.IntRange(0, 9).Draw(t, "foreign key") == 0 {
				known = "b3:NOTHEX"
			}
			return matcher.FileInfo{Key: known, LFN: name, Size: size(t), Source: task.Source(rapid.IntRange(0, 3).Draw(t, "source"))}
		}),
	}
}

func exception(t *rapid.T) matcher.Exception {
	e := matcher.Exception{No: rapid.Uint64().Draw(t, "no")}
	if yes(t) {
		e.Infeasible = true
		e.FailedClause = rapid.SampledFrom([]string{"", "pilot.memory > 5", "pilot.cores > 1"}).Draw(t, "clause")
	} else {
		e.Rank = rank(t)
	}
	return e
}

func classAnswer(t *rapid.T) matcher.ClassAnswer {
	return matcher.ClassAnswer{
		Class: rapid.Uint32().Draw(t, "class"), Feasible: yes(t), FailedClause: text(t), Base: rank(t), PerTask: yes(t),
	}
}

func row(t *rapid.T) matcher.Row {
	return matcher.Row{
		Pilot: "p-abcdefgh", Version: version(t), Classes: several(t, "classes", 3, classAnswer),
		Exceptions: several(t, "exceptions", 5, exception), Files: several(t, "files", 3, key),
	}
}

func rowUpdate(t *rapid.T) matcher.RowUpdate {
	return matcher.RowUpdate{
		Pilot: "p-abcdefgh", Base: version(t), Version: version(t), Classes: several(t, "classes", 3, classAnswer),
		Set: several(t, "set", 5, exception), Clear: several(t, "clear", 5, func(t *rapid.T) uint64 { return rapid.Uint64().Draw(t, "no") }),
		Came: several(t, "came", 3, key), Left: several(t, "left", 3, key),
	}
}

func state(t *rapid.T) message.State {
	return message.State{
		Pilot: matcher.Pilot{
			ID: "p-abcdefgh", Site: "siteA", Host: text(t), Resources: resources(t), Slots: number(t),
			Features: several(t, "features", 2, text), Arch: text(t), OS: text(t), Load: rank(t), Lifetime: span(t),
		},
		Peer: "12D3KooWpeer", Status: status(t), List: version(t),
		InHand: several(t, "in hand", 3, func(t *rapid.T) message.InHand {
			return message.InHand{
				Attempt: attempt(t), Number: number(t), Started: yes(t), Ended: yes(t), Prefill: yes(t), Need: resources(t),
			}
		}),
		Copies: several(t, "copies", 2, handOut), CopyFiles: several(t, "files", 2, file), CopiesAge: span(t),
	}
}

func status(t *rapid.T) message.Status {
	return message.Status{
		Number: serial(t), Seen: serial(t), Draining: yes(t), Stopped: text(t), Cache: cacheReport(t),
		Outcomes: several(t, "outcomes", 2, outcome), Stored: several(t, "stored", 2, stored), Gone: several(t, "gone", 2, file), Stays: yes(t),
	}
}

func cacheReport(t *rapid.T) message.CacheReport {
	return message.CacheReport{Capacity: amount(t), Used: amount(t), Evictions: rapid.Uint64().Draw(t, "evictions"), Damaged: rapid.Uint64().Draw(t, "damaged")}
}

func report(t *rapid.T) message.Report {
	out := message.Report{
		Status: status(t),
		Starts: several(t, "starts", 2, func(t *rapid.T) task.Start {
			return task.Start{Attempt: attempt(t), Number: number(t), Started: moment(t), Process: number(t)}
		}),
		Ended: several(t, "ended", 2, attempt),
		Returned: several(t, "returned", 2, func(t *rapid.T) message.Handback {
			return message.Handback{Task: taskID(t), Lease: lease(t), Reason: text(t), Missing: several(t, "missing", 2, file)}
		}),
		Updates: several(t, "updates", 2, rowUpdate),
		SEReads: several(t, "reads", 2, func(t *rapid.T) task.SERead {
			return task.SERead{Owner: "siteB", Files: rapid.Uint64().Draw(t, "files"), Bytes: amount(t)}
		}),
		WantList: yes(t),
		Retracts: several(t, "retracts", 2, func(t *rapid.T) message.RetractAnswer {
			return message.RetractAnswer{Task: taskID(t), Lease: lease(t), Retracted: yes(t)}
		}),
		Leaves: several(t, "leaves", 2, file),
		BadCopies: several(t, "bad", 2, func(t *rapid.T) task.LostFile {
			return task.LostFile{LFN: lfn(t), Digest: digest(t), URL: text(t), Reason: text(t)}
		}),
		Kept: several(t, "kept", 2, func(t *rapid.T) message.KeptAnswer {
			return message.KeptAnswer{Output: outputID(t), Failure: text(t), Away: rapid.Bool().Draw(t, "away")}
		}),
		Replicated: several(t, "replicated", 2, func(t *rapid.T) message.ReplicatedAnswer {
			return message.ReplicatedAnswer{Key: key(t), Copied: yes(t), Bytes: amount(t), Failure: text(t)}
		}),
	}
	if yes(t) {
		whole := row(t)
		out.Row = &whole
	}
	return out
}

func outputID(t *rapid.T) task.OutputID { return task.OutputID{Attempt: attempt(t), LFN: lfn(t)} }

func answer(t *rapid.T) message.Answer {
	out := message.Answer{Pilot: "p-abcdefgh", Peer: "12D3KooWpeer", Have: several(t, "have", 3, key)}
	if yes(t) {
		update := rowUpdate(t)
		out.Update = &update
	}
	if yes(t) {
		whole := state(t)
		out.State = &whole
	}
	return out
}

func assignment(t *rapid.T) message.Assignment {
	out := message.Assignment{
		Task: described(t), Lease: lease(t), Generation: rapid.Uint32().Draw(t, "generation"), Number: number(t),
		Prefill: yes(t), Waited: span(t),
	}
	for range out.Task.Inputs {
		out.Files = append(out.Files, file(t))
	}
	return out
}

// kinds draw a message of each kind.
var kinds = map[string]func(*rapid.T) message.Message{
	"TaskList": func(t *rapid.T) message.Message {
		return message.TaskList{
			Delta: matcher.ListDelta{
				Base: version(t), Version: version(t), Classes: several(t, "classes", 2, listClass), Add: several(t, "add", 3, entry),
				Remove:      several(t, "remove", 3, func(t *rapid.T) uint64 { return rapid.Uint64().Draw(t, "no") }),
				DropClasses: several(t, "drop", 3, func(t *rapid.T) uint32 { return rapid.Uint32().Draw(t, "no") }),
			},
			Census: yes(t), Copies: yes(t), Ask: several(t, "ask", 3, key),
		}
	},
	"Answer": func(t *rapid.T) message.Message { return answer(t) },
	"State":  func(t *rapid.T) message.Message { return state(t) },
	"Report": func(t *rapid.T) message.Message { return report(t) },
	"Snapshot": func(t *rapid.T) message.Message {
		return message.Snapshot{List: matcher.ListSnapshot{
			Version: version(t), Rates: matcher.Rates{Peer: rank(t), SE: rank(t), Remote: rank(t), PerFile: span(t)},
			Classes: several(t, "classes", 2, listClass), Entries: several(t, "entries", 3, entry),
		}}
	},
	"Assign": func(t *rapid.T) message.Message {
		return message.Assign{Term: term(t), Serial: serial(t), Tasks: several(t, "tasks", 3, assignment)}
	},
	"Retract": func(t *rapid.T) message.Message {
		return message.Retract{Term: term(t), Task: taskID(t), Lease: lease(t)}
	},
	"Kill": func(t *rapid.T) message.Message {
		return message.Kill{Term: term(t), Task: taskID(t), Lease: lease(t), Reason: text(t)}
	},
	"Acks": func(t *rapid.T) message.Message {
		return message.Acks{
			Stored: several(t, "stored", 3, outputID), Relieved: several(t, "relieved", 2, outputID),
			Acks: several(t, "acks", 3, func(t *rapid.T) task.Ack {
				return task.Ack{
					Attempt: attempt(t), Winner: attempt(t),
					Verdict: task.AckVerdict(rapid.IntRange(int(task.AckAccepted), int(task.AckUnknown)).Draw(t, "verdict")),
				}
			}),
		}
	},
	"Want": func(t *rapid.T) message.Message {
		return message.Want{Term: term(t), Serial: serial(t), State: yes(t), Copies: yes(t), Row: yes(t)}
	},
	"KeepCopy": func(t *rapid.T) message.Message {
		return message.KeepCopy{
			Term: term(t), Whole: yes(t), Leases: several(t, "leases", 2, handOut), Drop: several(t, "drop", 2, lease),
			Gone:  several(t, "gone", 2, func(t *rapid.T) message.LeasedID { return message.LeasedID{Lease: lease(t), Task: taskID(t)} }),
			Files: several(t, "files", 2, file),
		}
	},
	"StoreOrder": func(t *rapid.T) message.Message { return message.StoreOrder{File: file(t)} },
	"Replicate": func(t *rapid.T) message.Message {
		return message.Replicate{Term: term(t), Files: several(t, "files", 3, file), Drops: several(t, "drops", 2, file)}
	},
	"DrainOrder": func(t *rapid.T) message.Message { return message.DrainOrder{Reason: text(t)} },
}
