package storetest

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

// The names that random records use: few, so that they meet often, and
// prefixes of each other where an engine might confuse them.
var (
	someFlows   = []task.WorkflowID{flowA, flowB, "w-cccccccccc"}
	someNames   = []string{"a", "aa", "b", "a[1]", "kept", "new"}
	someSites   = []task.Site{"siteA", "siteB", "site"}
	somePilots  = []task.PilotID{"p-aaaaaaaa", "p-bbbbbbbb", "p-cccccccc", "p-dddddddd"}
	somePeers   = []task.PeerID{"x", "xy", "y"}
	someFiles   = []task.LFN{"vo:a", "vo:a/1", "vo:b", "vo:kept", "w-aaaaaaaaaa:a", "w-bbbbbbbbbb:a"}
	someKeys    = []string{"", "key", "key2", "k"}
	someUsages  = []taskqueue.UsageKey{{Day: "2026-01-01", Owner: "a", Site: "site"}, {Day: "2026-01-02", Owner: "a", Site: "siteA"}, {Day: "2026-01-02", Owner: "ab", Site: "site"}, {Day: "2026-01-02", Site: "siteA"}}
	someGrants  = []string{"g", "ga", "h"}
	someValues  = []string{"a", "b", "clock"}
	someLeases  = []task.LeaseID{1, 2, 9, 10}
	someClasses = []taskqueue.ClassID{0, 1, 2}
)

func someTasks() (ids []task.ID) {
	for _, flow := range someFlows {
		for _, name := range someNames {
			ids = append(ids, task.NewID(flow, name))
		}
	}
	return ids
}

// dumper writes down what reads return.
type dumper struct {
	t fataler
	strings.Builder
}

func note[T any](d *dumper, what string, args ...any) func(T, error) {
	return func(value T, err error) {
		if err != nil {
			d.t.Fatalf("%s %v: %v", what, args, err)
		}
		fmt.Fprintf(d, "%s%v: %s\n", what, args, print(d.t, value))
	}
}

// dump reads everything that the suite may have stored, in every way, and
// returns it as text, one read a line.
func dump(t fataler, store taskqueue.Store) string {
	d := &dumper{t: t}
	err := store.View(context.Background(), func(tx taskqueue.Tx) error {
		d.records(tx)
		d.tasks(tx.Tasks())
		d.files(tx.Files())
		return nil
	})
	if err != nil {
		t.Fatalf("view: %v", err)
	}
	return d.String()
}

func (d *dumper) records(tx taskqueue.Tx) {
	for _, name := range someValues {
		note[[]byte](d, "value", name)(tx.Meta().Get(name))
	}
	workflows, attempts, leases, pilots := tx.Workflows(), tx.Attempts(), tx.Leases(), tx.Pilots()
	note[[]taskqueue.Workflow](d, "workflows")(workflows.Load(someFlows...))
	note[[]taskqueue.Workflow](d, "newest workflows")(workflows.List("", "", "", 10))
	for by := range taskqueue.Instant(4) {
		note[[]taskqueue.Workflow](d, "workflows to look at")(workflows.ToLookAt(by, 10))
	}
	for _, key := range someKeys {
		note[task.WorkflowID](d, "workflow by key", key)(workflows.ByKey(key))
		note[[]taskqueue.Workflow](d, "workflows of", key)(workflows.List(key, "", "", 10))
		note[[]taskqueue.Workflow](d, "workflows of and named", key)(workflows.List(key, key, "", 10))
		found, err := workflows.List("", key, flowB, 10)
		if errors.Is(err, taskqueue.ErrWorkflowGone) {
			found, err = []taskqueue.Workflow{{Name: "gone"}}, nil
		}
		note[[]taskqueue.Workflow](d, "workflows named", key)(found, err)
	}
	for _, id := range someTasks() {
		found, err := attempts.OfTask(id)
		note[[]taskqueue.Attempt](d, "attempts", id)(found, err)
		for _, attempt := range found {
			stdout, stderr, err := attempts.LoadLog(attempt.Outcome.Attempt)
			note[[]string](d, "log", attempt.Outcome.Attempt)([]string{string(stdout), string(stderr)}, err)
		}
	}
	for _, pilot := range somePilots {
		note[[]taskqueue.Attempt](d, "running", pilot)(attempts.RunningAt(pilot))
		note[[]taskqueue.Lease](d, "held", pilot)(leases.OfPilot(pilot))
		note[[]taskqueue.Revocation](d, "asked back", pilot)(leases.RevocationsOf(pilot))
	}
	note[[]taskqueue.Lease](d, "leases")(leases.Load(someLeases...))
	note[[]taskqueue.Lease](d, "expired")(leases.ExpiredBy(10))
	for _, site := range someSites {
		note[[]taskqueue.Lease](d, "leases", site)(leases.OfSite(site))
		note[[]taskqueue.Revocation](d, "revocations", site)(leases.Revocations(site))
		note[[]taskqueue.Revocation](d, "of leases", site)(leases.Revocations(site, someLeases[2], someLeases[0], someLeases[2]))
		note[[]taskqueue.PilotRecord](d, "pilots", site)(pilots.OfSite(site))
		note[[]task.PilotID](d, "pilots that left", site)(pilots.IDsOfSite(site, taskqueue.PilotLeft))
	}
	note[[]taskqueue.PilotRecord](d, "pilots alive or dead")(pilots.OfSite("", taskqueue.PilotAlive, taskqueue.PilotDead))
	note[[]taskqueue.PilotRecord](d, "pilots")(pilots.Load(somePilots...))
	for _, peer := range somePeers {
		note[task.PilotID](d, "pilot of peer", peer)(pilots.ByPeer(peer))
	}
	note[[]taskqueue.SiteRecord](d, "sites")(tx.Sites().All())
	note[[]taskqueue.Usage](d, "usage")(tx.Usage().Since("", taskqueue.UsageKey{}, 100))
	for _, after := range someUsages {
		note[[]taskqueue.Usage](d, "usage after", after)(tx.Usage().Since("2026-01-02", after, 2))
	}
	note[[]taskqueue.Grant](d, "grants")(tx.Grants().All())
	note[[]taskqueue.AuditRecord](d, "audit")(tx.Audit().After(0, 100))
	note[taskqueue.AuditRecord](d, "audited last")(tx.Audit().Last())
}

func (d *dumper) tasks(tasks taskqueue.TaskTable) {
	note[[]task.Task](d, "descriptions")(tasks.Describe(someTasks()...))
	note[[]taskqueue.TaskState](d, "states")(tasks.Load(someTasks()...))
	for _, flow := range someFlows {
		note[[]taskqueue.TaskState](d, "in workflow", flow)(tasks.InWorkflow(flow, 0, 100))
		note[[]taskqueue.TaskState](d, "some in workflow", flow)(tasks.InWorkflow(flow, 8, 3, task.Leased, task.Ready))
		note[[]taskqueue.TaskState](d, "done in workflow", flow)(tasks.DoneByMemo(flow, digest(2), digest(1)))
	}
	for _, class := range someClasses {
		note[[]taskqueue.TaskState](d, "ready", class)(tasks.ReadyIn(class, 5, 4))
		note[[]taskqueue.TaskState](d, "all ready", class)(tasks.ReadyIn(class, 1<<40, 100))
		found, _, err := tasks.ReadyOf(map[taskqueue.ClassID]int{class: 3, someClasses[0]: 2}, 5, 4, 1<<30)
		note[[]taskqueue.TaskState](d, "ready of", class)(found, err)
		note[int](d, "ready before", class)(tasks.ReadyBefore(class, 0, 20))
	}
	note[map[taskqueue.ClassID]int](d, "ready classes")(tasks.ReadyClasses())
	note[taskqueue.Instant](d, "backoff")(tasks.NextBackoff(0))
	note[taskqueue.Instant](d, "next backoff")(tasks.NextBackoff(5))
	note[[]taskqueue.TaskState](d, "pausing")(tasks.Pausing(5, 4))
	for _, lease := range someLeases {
		note[[]taskqueue.TaskState](d, "leased", lease)(tasks.InLease(lease))
	}
}

func (d *dumper) files(files taskqueue.FileTable) {
	note[[]taskqueue.FileRecord](d, "files")(files.Load(someFiles...))
	note[[]taskqueue.FileRecord](d, "files listed")(files.List("", "", 100))
	note[[]taskqueue.FileRecord](d, "files of all")(files.List("vo:", "vo:a", 2))
	for _, site := range someSites {
		note[[]taskqueue.FileRecord](d, "announced", site)(files.OnlyAnnouncedAt(site, "", 100))
		note[[]taskqueue.FileRecord](d, "announced after", site)(files.OnlyAnnouncedAt(site, "vo:a", 2))
	}
	note[[]task.LFN](d, "foreign")(files.Foreign(foreignCopy.URL))
	for _, name := range someFiles {
		note[[]task.ID](d, "readers", name)(files.Readers(name))
	}
	note[[]taskqueue.Eligibility](d, "classes")(files.Classes())
	note[[]task.Replica](d, "garbage")(files.Garbage(100))
}
