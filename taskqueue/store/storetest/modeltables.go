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
	modelWorkflows modelTx
	modelFiles     modelTx
	modelAttempts  modelTx
	modelLeases    modelTx
	modelSites     modelTx
	modelPilots    modelTx
	modelGrants    modelTx
	modelUsage     modelTx
	modelAudit     modelTx
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

func (t modelWorkflows) Load(ids ...task.WorkflowID) ([]taskqueue.Workflow, error) {
	return choose(t.workflows, flowOf, ids), nil
}

func (t modelWorkflows) Save(workflows ...taskqueue.Workflow) error {
	for _, workflow := range workflows {
		t.contents.workflows = put(t.contents.workflows, flowOf, workflow)
	}
	return nil
}

func (t modelWorkflows) Delete(ids ...task.WorkflowID) error {
	t.contents.workflows = slices.DeleteFunc(t.workflows, func(w taskqueue.Workflow) bool { return slices.Contains(ids, w.ID) })
	return nil
}

func (t modelWorkflows) ByKey(key string) (id task.WorkflowID, err error) {
	for _, workflow := range t.workflows {
		if key != "" && workflow.Key == key {
			id = workflow.ID
		}
	}
	return id, nil
}

func (t modelWorkflows) List(owner, name string, after task.WorkflowID, limit int) (found []taskqueue.Workflow, err error) {
	seen := after == ""
	for _, workflow := range slices.Backward(t.workflows) {
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

func (t modelFiles) Load(names ...task.LFN) ([]taskqueue.FileRecord, error) {
	return pick(t.files, names), nil
}

func (t modelFiles) Save(files ...taskqueue.FileRecord) error {
	for _, file := range files {
		t.files[file.LFN] = file
	}
	return nil
}

func (t modelFiles) Delete(names ...task.LFN) error {
	for _, name := range names {
		delete(t.files, name)
	}
	return nil
}

func (t modelFiles) AddUses(reader task.ID, names ...task.LFN) error {
	for _, name := range names {
		t.uses[modelUse{name, reader}] = true
	}
	return nil
}

func (t modelFiles) Readers(name task.LFN) (readers []task.ID, err error) {
	for use := range t.uses {
		if use.file == name {
			readers = append(readers, use.reader)
		}
	}
	slices.Sort(readers)
	return readers, nil
}

func (t modelFiles) List(prefix string, after task.LFN, limit int) ([]taskqueue.FileRecord, error) {
	return head(where(t.files, func(f taskqueue.FileRecord) bool {
		return strings.HasPrefix(string(f.LFN), prefix) && f.LFN > after
	}), limit), nil
}

func (t modelFiles) Foreign(url string) (names []task.LFN, err error) {
	for _, f := range where(t.files, func(f taskqueue.FileRecord) bool {
		return slices.ContainsFunc(f.Replicas, func(r task.Replica) bool {
			name := task.CopyName(url)
			return name != "" && task.CopyName(r.URL) == name && task.StoredFile(name) != f.LFN
		})
	}) {
		names = append(names, f.LFN)
	}
	return names, nil
}

func (t modelFiles) OnlyAnnouncedAt(site task.Site, after task.LFN, limit int) ([]taskqueue.FileRecord, error) {
	return head(where(t.files, func(f taskqueue.FileRecord) bool {
		return len(f.Replicas) == 0 && slices.Contains(f.Announced, site) && f.LFN > after
	}), limit), nil
}

func (t modelFiles) Classes() ([]taskqueue.Eligibility, error) {
	return where(t.classes, func(taskqueue.Eligibility) bool { return true }), nil
}

func (t modelFiles) SaveClass(class taskqueue.Eligibility) error {
	t.classes[class.ID] = class
	return nil
}

func (t modelFiles) DropClasses(ids ...taskqueue.ClassID) error {
	for _, id := range ids {
		delete(t.classes, id)
	}
	return nil
}

func (t modelFiles) Garbage(limit int, except ...task.Site) ([]task.Replica, error) {
	return head(slices.DeleteFunc(slices.Clone(t.garbage), func(r task.Replica) bool { return slices.Contains(except, r.Site) }), limit), nil
}

func (t modelFiles) AddGarbage(replicas ...task.Replica) error {
	for _, replica := range replicas {
		t.contents.garbage = put(t.contents.garbage, func(r task.Replica) task.Replica { return r }, replica)
	}
	return nil
}

func (t modelFiles) DropGarbage(replicas ...task.Replica) error {
	t.contents.garbage = slices.DeleteFunc(t.garbage, func(r task.Replica) bool { return slices.Contains(replicas, r) })
	return nil
}

func attemptOf(attempt taskqueue.Attempt) task.AttemptID { return attempt.Outcome.Attempt }

func (t modelAttempts) Load(ids ...task.AttemptID) ([]taskqueue.Attempt, error) {
	return choose(t.attempts, attemptOf, ids), nil
}

func (t modelAttempts) Save(attempts ...taskqueue.Attempt) error {
	for _, attempt := range attempts {
		t.contents.attempts = put(t.contents.attempts, attemptOf, attempt)
	}
	return nil
}

func (t modelAttempts) scan(holds func(taskqueue.Attempt) bool) (found []taskqueue.Attempt) {
	for _, attempt := range t.attempts {
		if holds(attempt) {
			found = append(found, attempt)
		}
	}
	return found
}

func (t modelAttempts) OfTask(id task.ID) ([]taskqueue.Attempt, error) {
	return t.scan(func(a taskqueue.Attempt) bool { return a.Outcome.Attempt.Task == id }), nil
}

func (t modelAttempts) RunningAt(pilot task.PilotID) ([]taskqueue.Attempt, error) {
	return t.scan(func(a taskqueue.Attempt) bool {
		return a.Outcome.Attempt.Pilot == pilot && a.State == taskqueue.AttemptRunning
	}), nil
}

func (t modelAttempts) SaveLog(id task.AttemptID, stdout, stderr []byte) error {
	t.logs[id] = [2][]byte{stdout, stderr}
	return nil
}

func (t modelAttempts) LoadLog(id task.AttemptID) (stdout, stderr []byte, err error) {
	return t.logs[id][0], t.logs[id][1], nil
}

func (t modelLeases) Load(ids ...task.LeaseID) ([]taskqueue.Lease, error) {
	return pick(t.leases, ids), nil
}

func (t modelLeases) Save(leases ...taskqueue.Lease) error {
	for _, lease := range leases {
		t.leases[lease.ID] = lease
	}
	return nil
}

func (t modelLeases) Delete(ids ...task.LeaseID) error {
	for _, id := range ids {
		delete(t.leases, id)
	}
	return nil
}

func (t modelLeases) OfSite(site task.Site) ([]taskqueue.Lease, error) {
	return where(t.leases, func(l taskqueue.Lease) bool { return l.Site == site }), nil
}

func (t modelLeases) OfPilot(pilot task.PilotID) ([]taskqueue.Lease, error) {
	return where(t.leases, func(l taskqueue.Lease) bool { return pilot != "" && l.Pilot == pilot }), nil
}

func (t modelLeases) ExpiredBy(now taskqueue.Instant) ([]taskqueue.Lease, error) {
	return where(t.leases, func(l taskqueue.Lease) bool { return l.Expires <= now }), nil
}

func (t modelLeases) Revocations(site task.Site, leases ...task.LeaseID) (found []taskqueue.Revocation, err error) {
	for revocation, cancel := range t.revoked {
		if revocation.Site == site && (len(leases) == 0 || slices.Contains(leases, revocation.Lease)) {
			revocation.Cancel = cancel
			found = append(found, revocation)
		}
	}
	slices.SortFunc(found, func(a, b taskqueue.Revocation) int {
		return cmp.Or(cmp.Compare(a.Lease, b.Lease), cmp.Compare(a.Task, b.Task))
	})
	return found, nil
}

func (t modelLeases) Revoke(revocations ...taskqueue.Revocation) error {
	for _, revocation := range revocations {
		cancel := revocation.Cancel
		revocation.Cancel = false
		t.revoked[revocation] = cancel
	}
	return nil
}

func (t modelLeases) Confirm(revocations ...taskqueue.Revocation) error {
	for _, revocation := range revocations {
		revocation.Cancel = false
		delete(t.revoked, revocation)
	}
	return nil
}

func (t modelSites) Load(names ...task.Site) ([]taskqueue.SiteRecord, error) {
	return pick(t.sites, names), nil
}

func (t modelSites) Save(sites ...taskqueue.SiteRecord) error {
	for _, site := range sites {
		t.sites[site.Name] = site
	}
	return nil
}

func (t modelSites) Delete(names ...task.Site) error {
	for _, name := range names {
		delete(t.sites, name)
	}
	return nil
}

func (t modelSites) All() ([]taskqueue.SiteRecord, error) {
	return where(t.sites, func(taskqueue.SiteRecord) bool { return true }), nil
}

func (t modelPilots) Load(ids ...task.PilotID) ([]taskqueue.PilotRecord, error) {
	return choose(t.pilots, pilotOf, ids), nil
}

func (t modelPilots) Save(pilots ...taskqueue.PilotRecord) error {
	for _, pilot := range pilots {
		t.contents.pilots = put(t.contents.pilots, pilotOf, pilot)
	}
	return nil
}

func (t modelPilots) Delete(ids ...task.PilotID) error {
	t.contents.pilots = slices.DeleteFunc(t.pilots, func(p taskqueue.PilotRecord) bool { return slices.Contains(ids, p.ID) })
	return nil
}

func (t modelPilots) List(after task.PilotID, limit int) (found []taskqueue.PilotRecord, err error) {
	all, err := t.OfSite("")
	return head(slices.DeleteFunc(all, func(p taskqueue.PilotRecord) bool { return p.ID <= after }), limit), err
}

func (t modelPilots) OfSite(site task.Site, states ...taskqueue.PilotState) (found []taskqueue.PilotRecord, err error) {
	for _, pilot := range t.pilots {
		if (site == "" || pilot.Site == site) && (len(states) == 0 || slices.Contains(states, pilot.State)) {
			found = append(found, pilot)
		}
	}
	slices.SortFunc(found, func(a, b taskqueue.PilotRecord) int { return cmp.Compare(a.ID, b.ID) })
	return found, nil
}

func (t modelPilots) IDsOfSite(site task.Site, states ...taskqueue.PilotState) (ids []task.PilotID, err error) {
	found, err := t.OfSite(site, states...)
	for _, pilot := range found {
		ids = append(ids, pilot.ID)
	}
	return ids, err
}

func (t modelPilots) ByPeer(peer task.PeerID) (id task.PilotID, err error) {
	for _, pilot := range t.pilots {
		if pilot.Peer == peer {
			id = pilot.ID
		}
	}
	return id, nil
}

func (t modelGrants) Load(ids ...string) ([]taskqueue.Grant, error) { return pick(t.grants, ids), nil }

func (t modelGrants) Save(grants ...taskqueue.Grant) error {
	for _, grant := range grants {
		t.grants[grant.ID] = grant
	}
	return nil
}

func (t modelGrants) Delete(ids ...string) error {
	for _, id := range ids {
		delete(t.grants, id)
	}
	return nil
}

func (t modelGrants) All() ([]taskqueue.Grant, error) {
	return where(t.grants, func(taskqueue.Grant) bool { return true }), nil
}

func keyOf(u taskqueue.Usage) taskqueue.UsageKey { return u.UsageKey }

func (t modelUsage) Load(keys ...taskqueue.UsageKey) ([]taskqueue.Usage, error) {
	return choose(t.usage, keyOf, keys), nil
}

func (t modelUsage) Save(saved ...taskqueue.Usage) error {
	for _, u := range saved {
		t.contents.usage = put(t.contents.usage, keyOf, u)
	}
	return nil
}

func (t modelUsage) Since(day string, after taskqueue.UsageKey, limit int) (found []taskqueue.Usage, err error) {
	order := func(a, b taskqueue.UsageKey) int {
		return cmp.Or(cmp.Compare(a.Day, b.Day), cmp.Compare(a.Owner, b.Owner), cmp.Compare(a.Site, b.Site))
	}
	for _, u := range t.usage {
		if u.Day >= day && (after == taskqueue.UsageKey{} || order(u.UsageKey, after) > 0) {
			found = append(found, u)
		}
	}
	slices.SortFunc(found, func(a, b taskqueue.Usage) int { return order(a.UsageKey, b.UsageKey) })
	return head(found, limit), nil
}
