package integration

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"google.golang.org/protobuf/proto"

	pb "github.com/pilotage-grid/pilotage/proto/pilotage/v1"
)

// findings are what the judge has looked at, and what was not as it should be.
type findings struct {
	mu      sync.Mutex
	looked  map[string]int
	found   map[string][]string
	figures []string
}

func (f *findings) look(check string, n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.looked == nil {
		f.looked = make(map[string]int)
	}
	f.looked[check] += n
}

func (f *findings) add(check, format string, args ...any) {
	f.look(check, 0)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.found == nil {
		f.found = make(map[string][]string)
	}
	f.found[check] = append(f.found[check], fmt.Sprintf(format, args...))
}

func (f *findings) figure(format string, args ...any) {
	f.figures = append(f.figures, fmt.Sprintf(format, args...))
}

// settleTime bounds how long everything may take to end when nothing fails any
// more: the longest pause before a retry, a minute, may come twice.
const settleTime = 4 * time.Minute

// settle waits until everything that was submitted has ended, and until all
// pilots are up.
func (n *nemesis) settle(ctx context.Context, submitting *sync.WaitGroup) {
	began := time.Now()
	submitted := make(chan struct{})
	go func() {
		submitting.Wait()
		close(submitted)
	}()
	again := time.NewTicker(200 * time.Millisecond)
	defer again.Stop()
	for time.Since(began) < settleTime {
		n.tend(time.Now())
		up := !slices.ContainsFunc(append(n.pilotStations(), n.queueAt), func(s *station) bool { return !s.well() })
		select {
		case <-submitted:
			if up && n.work.open(ctx) == 0 {
				n.tell("all has ended")
				n.findings.figure("all ended %s after the faults", time.Since(began).Round(100*time.Millisecond))
				return
			}
		default:
		}
		<-again.C
	}
	n.tell("not all has ended")
	n.findings.add("everything ends", "not within %s", settleTime)
}

// judge holds what there is against what there should be.
func (n *nemesis) judge(ctx context.Context) {
	var executions, tasks int
	for _, f := range n.work.all() {
		executions += n.judgeFlow(ctx, f)
		tasks += len(f.tasks)
	}
	n.findings.figure("%d workflows, %d tasks, %d executions began", len(n.work.all()), tasks, executions)
	if len(n.work.all()) == 0 {
		n.t.Error("nothing was submitted")
	}
	n.judgeStorage(ctx)
	n.judgePilots()
	n.judgeProcesses()
	for check, found := range n.findings.found {
		n.t.Errorf("%s: %d\n  %s", check, len(found), strings.Join(found[:min(len(found), 20)], "\n  "))
	}
}

// judgeFlow looks at one workflow that was acknowledged and returns how many
// executions its payloads noted.
func (n *nemesis) judgeFlow(ctx context.Context, f *flow) (executions int) {
	infos, state, err := n.tasksOf(ctx, f)
	if err != nil {
		n.findings.add("acknowledged workflows", "%s: %v", f.id, err)
		return 0
	}
	n.findings.look("acknowledged workflows are done", 1)
	if state != pb.WorkflowState_WORKFLOW_STATE_DONE {
		n.findings.add("acknowledged workflows are done", "%s is %s", f.id, state)
	}
	started, ended, err := f.events()
	if err != nil {
		n.findings.add("ledgers", "%v", err)
	}
	for _, count := range started {
		executions += count
	}
	n.findings.look("tasks are done, with one winner", len(f.tasks))
	n.findings.look("winners came to their end in the ledger", len(f.tasks))
	n.findings.look("logs of winners", len(f.tasks))
	for _, t := range f.tasks {
		info := infos[t.name]
		if info.GetState() != pb.TaskState_TASK_STATE_DONE {
			n.findings.add("tasks are done, with one winner", "%s/%s is %s: %s; attempts %s", f.id, t.name, info.GetState(), info.GetReason(), attemptsOf(info))
			continue
		}
		winners, label := 0, ""
		for _, attempt := range info.GetAttempts() {
			id := attempt.GetOutcome().GetAttempt()
			if attempt.GetState() == pb.AttemptState_ATTEMPT_STATE_SUCCEEDED && id.GetGeneration() == info.GetGeneration() {
				winners++
			}
			if proto.Equal(id, info.GetWinner()) {
				label = fmt.Sprintf("%s/%s/%s", f.id, t.name, id.GetPilot())
				n.judgeLogs(ctx, f, t, attempt.GetOutcome().GetNumber())
			}
		}
		if winners != 1 || label == "" {
			n.findings.add("tasks are done, with one winner", "%s/%s has %d winners: %s", f.id, t.name, winners, attemptsOf(info))
		}
		if ended[label] == 0 {
			n.findings.add("winners came to their end in the ledger", "%s did not: %s", label, attemptsOf(info))
		}
	}
	n.judgeOutputs(f)
	return executions
}

func attemptsOf(info *pb.TaskInfo) string {
	var list []string
	for _, a := range info.GetAttempts() {
		o := a.GetOutcome()
		list = append(list, fmt.Sprintf("a%d g%d at %s %s %s", o.GetNumber(), o.GetAttempt().GetGeneration(), o.GetAttempt().GetPilot(), strings.TrimPrefix(a.GetState().String(), "ATTEMPT_STATE_"), o.GetReason()))
	}
	return strings.Join(list, "; ")
}

// tasksOf asks the queue for all tasks of a workflow, by name.
func (n *nemesis) tasksOf(ctx context.Context, f *flow) (infos map[string]*pb.TaskInfo, state pb.WorkflowState, err error) {
	infos = make(map[string]*pb.TaskInfo)
	err = n.ask(ctx, func(ctx context.Context, c queueClients) error {
		flow, err := c.tasks.GetWorkflow(ctx, &pb.GetWorkflowRequest{Workflow: f.id})
		if err != nil {
			return err
		}
		state = flow.GetWorkflow().GetState()
		list, err := c.tasks.ListTasks(ctx, &pb.ListTasksRequest{Workflow: f.id, PageSize: 1000, Full: true})
		for _, info := range list.GetTasks() {
			_, name, _ := strings.Cut(info.GetTask().GetId(), "/")
			infos[name] = info
		}
		return err
	})
	return infos, state, err
}

// judgeLogs compares what the queue has of a winner's streams.
func (n *nemesis) judgeLogs(ctx context.Context, f *flow, t *flowTask, number int32) {
	err := n.ask(ctx, func(ctx context.Context, c queueClients) error {
		logs, err := c.tasks.GetTaskLogs(ctx, &pb.GetTaskLogsRequest{TaskId: f.id + "/" + t.name, Number: number})
		if err == nil && (!bytes.Equal(logs.GetStdout(), stream("said by "+t.name, t.out)) || !bytes.Equal(logs.GetStderr(), stream("complained by "+t.name, t.err))) {
			err = fmt.Errorf("%d bytes of stdout and %d of stderr are not the end of the %d and %d that it wrote", len(logs.GetStdout()), len(logs.GetStderr()), t.out, t.err)
		}
		return err
	})
	if err != nil {
		n.findings.add("logs of winners", "%s/%s a%d: %v", f.id, t.name, number, err)
	}
}

// stream is the end of what a payload writes, as far as the queue keeps it.
func stream(line string, size int) []byte {
	all := strings.Repeat(line+"\n", size/len(line)+1)[:size]
	return []byte(all[max(0, size-64<<10):])
}

// judgeOutputs fetches the final outputs as a user does.
func (n *nemesis) judgeOutputs(f *flow) {
	to := filepath.Join(n.dir, "fetched")
	out, said, code := n.run("workflow", "outputs", f.id, "--to", to)
	if code != 0 {
		n.findings.add("final outputs have the right bytes", "workflow outputs %s: exit %d: %s%s", f.id, code, out, said)
	}
	for _, t := range f.tasks {
		if !t.final {
			continue
		}
		n.findings.look("final outputs have the right bytes", 1)
		if got, err := os.ReadFile(filepath.Join(to, t.file())); err != nil || !bytes.Equal(got, t.content) {
			n.findings.add("final outputs have the right bytes", "%s/%s: %d bytes, %d wanted, %v", f.id, t.file(), len(got), len(t.content), err)
		}
	}
	_ = os.RemoveAll(to)
}

// garbageTime bounds how long copies of losers may stay: some rounds of the
// queue's deletions, which come every 30 s. Those that nobody told it looks for twelve
// minutes after the end of their workflow, for which only long runs wait. The judge waits for one of them in
// any case: what it should not delete must be there afterwards.
const (
	garbageRound = 40 * time.Second
	garbageTime  = 3 * time.Minute
	untoldTime   = 20 * time.Minute
)

// judgeStorage compares the catalogue with the files on the storage elements.
// Nothing may be named that is not there, unless this test has spoiled it; what
// nobody names has to go.
func (n *nemesis) judgeStorage(ctx context.Context) {
	contents := make(map[string]*flowTask)
	for _, f := range n.work.all() {
		for _, t := range f.tasks {
			contents[f.id+":"+t.file()] = t
		}
	}
	var left []string
	again := time.NewTicker(2 * time.Second)
	defer again.Stop()
	began := time.Now()
	for ; ; <-again.C {
		files, err := n.catalogue(ctx)
		if err != nil {
			n.findings.add("the catalogue names right copies", "%v", err)
			return
		}
		left = n.leftovers(files)
		if waited := time.Since(began); !n.patient || waited > n.garbage || len(left) == 0 && waited > garbageRound {
			n.judgeCopies(files, contents)
			n.judgeLeftovers(files, left)
			break
		}
	}
	n.findings.figure("%d copies of losers are left %s after the end", len(left), time.Since(began).Round(time.Second))
}

// judgeLeftovers: what the catalogue does not name must be a loser's. What is left
// of those is counted.
func (n *nemesis) judgeLeftovers(files []*pb.File, left []string) {
	winners := make(map[string]bool)
	for _, file := range files {
		id := file.GetProducer()
		winners[fmt.Sprintf("/g%d-l%d-%s-%d/", id.GetGeneration(), id.GetLease(), id.GetPilot(), id.GetCounter())] = true
	}
	const check = "what nobody names is no winner's"
	n.findings.look(check, len(left))
	for _, name := range left {
		n.tell("named by nobody: %s", name)
		if folder, _ := filepath.Split(name); winners["/"+filepath.Base(folder)+"/"] {
			n.findings.add(check, "%s", name)
		}
	}
}

// judgeCopies reads every copy that the catalogue names.
func (n *nemesis) judgeCopies(files []*pb.File, contents map[string]*flowTask) {
	const check = "the catalogue names right copies"
	stored := make(map[string]bool)
	for _, file := range files {
		t := contents[file.GetLfn()]
		if t == nil {
			n.findings.add(check, "%s is of no workflow", file.GetLfn())
			continue
		}
		for _, replica := range file.GetReplicas() {
			n.findings.look(check, 1)
			e, name := n.elementOf(replica)
			if e == nil {
				n.findings.add(check, "%s: %s is on no element", file.GetLfn(), replica.GetUrl())
				continue
			}
			e.mu.Lock()
			spoiled, deleted := e.spoiled[name], e.deleted[name]
			e.mu.Unlock()
			got, err := os.ReadFile(filepath.Join(e.dir, filepath.FromSlash(name)))
			switch {
			case err == nil && bytes.Equal(got, t.content):
				stored[file.GetLfn()] = true
			case spoiled == "":
				n.findings.add(check, "%s: %s: %d bytes, %d wanted, %v; deleted at %.2fs", file.GetLfn(), replica.GetUrl(), len(got), len(t.content), err, deleted.Sub(n.began).Seconds())
			}
			if !deleted.IsZero() {
				n.findings.add("no winner's copy is deleted", "%s, at %.2fs", replica.GetUrl(), deleted.Sub(n.began).Seconds())
			}
		}
	}
	for lfn, t := range contents {
		if t.final {
			n.findings.look("final outputs are on a storage element", 1)
			if !stored[lfn] {
				n.findings.add("final outputs are on a storage element", "%s is not", lfn)
			}
		}
	}
	n.findings.look("no winner's copy is deleted", len(files))
}

// elementOf finds the element and the name there of a copy.
func (n *nemesis) elementOf(replica *pb.Replica) (*element, string) {
	for _, site := range n.sites {
		if name, below := strings.CutPrefix(replica.GetUrl(), site.storage.url+"/"); below && site.name == replica.GetSite() {
			if plain, err := url.PathUnescape(name); err == nil {
				return site.storage, plain
			}
		}
	}
	return nil, ""
}

// leftovers are the files on the elements that the catalogue does not name.
func (n *nemesis) leftovers(files []*pb.File) (left []string) {
	named := make(map[string]bool)
	for _, file := range files {
		for _, replica := range file.GetReplicas() {
			if e, name := n.elementOf(replica); e != nil {
				named[e.site+" "+name] = true
			}
		}
	}
	for _, site := range n.sites {
		names, err := site.storage.list()
		if err != nil {
			n.findings.add("storage elements can be listed", "%v", err)
		}
		for _, name := range names {
			if !named[site.name+" "+name] {
				left = append(left, site.name+" "+name)
			}
		}
	}
	return left
}

func (n *nemesis) catalogue(ctx context.Context) (files []*pb.File, err error) {
	for token := ""; ; {
		err = n.ask(ctx, func(ctx context.Context, c queueClients) error {
			reply, err := c.files.ListFiles(ctx, &pb.ListFilesRequest{PageSize: 1000, PageToken: token})
			files = append(files, reply.GetFiles()...)
			token = reply.GetNextPageToken()
			return err
		})
		if err != nil || token == "" {
			return files, err
		}
	}
}

// judgeProcesses stops everything in order: no payload may be left.
func (n *nemesis) judgeProcesses() {
	n.findings.look("no payload is left while nothing runs", 1)
	for _, left := range n.payloads() {
		n.findings.add("no payload is left while nothing runs", "%s", left)
	}
	n.findings.look("processes end within a minute of SIGTERM", len(n.pilotStations())+1)
	for _, s := range append(n.pilotStations(), n.queueAt) {
		s.mu.Lock()
		s.stopping = true
		s.mu.Unlock()
		_ = s.process.cmd.Process.Signal(syscall.SIGTERM)
		if s == n.queueAt {
			break
		}
	}
	limit := time.After(time.Minute)
	for _, s := range append(n.pilotStations(), n.queueAt) {
		select {
		case <-s.process.exited:
		case <-limit:
			n.findings.add("processes end within a minute of SIGTERM", "%s does not", s.process.name)
			s.process.kill()
		}
	}
	logs, _ := filepath.Glob(filepath.Join(n.dir, "*.log"))
	n.findings.look("no data race and no panic in any process", len(logs))
	for _, log := range logs {
		if text, err := os.ReadFile(log); err != nil || bytes.Contains(text, []byte("DATA RACE")) || bytes.Contains(text, []byte("panic:")) {
			n.findings.add("no data race and no panic in any process", "%s %v", log, err)
		}
	}
}

// payloads lists the processes of payloads of this run.
func (n *nemesis) payloads() (left []string) {
	processes, _ := filepath.Glob("/proc/[0-9]*")
	for _, process := range processes {
		environment, err := os.ReadFile(filepath.Join(process, "environ"))
		if err == nil && bytes.Contains(environment, []byte("NEMESIS="+n.outside())) {
			line, _ := os.ReadFile(filepath.Join(process, "cmdline"))
			left = append(left, fmt.Sprintf("%s %.60q", process, line))
		}
	}
	return left
}

// report is what was done and what was looked at.
func (n *nemesis) report() string {
	var text strings.Builder
	counts, missed := make(map[string]int), make(map[string]int)
	for _, kind := range n.faults {
		counts[kind.name] += kind.count
		missed[kind.name] += kind.missed
	}
	fmt.Fprintf(&text, "%-45s %6s %6s\n", "fault", "times", "missed")
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		fmt.Fprintf(&text, "%-45s %6d %6d\n", name, counts[name], missed[name])
	}
	fmt.Fprintf(&text, "%-45s %6s %6s\n", "checked", "number", "wrong")
	for _, check := range slices.Sorted(maps.Keys(n.findings.looked)) {
		fmt.Fprintf(&text, "%-45s %6d %6d\n", check, n.findings.looked[check], len(n.findings.found[check]))
	}
	for said, count := range n.work.said {
		n.findings.figure("submit not taken, %s: %d times", said, count)
	}
	if n.network == nil {
		n.findings.figure("no partitions: not possible here")
	}
	if !n.smallDisk {
		n.findings.figure("no full disks: not possible here")
	}
	return text.String() + strings.Join(n.findings.figures, "\n") + "\n"
}
