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
	"save workflow": func(d *draws) step {
		workflow := taskqueue.Workflow{ID: d.flow(), Key: one(d, "key", someKeys...), Name: one(d, "name", someKeys...), Owner: one(d, "owner", someKeys...), Parts: d.number()}
		return nothing(func(tx taskqueue.Tx) error { return tx.Workflows().Save(workflow) })
	},
	"delete workflow": func(d *draws) step {
		ids := some(d, "workflows", someFlows...)
		return nothing(func(tx taskqueue.Tx) error { return tx.Workflows().Delete(ids...) })
	},
	"add tasks": addTasks, "add more tasks": addTasks, "add still more tasks": addTasks,
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
	"delete files": func(d *draws) step {
		names := some(d, "files", someFiles...)
		return nothing(func(tx taskqueue.Tx) error { return tx.Files().Delete(names...) })
	},
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
	"drop classes": func(d *draws) step {
		ids := some(d, "classes", someClasses...)
		return nothing(func(tx taskqueue.Tx) error { return tx.Files().DropClasses(ids...) })
	},
	"add garbage": func(d *draws) step {
		replica := d.replica()
		return nothing(func(tx taskqueue.Tx) error { return tx.Files().AddGarbage(replica) })
	},
	"drop garbage": func(d *draws) step {
		replica := d.replica()
		return nothing(func(tx taskqueue.Tx) error { return tx.Files().DropGarbage(replica) })
	},
	"save attempt": func(d *draws) step {
		saved := d.attempt()
		return nothing(func(tx taskqueue.Tx) error { return tx.Attempts().Save(saved) })
	},
	"save log": func(d *draws) step {
		id, out := d.attempt().Outcome.Attempt, one(d, "log", "", "out")
		return nothing(func(tx taskqueue.Tx) error { return tx.Attempts().SaveLog(id, []byte(out), nil) })
	},
	"load attempts": func(d *draws) step {
		a, b := d.attempt().Outcome.Attempt, d.attempt().Outcome.Attempt
		return func(tx taskqueue.Tx) (any, error) { return tx.Attempts().Load(a, b) }
	},
	"save lease": func(d *draws) step {
		lease := taskqueue.Lease{ID: one(d, "lease", someLeases...), Site: d.site(), Expires: taskqueue.Instant(d.number()), Open: d.number()}
		lease.Pilot = one(d, "holder", "", somePilots[0], somePilots[1])
		return nothing(func(tx taskqueue.Tx) error { return tx.Leases().Save(lease) })
	},
	"delete leases": func(d *draws) step {
		ids := some(d, "leases", someLeases...)
		return nothing(func(tx taskqueue.Tx) error { return tx.Leases().Delete(ids...) })
	},
	"expired": func(d *draws) step {
		now := taskqueue.Instant(d.number())
		return func(tx taskqueue.Tx) (any, error) { return tx.Leases().ExpiredBy(now) }
	},
	"revoke": func(d *draws) step {
		revocation := d.revocation()
		return nothing(func(tx taskqueue.Tx) error { return tx.Leases().Revoke(revocation) })
	},
	"confirm": func(d *draws) step {
		revocation := d.revocation()
		return nothing(func(tx taskqueue.Tx) error { return tx.Leases().Confirm(revocation) })
	},
	"save usage": func(d *draws) step {
		saved := taskqueue.Usage{UsageKey: one(d, "usage", someUsages...), Tasks: uint64(d.number())}
		return nothing(func(tx taskqueue.Tx) error { return tx.Usage().Save(saved) })
	},
	"load usage": func(d *draws) step {
		keys := some(d, "usages", someUsages...)
		return func(tx taskqueue.Tx) (any, error) { return tx.Usage().Load(keys...) }
	},
	"save site": func(d *draws) step {
		site := taskqueue.SiteRecord{Name: d.site(), SiteMembers: taskqueue.SiteMembers{Pilots: d.number()}}
		return nothing(func(tx taskqueue.Tx) error { return tx.Sites().Save(site) })
	},
	"delete site": func(d *draws) step {
		site := d.site()
		return nothing(func(tx taskqueue.Tx) error { return tx.Sites().Delete(site) })
	},
	"save pilot": func(d *draws) step {
		pilot := taskqueue.PilotRecord{
			ID: one(d, "pilot", somePilots...), Peer: one(d, "peer", somePeers...), Site: d.site(),
			State: taskqueue.PilotState(1 + d.number()%4), PilotDescription: taskqueue.PilotDescription{Slots: d.number()},
		}
		return nothing(func(tx taskqueue.Tx) error { return tx.Pilots().Save(pilot) })
	},
	"delete pilots": func(d *draws) step {
		ids := some(d, "pilots", somePilots...)
		return nothing(func(tx taskqueue.Tx) error { return tx.Pilots().Delete(ids...) })
	},
	"list pilots": func(d *draws) step {
		after, limit := one(d, "after", append(somePilots, "")...), d.number()
		return func(tx taskqueue.Tx) (any, error) { return tx.Pilots().List(after, limit) }
	},
	"save grant": func(d *draws) step {
		grant := taskqueue.Grant{ID: one(d, "grant", someGrants...), Revoked: d.number()%2 == 0}
		return nothing(func(tx taskqueue.Tx) error { return tx.Grants().Save(grant) })
	},
	"delete grants": func(d *draws) step {
		ids := some(d, "grants", someGrants...)
		return nothing(func(tx taskqueue.Tx) error { return tx.Grants().Delete(ids...) })
	},
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
