package storetest

import (
	"cmp"
	"slices"
	"strings"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

type (
	modelMeta      modelTx
	modelWorkflows struct {
		*rows[task.WorkflowID, taskqueue.Workflow]
	}
	modelFiles struct {
		*rows[task.LFN, taskqueue.FileRecord]
		in *contents
	}
	modelAttempts struct {
		*rows[task.AttemptID, taskqueue.Attempt]
		in *contents
	}
	modelLeases struct {
		*rows[task.LeaseID, taskqueue.Lease]
		in *contents
	}
	modelSites struct {
		*rows[task.Site, taskqueue.SiteRecord]
	}
	modelPilots struct {
		*rows[task.PilotID, taskqueue.PilotRecord]
	}
	modelGrants struct{ *rows[string, taskqueue.Grant] }
	modelUsage  struct {
		*rows[taskqueue.UsageKey, taskqueue.Usage]
	}
	modelAudit struct {
		*rows[uint64, taskqueue.AuditRecord]
	}
)

func (t modelMeta) Get(name string) ([]byte, error) { return t.values[name], nil }

func (t modelMeta) Set(name string, value []byte) error {
	t.values[name] = value
	if len(value) == 0 {
		delete(t.values, name)
	}
	return nil
}

func (t modelMeta) Next(counter string, n uint64) (uint64, error) {
	before := t.counters[counter] + 1
	t.counters[counter] += n
	return before, nil
}

func (t modelWorkflows) ByKey(key string) (id task.WorkflowID, err error) {
	for _, workflow := range t.all {
		if key != "" && workflow.Key == key {
			id = workflow.ID
		}
	}
	return id, nil
}

func (t modelWorkflows) ToLookAt(by taskqueue.Instant, limit int) (found []taskqueue.Workflow, err error) {
	for _, workflow := range t.all {
		if workflow.SecondLook != 0 && workflow.SecondLook <= by {
			found = append(found, workflow)
		}
	}
	slices.SortStableFunc(found, func(a, b taskqueue.Workflow) int { return cmp.Compare(a.SecondLook, b.SecondLook) })
	return head(found, limit), nil
}

func (t modelWorkflows) List(owner, name string, after task.WorkflowID, limit int) (found []taskqueue.Workflow, err error) {
	seen := after == ""
	for _, workflow := range slices.Backward(t.all) {
		if seen && (name == "" || workflow.Name == name) && (owner == "" || workflow.Owner == owner) {
			found = append(found, workflow)
		}
		seen = seen || workflow.ID == after
	}
	if !seen {
		return nil, taskqueue.ErrWorkflowGone
	}
	return head(found, limit), nil
}

func (t modelFiles) AddUses(reader task.ID, names ...task.LFN) error {
	for _, name := range names {
		_ = t.in.uses.Save(modelUse{name, reader})
	}
	return nil
}

func (t modelFiles) Readers(name task.LFN) (readers []task.ID, err error) {
	for _, use := range t.in.uses.where(func(u modelUse) bool { return u.file == name }) {
		readers = append(readers, use.reader)
	}
	slices.Sort(readers)
	return readers, nil
}

func (t modelFiles) List(prefix string, after task.LFN, limit int) ([]taskqueue.FileRecord, error) {
	return head(sorted(t.where(func(f taskqueue.FileRecord) bool {
		return strings.HasPrefix(string(f.LFN), prefix) && f.LFN > after
	}), lfnOf), limit), nil
}

func (t modelFiles) Foreign(url string) (names []task.LFN, err error) {
	for _, f := range t.where(func(f taskqueue.FileRecord) bool {
		return slices.ContainsFunc(f.Replicas, func(r task.Replica) bool {
			name := task.CopyName(url)
			return name != "" && task.CopyName(r.URL) == name && task.StoredFile(name) != f.LFN
		})
	}) {
		names = append(names, f.LFN)
	}
	slices.Sort(names)
	return names, nil
}

func (t modelFiles) OnlyAnnouncedAt(site task.Site, after task.LFN, limit int) ([]taskqueue.FileRecord, error) {
	return head(sorted(t.where(func(f taskqueue.FileRecord) bool {
		return len(f.Replicas) == 0 && slices.Contains(f.Announced, site) && f.LFN > after
	}), lfnOf), limit), nil
}

func (t modelFiles) Classes() ([]taskqueue.Eligibility, error) {
	return sorted(t.in.classes.where(every), t.in.classes.key), nil
}

func (t modelFiles) SaveClass(class taskqueue.Eligibility) error { return t.in.classes.Save(class) }
func (t modelFiles) DropClasses(ids ...taskqueue.ClassID) error  { return t.in.classes.Delete(ids...) }
func (t modelFiles) AddGarbage(replicas ...task.Replica) error   { return t.in.garbage.Save(replicas...) }
func (t modelFiles) DropGarbage(replicas ...task.Replica) error {
	return t.in.garbage.Delete(replicas...)
}
func (t modelFiles) Garbage(limit int, except ...task.Site) ([]task.Replica, error) {
	return head(t.in.garbage.where(func(r task.Replica) bool { return !slices.Contains(except, r.Site) }), limit), nil
}

func (t modelAttempts) OfTask(id task.ID) ([]taskqueue.Attempt, error) {
	return t.where(func(a taskqueue.Attempt) bool { return a.Outcome.Attempt.Task == id }), nil
}

func (t modelAttempts) RunningAt(pilot task.PilotID) ([]taskqueue.Attempt, error) {
	return t.where(func(a taskqueue.Attempt) bool {
		return a.Outcome.Attempt.Pilot == pilot && a.State == taskqueue.AttemptRunning
	}), nil
}

func (t modelAttempts) SaveLog(id task.AttemptID, stdout, stderr []byte) error {
	return t.in.logs.Save(modelLog{id, stdout, stderr})
}

func (t modelAttempts) LoadLog(id task.AttemptID) (stdout, stderr []byte, err error) {
	for _, log := range t.in.logs.where(func(l modelLog) bool { return l.of == id }) {
		stdout, stderr = log.stdout, log.stderr
	}
	return stdout, stderr, nil
}

func (t modelLeases) listed(holds func(taskqueue.Lease) bool) ([]taskqueue.Lease, error) {
	return sorted(t.where(holds), t.key), nil
}

func (t modelLeases) OfSite(site task.Site) ([]taskqueue.Lease, error) {
	return t.listed(func(l taskqueue.Lease) bool { return l.Site == site })
}

func (t modelLeases) OfPilot(pilot task.PilotID) ([]taskqueue.Lease, error) {
	return t.listed(func(l taskqueue.Lease) bool { return pilot != "" && l.Pilot == pilot })
}

func (t modelLeases) ExpiredBy(now taskqueue.Instant) ([]taskqueue.Lease, error) {
	return t.listed(func(l taskqueue.Lease) bool { return l.Expires <= now })
}

func (t modelLeases) Revocations(site task.Site, leases ...task.LeaseID) ([]taskqueue.Revocation, error) {
	return t.asked(func(r taskqueue.Revocation) bool {
		return r.Site == site && (len(leases) == 0 || slices.Contains(leases, r.Lease))
	})
}

func (t modelLeases) RevocationsOf(pilot task.PilotID) ([]taskqueue.Revocation, error) {
	return t.asked(func(r taskqueue.Revocation) bool { return pilot != "" && r.Pilot == pilot })
}

func (t modelLeases) asked(which func(taskqueue.Revocation) bool) ([]taskqueue.Revocation, error) {
	found := t.in.revoked.where(which)
	slices.SortFunc(found, func(a, b taskqueue.Revocation) int {
		return cmp.Or(cmp.Compare(a.Site, b.Site), cmp.Compare(a.Lease, b.Lease), cmp.Compare(a.Task, b.Task))
	})
	return found, nil
}

func (t modelLeases) Revoke(revocations ...taskqueue.Revocation) error {
	return t.in.revoked.Save(revocations...)
}

func (t modelLeases) Confirm(revocations ...taskqueue.Revocation) error {
	for _, r := range revocations {
		_ = t.in.revoked.Delete(plain(r))
	}
	return nil
}

func (t modelSites) All() ([]taskqueue.SiteRecord, error) { return sorted(t.where(every), t.key), nil }

func (t modelPilots) List(after task.PilotID, limit int) ([]taskqueue.PilotRecord, error) {
	return head(sorted(t.where(func(p taskqueue.PilotRecord) bool { return p.ID > after }), pilotOf), limit), nil
}

func (t modelPilots) OfSite(site task.Site, states ...taskqueue.PilotState) ([]taskqueue.PilotRecord, error) {
	return sorted(t.where(func(p taskqueue.PilotRecord) bool {
		return (site == "" || p.Site == site) && (len(states) == 0 || slices.Contains(states, p.State))
	}), pilotOf), nil
}

func (t modelPilots) IDsOfSite(site task.Site, states ...taskqueue.PilotState) (ids []task.PilotID, err error) {
	found, err := t.OfSite(site, states...)
	for _, pilot := range found {
		ids = append(ids, pilot.ID)
	}
	return ids, err
}

func (t modelPilots) ByPeer(peer task.PeerID) (id task.PilotID, err error) {
	for _, pilot := range t.all {
		if pilot.Peer == peer {
			id = pilot.ID
		}
	}
	return id, nil
}

func (t modelGrants) All() ([]taskqueue.Grant, error) { return sorted(t.where(every), t.key), nil }

func (t modelUsage) Since(day string, after taskqueue.UsageKey, limit int) ([]taskqueue.Usage, error) {
	order := func(a, b taskqueue.UsageKey) int {
		return cmp.Or(cmp.Compare(a.Day, b.Day), cmp.Compare(a.Owner, b.Owner), cmp.Compare(a.Site, b.Site))
	}
	found := t.where(func(u taskqueue.Usage) bool {
		return u.Day >= day && (after == taskqueue.UsageKey{} || order(u.UsageKey, after) > 0)
	})
	slices.SortFunc(found, func(a, b taskqueue.Usage) int { return order(a.UsageKey, b.UsageKey) })
	return head(found, limit), nil
}

func (t modelAudit) Append(record taskqueue.AuditRecord) error { return t.Save(record) }

func (t modelAudit) Last() (last taskqueue.AuditRecord, err error) {
	for _, record := range t.all {
		if record.At >= last.At {
			last = record
		}
	}
	return last, nil
}

func (t modelAudit) After(at uint64, limit int) ([]taskqueue.AuditRecord, error) {
	return head(sorted(t.where(func(a taskqueue.AuditRecord) bool { return a.At > at }), t.key), limit), nil
}
