//go:build site

package site

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// slurm is a controller and one slurmd for each node, all on this machine.
type slurm struct {
	*lab
	dir        string
	controller *process
}

// node is a node of a lab's Slurm; what it hides are files that every program on it
// sees as one that fails at once.
type node struct {
	name  string
	hides []string
}

// freePort is a port for a daemon to listen on. The kernel takes none so low for the
// connections of others, which would take it before the daemon does.
func freePort(t *testing.T) int {
	t.Helper()
	for range 100 {
		port := 10_000 + rand.IntN(20_000)
		if listener, err := net.Listen("tcp", fmt.Sprintf(":%d", port)); err == nil {
			_ = listener.Close()
			return port
		}
	}
	t.Fatal("no port is free")
	return 0
}

func newSlurm(t *testing.T, l *lab, nodes ...node) *slurm {
	t.Helper()
	need(t, "munged", "slurmctld", "slurmd", "sbatch", "squeue", "scancel", "scontrol", "unshare")
	dir, err := os.MkdirTemp("", "pilotage-slurm-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	s := &slurm{lab: l, dir: dir}
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	config := strings.NewReplacer("HOST", host, "DIR", dir, "CONTROLLER", fmt.Sprint(freePort(t))).Replace(`ClusterName=lab
SlurmctldHost=HOST(127.0.0.1)
SlurmctldPort=CONTROLLER
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=DIR/munge.sock
StateSaveLocation=DIR/state
SlurmdSpoolDir=DIR/spool.%n
SlurmdPidFile=DIR/slurmd.%n.pid
SlurmctldPidFile=DIR/slurmctld.pid
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
JobCompType=jobcomp/none
ReturnToService=2
SlurmdTimeout=60
MinJobAge=86400
KillWait=5
`)
	var names []string
	for _, n := range nodes {
		config += fmt.Sprintf("NodeName=%s NodeHostname=%s NodeAddr=127.0.0.1 Port=%d CPUs=4 State=UNKNOWN\n", n.name, host, freePort(t))
		names = append(names, n.name)
	}
	config += "PartitionName=main Nodes=" + strings.Join(names, ",") + " Default=YES MaxTime=INFINITE State=UP\n"
	for name, content := range map[string]string{"slurm.conf": config, "munge.key": strings.Repeat("pilotage-lab-key-", 64)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil { //nolint:gosec // of a lab on this machine
			t.Fatal(err)
		}
	}
	if err := os.Chmod(filepath.Join(dir, "munge.key"), 0o400); err != nil {
		t.Fatal(err)
	}
	l.env = append(l.env, "SLURM_CONF="+filepath.Join(dir, "slurm.conf"))
	l.daemon(dir, "munged", "munged", "-F", "--force", "--socket="+filepath.Join(dir, "munge.sock"), "--key-file="+filepath.Join(dir, "munge.key"),
		"--pid-file="+filepath.Join(dir, "munged.pid"), "--seed-file="+filepath.Join(dir, "munged.seed"), "--log-file="+filepath.Join(dir, "munged.log"))
	l.until("munge answers", func() bool {
		_, err := os.Stat(filepath.Join(dir, "munge.sock"))
		return err == nil
	})
	s.startController()
	for _, n := range nodes {
		script := ""
		for _, hidden := range n.hides {
			script += "mount --bind /bin/false " + hidden + " && "
		}
		l.daemon(dir, "slurmd-"+n.name, "unshare", "--mount", "sh", "-c", script+"exec slurmd -D -N "+n.name)
	}
	l.until("all nodes are idle", func() bool {
		out, err := l.run("sinfo", "--noheader", "--Node", "--format=%T")
		return err == nil && strings.Count(out, "idle") == len(nodes)
	})
	t.Cleanup(func() { // pilots outlive their slurmd
		_, _ = l.run("scancel", "--user="+account)
		_, _ = l.run("scancel", "--signal=KILL", "--user="+account)
		l.until("no job is left", func() bool {
			out, err := l.run("squeue", "--noheader")
			return err != nil || strings.TrimSpace(out) == ""
		})
	})
	return s
}

func (s *slurm) startController() {
	s.t.Helper()
	if err := os.MkdirAll(filepath.Join(s.dir, "state"), 0o700); err != nil {
		s.t.Fatal(err)
	}
	s.controller = s.lab.daemon(s.dir, "slurmctld", "slurmctld", "-D")
}

// record is a job that Slurm remembers.
type record struct{ id, name, state, node string }

// jobs lists all jobs that Slurm has seen, those that are over as well.
func (s *slurm) jobs() (jobs []record) {
	s.t.Helper()
	out, err := s.run("squeue", "--noheader", "--states=all", "--format=%i|%j|%T|%N")
	if err != nil {
		s.t.Fatal(err)
	}
	for _, line := range strings.Split(strings.TrimSpace(out), "\n") {
		if f := strings.Split(line, "|"); len(f) == 4 {
			jobs = append(jobs, record{f[0], f[1], f[2], f[3]})
		}
	}
	return jobs
}

// once checks that no job was submitted twice: no name stands for two.
func (s *slurm) once() []record {
	s.t.Helper()
	seen := make(map[string]string)
	jobs := s.jobs()
	for _, j := range jobs {
		if before := seen[j.name]; before != "" {
			s.t.Errorf("job %s was submitted twice, as %s and %s", j.name, before, j.id)
		}
		seen[j.name] = j.id
	}
	return jobs
}

// A burst of tasks brings pilots up from none and down to none without a hand; the
// factory is killed on the way. The first task begins at most 10 s later than a job
// of Slurm does by itself.
func TestSlurmBurst(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	s := newSlurm(t, l, node{name: "n1"}, node{name: "n2"}, node{name: "n3"})

	report := l.must("--access", l.path("factory.json"), "factory", "check", "--batch", "slurm", "--", "--cpus-per-task=2")
	if !strings.Contains(report, "CHECK") || !strings.Contains(report, "disk") {
		t.Errorf("report of a check:\n%s", report)
	}

	checked := l.pilots()[0].Job

	start := func() *process {
		return l.factory("slurm", "slurm", "--max", "6", "--idle", "5s", "--", "--cpus-per-task=2")
	}
	f := start()
	l.until("the factory has looked", func() bool { return !l.status("slurm").Time.IsZero() })
	began := time.Now()
	if _, err := l.run("sbatch", "--wrap=touch "+l.path("outside", "own"), "--output=/dev/null", "--job-name=own"); err != nil {
		t.Fatal(err)
	}
	exists := func(name string) func() bool {
		return func() bool {
			_, err := os.Stat(l.path("outside", name))
			return err == nil
		}
	}
	l.until("a job of Slurm's own begins", exists("own"))
	own := time.Since(began)
	began = time.Now()
	first := l.submit(1, "touch "+l.path("outside", "first"))
	l.until("the first task begins", exists("first"))
	ours := time.Since(began)
	t.Logf("from submit to the first task with no pilot: %.1f s; Slurm alone: %.1f s", ours.Seconds(), own.Seconds())
	if ours > own+10*time.Second {
		t.Errorf("the first task began after %s, a job of Slurm's own after %s", ours, own)
	}
	l.done(first)

	burst := l.submit(200, "sleep 0.3")
	l.until("several pilots", func() bool {
		up := 0
		for _, job := range l.status("slurm").Jobs {
			if job.Pilot != "" {
				up++
			}
		}
		return up >= 2
	})
	f.kill()
	start()
	l.done(burst)
	l.allGone("slurm")
	if n := l.executions(); n != 201 {
		t.Errorf("%d executions of 201 tasks", n)
	}
	for _, j := range s.once() {
		if j.state != "COMPLETED" {
			t.Errorf("job %s (%s) at %s ended as %s", j.name, j.id, j.node, j.state)
		}
	}
	known := make(map[string]string)
	for _, j := range s.jobs() {
		known[j.name] = j.id
	}
	for _, p := range l.pilots() {
		if p.Job == "" || known[p.Job] == "" || p.BatchJob != known[p.Job] || !strings.HasPrefix(p.Node, "n") || p.Job != checked && !strings.HasPrefix(p.Reason, "it had nothing to do") {
			t.Errorf("pilot %+v, its job is %q", p, known[p.Job])
		}
	}
}

// Two bad nodes: at one no pilot starts, at the other every payload fails. Both are
// left out and named, and all tasks are done elsewhere.
func TestSlurmBadNodes(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	tool := l.path("outside", "tool")                                                   // of the site, which payloads need
	if err := os.WriteFile(tool, []byte("#!/bin/sh\nsleep 0.5\n"), 0o755); err != nil { //nolint:gosec // a program
		t.Fatal(err)
	}
	s := newSlurm(t, l, node{name: "broken", hides: []string{binary}}, node{name: "failing", hides: []string{tool}},
		node{name: "n1"}, node{name: "n2"}, node{name: "n3"})
	l.factory("slurm", "slurm", "--max", "10", "--backlog", "10", "--idle", "8s", "--every", "2s", "--", "--cpus-per-task=2", "--spread-job")
	work := l.submit(300, tool)
	seen := make(map[string]bool)
	l.until("both nodes are left out", func() bool {
		for _, name := range l.status("slurm").Excluded {
			seen[name] = true
		}
		return seen["broken"] && seen["failing"]
	})
	status := l.must("factory", "status", "--folder", l.path("slurm"))
	if !strings.Contains(status, "broken, left out until") {
		t.Errorf("the broken node is not named:\n%s", status)
	}
	l.done(work)
	for name := range seen {
		if strings.HasPrefix(name, "n") {
			t.Errorf("node %s was left out", name)
		}
	}
	l.allGone("slurm")
	at := make(map[string]int)
	for _, j := range s.once() {
		at[j.node]++
	}
	t.Logf("jobs by node: %v, executions of 300 tasks: %d", at, l.executions())
	if at["broken"] > 6 { // its places when nobody knew, and trials
		t.Errorf("%d jobs went to the broken node", at["broken"])
	}
	if wasted := l.executions() - 300; wasted > 40 {
		t.Errorf("%d executions more than tasks", wasted)
	}
}

// While the controller is away nothing is submitted and pilots work on; afterwards
// nothing is there twice.
func TestSlurmControllerDown(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	s := newSlurm(t, l, node{name: "n1"}, node{name: "n2"})
	f := l.factory("slurm", "slurm", "--max", "4", "--idle", "5s", "--every", "2s", "--", "--cpus-per-task=2")
	first := l.submit(8, "sleep 1")
	l.until("pilots work", func() bool { return l.executions() > 0 })
	s.controller.signal(syscall.SIGTERM)
	<-s.controller.exited
	gone := time.Now()
	before := len(l.status("slurm").Jobs)
	more := l.submit(60, "sleep 1")
	l.done(first)
	l.until("the factory says why it submits nothing", func() bool {
		return strings.Contains(f.said(), "the batch system does not list its jobs") && strings.Contains(f.said(), "has listed no jobs for")
	})
	<-time.After(time.Until(gone.Add(2 * time.Minute)))
	if after := l.status("slurm").Jobs; len(after) > max(before, 4) {
		t.Errorf("%d jobs before the controller went, %d after: %+v", before, len(after), after)
	}
	s.startController()
	l.done(more)
	l.allGone("slurm")
	if n := l.executions(); n != 68 {
		t.Errorf("%d executions of 68 tasks", n)
	}
	if jobs := s.once(); len(jobs) > 8 {
		t.Errorf("%d jobs, at most 4 at a time", len(jobs))
	}
}
