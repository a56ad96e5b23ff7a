package storetest

import (
	"maps"
	"slices"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

var callNames = slices.Sorted(maps.Keys(calls))

// calls draw one random call each, by name.
var calls = map[string]func(*draws) step{
	"abort": func(d *draws) step {
		really := d.number() == 0
		return nothing(func(taskqueue.Tx) error {
			if really {
				return errAbort
			}
			return nil
		})
	},
	"set": func(d *draws) step {
		name, value := one(d, "name", someValues...), one(d, "value", "", "1", "22")
		return nothing(func(tx taskqueue.Tx) error { return tx.Meta().Set(name, []byte(value)) })
	},
	"next": func(d *draws) step {
		name, n := one(d, "counter", someValues...), uint64(d.number())
		return func(tx taskqueue.Tx) (any, error) { return tx.Meta().Next(name, n) }
	},
	"save workflow": call(taskqueue.Tx.Workflows, taskqueue.WorkflowTable.Save, just(func(d *draws) taskqueue.Workflow {
		return taskqueue.Workflow{ID: d.flow(), Key: one(d, "key", someKeys...), Name: one(d, "name", someKeys...), Owner: one(d, "owner", someKeys...), Parts: d.number(),
			WorkflowRetention: taskqueue.WorkflowRetention{SecondLook: one(d, "second look", taskqueue.Instant(0), 1, 2, 3)}}
	})),
	"delete workflow": call(taskqueue.Tx.Workflows, taskqueue.WorkflowTable.Delete, someOf("workflows", someFlows)),
	"add tasks":       addTasks, "add more tasks": addTasks, "add still more tasks": addTasks,
	"save tasks": saveTasks, "save more tasks": saveTasks, "save still more tasks": saveTasks,
	"delete tasks": func(d *draws) step {
		id, page := d.flow(), 1+d.number()
		return nothing(func(tx taskqueue.Tx) error { return deleteWorkflow(tx, id, page) })
	},
	"page": func(d *draws) step {
		id, after, limit, states := d.flow(), uint64(d.number()), d.number(), some(d, "states", task.States()...)
		return func(tx taskqueue.Tx) (any, error) { return tx.Tasks().InWorkflow(id, after, limit, states...) }
	},
	"ready": func(d *draws) step {
		class, now, limit := one(d, "class", someClasses...), taskqueue.Instant(d.number()), d.number()
		return func(tx taskqueue.Tx) (any, error) { return tx.Tasks().ReadyIn(class, now, limit) }
	},
	"pausing": func(d *draws) step {
		now, limit := taskqueue.Instant(d.number()), d.number()
		return func(tx taskqueue.Tx) (any, error) { return tx.Tasks().Pausing(now, limit) }
	},
	"ready of": func(d *draws) step {
		quotas := make(map[taskqueue.ClassID]int)
		for _, class := range some(d, "classes", someClasses...) {
			quotas[class] = d.number()
		}
		now, limit := taskqueue.Instant(d.number()), d.number()
		return func(tx taskqueue.Tx) (any, error) {
			found, _, err := tx.Tasks().ReadyOf(quotas, now, limit, 1<<30)
			return found, err
		}
	},
	"ready before": func(d *draws) step {
		class, priority, seq := one(d, "class", someClasses...), d.number()%3-1, uint64(d.number())
		return func(tx taskqueue.Tx) (any, error) { return tx.Tasks().ReadyBefore(class, priority, seq) }
	},
	"classes": func(*draws) step {
		return func(tx taskqueue.Tx) (any, error) { return tx.Tasks().ReadyClasses() }
	},
	"save file": func(d *draws) step {
		record := file(one(d, "file", someFiles...), slices.Compact(slices.Sorted(slices.Values(some(d, "announced", someSites...)))))
		if d.number()%2 == 0 {
			record.Replicas = []task.Replica{d.replica()}
		}
		return nothing(func(tx taskqueue.Tx) error { return tx.Files().Save(record) })
	},
	"delete files": call(taskqueue.Tx.Files, taskqueue.FileTable.Delete, someOf("files", someFiles)),
	"list files": func(d *draws) step {
		prefix, after, limit := one(d, "prefix", "", "vo", "vo:a", "w-aaaaaaaaaa:"), one(d, "after", append(someFiles, "")...), d.number()
		return func(tx taskqueue.Tx) (any, error) { return tx.Files().List(prefix, after, limit) }
	},
	"add uses": func(d *draws) step {
		reader, names := d.task(), some(d, "files", someFiles...)
		return nothing(func(tx taskqueue.Tx) error { return tx.Files().AddUses(reader, names...) })
	},
	"save class": func(d *draws) step {
		class := taskqueue.Eligibility{ID: one(d, "class", someClasses...), Sites: some(d, "sites", someSites...)}
		return nothing(func(tx taskqueue.Tx) error { return tx.Files().SaveClass(class) })
	},
	"drop classes": call(taskqueue.Tx.Files, taskqueue.FileTable.DropClasses, someOf("classes", someClasses)),
	"add garbage":  call(taskqueue.Tx.Files, taskqueue.FileTable.AddGarbage, just((*draws).replica)),
	"drop garbage": call(taskqueue.Tx.Files, taskqueue.FileTable.DropGarbage, just((*draws).replica)),
	"save attempt": call(taskqueue.Tx.Attempts, taskqueue.AttemptTable.Save, just((*draws).attempt)),
	"save log": func(d *draws) step {
		id, out := d.attempt().Outcome.Attempt, one(d, "log", "", "out")
		return nothing(func(tx taskqueue.Tx) error { return tx.Attempts().SaveLog(id, []byte(out), nil) })
	},
	"load attempts": func(d *draws) step {
		a, b := d.attempt().Outcome.Attempt, d.attempt().Outcome.Attempt
		return func(tx taskqueue.Tx) (any, error) { return tx.Attempts().Load(a, b) }
	},
	"save lease": call(taskqueue.Tx.Leases, taskqueue.LeaseTable.Save, just(func(d *draws) taskqueue.Lease {
		return taskqueue.Lease{
			ID: one(d, "lease", someLeases...), Site: d.site(), Expires: taskqueue.Instant(d.number()), Open: d.number(),
			Pilot: one(d, "holder", "", somePilots[0], somePilots[1]),
		}
	})),
	"delete leases": call(taskqueue.Tx.Leases, taskqueue.LeaseTable.Delete, someOf("leases", someLeases)),
	"expired": func(d *draws) step {
		now := taskqueue.Instant(d.number())
		return func(tx taskqueue.Tx) (any, error) { return tx.Leases().ExpiredBy(now) }
	},
	"revoke":  call(taskqueue.Tx.Leases, taskqueue.LeaseTable.Revoke, just((*draws).revocation)),
	"confirm": call(taskqueue.Tx.Leases, taskqueue.LeaseTable.Confirm, just((*draws).revocation)),
	"save usage": call(taskqueue.Tx.Usage, taskqueue.UsageTable.Save, just(func(d *draws) taskqueue.Usage {
		return taskqueue.Usage{UsageKey: one(d, "usage", someUsages...), Tasks: uint64(d.number())}
	})),
	"load usage": func(d *draws) step {
		keys := some(d, "usages", someUsages...)
		return func(tx taskqueue.Tx) (any, error) { return tx.Usage().Load(keys...) }
	},
	"save site": call(taskqueue.Tx.Sites, taskqueue.SiteTable.Save, just(func(d *draws) taskqueue.SiteRecord {
		return taskqueue.SiteRecord{Name: d.site(), SiteMembers: taskqueue.SiteMembers{Pilots: d.number()}}
	})),
	"delete site": call(taskqueue.Tx.Sites, taskqueue.SiteTable.Delete, someOf("sites", someSites)),
	"save pilot": call(taskqueue.Tx.Pilots, taskqueue.PilotTable.Save, just(func(d *draws) taskqueue.PilotRecord {
		return taskqueue.PilotRecord{
			ID: one(d, "pilot", somePilots...), Peer: one(d, "peer", somePeers...), Site: d.site(),
			State: taskqueue.PilotState(1 + d.number()%4), PilotDescription: taskqueue.PilotDescription{Slots: d.number()},
		}
	})),
	"delete pilots": call(taskqueue.Tx.Pilots, taskqueue.PilotTable.Delete, someOf("pilots", somePilots)),
	"list pilots": func(d *draws) step {
		after, limit := one(d, "after", append(somePilots, "")...), d.number()
		return func(tx taskqueue.Tx) (any, error) { return tx.Pilots().List(after, limit) }
	},
	"save grant": call(taskqueue.Tx.Grants, taskqueue.GrantTable.Save, just(func(d *draws) taskqueue.Grant {
		return taskqueue.Grant{ID: one(d, "grant", someGrants...), Revoked: d.number()%2 == 0}
	})),
	"delete grants": call(taskqueue.Tx.Grants, taskqueue.GrantTable.Delete, someOf("grants", someGrants)),
	"append to audit": func(d *draws) step {
		record := taskqueue.AuditRecord{At: uint64(1 + d.number()), Entries: []taskqueue.AuditEntry{{Kind: one(d, "kind", someKeys...)}}}
		return nothing(func(tx taskqueue.Tx) error { return tx.Audit().Append(record) })
	},
	"delete from audit": func(d *draws) step {
		at := uint64(1 + d.number())
		return nothing(func(tx taskqueue.Tx) error { return tx.Audit().Delete(at) })
	},
	"audit after": func(d *draws) step {
		after, limit := uint64(d.number()), d.number()
		return func(tx taskqueue.Tx) (any, error) { return tx.Audit().After(after, limit) }
	},
}

// call draws what a write of a table gets.
func call[T, A any](table func(taskqueue.Tx) T, write func(T, ...A) error, draw func(*draws) []A) func(*draws) step {
	return func(d *draws) step {
		drawn := draw(d)
		return nothing(func(tx taskqueue.Tx) error { return write(table(tx), drawn...) })
	}
}

func just[A any](draw func(*draws) A) func(*draws) []A {
	return func(d *draws) []A { return []A{draw(d)} }
}

func someOf[A any](what string, choices []A) func(*draws) []A {
	return func(d *draws) []A { return some(d, what, choices...) }
}

func addTasks(d *draws) step {
	var states []taskqueue.TaskState
	for range 1 + d.number()%3 {
		id := d.task()
		if d.known[id] && d.number() > 0 { // now and then one that is there
			continue
		}
		d.known[id] = true
		state := d.state(id)
		d.seq++
		state.Seq = d.seq ^ 5 // not in the order of adding, but never twice
		states = append(states, state)
	}
	return nothing(func(tx taskqueue.Tx) error { return add(tx, states...) })
}

func saveTasks(d *draws) step {
	var states []taskqueue.TaskState
	for range 1 + d.number()%3 {
		id := d.task()
		if !d.known[id] && d.number() > 0 { // now and then one that is not
			continue
		}
		states = append(states, d.state(id))
	}
	return nothing(func(tx taskqueue.Tx) error { return tx.Tasks().Save(states...) })
}
