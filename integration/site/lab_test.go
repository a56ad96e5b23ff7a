//go:build site

package site

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// account is the ordinary user as whom queue, factory and pilots run.
const account = "pilotagelab"

// patience is how long a test waits for what is to come: it holds on a machine that many
// other programs use.
const patience = 3 * time.Minute

var (
	binary string
	plain  syscall.Credential
	home   string
)

func TestMain(m *testing.M) {
	code, err := prepare(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// prepare makes the account and the binary, and runs the tests.
func prepare(m *testing.M) (int, error) {
	if os.Getuid() != 0 {
		return 0, errors.New("these tests start batch systems, which needs root: run make test-site as root on a machine that may be thrown away")
	}
	if _, err := user.Lookup(account); err != nil {
		if out, err := exec.Command("useradd", "--create-home", "--shell", "/bin/sh", account).CombinedOutput(); err != nil {
			return 0, fmt.Errorf("make account %s: %w: %s", account, err, out)
		}
	}
	who, err := user.Lookup(account)
	if err != nil {
		return 0, err
	}
	uid, _ := strconv.ParseUint(who.Uid, 10, 32)
	gid, _ := strconv.ParseUint(who.Gid, 10, 32)
	plain, home = syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, who.HomeDir
	dir, err := os.MkdirTemp("", "pilotage-site-")
	if err != nil {
		return 0, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if err := os.Chmod(dir, 0o755); err != nil {
		return 0, err
	}
	binary = filepath.Join(dir, "pilotage")
	build := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-o", binary, "../../cmd/pilotage")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return 0, fmt.Errorf("build the binary: %w: %s", err, out)
	}
	return m.Run(), nil
}

// need fails a test whose programs are missing. A skipped test would be a test
// that nobody runs.
func need(t *testing.T, programs ...string) {
	t.Helper()
	for _, program := range programs {
		if _, err := exec.LookPath(program); err != nil {
			t.Fatalf("%s is missing: make test-site installs the Debian packages that these tests need: %v", program, err)
		}
	}
}

// lab is a queue with one site, and a folder that the account owns.
type lab struct {
	t   *testing.T
	dir string
	env []string // of the batch system's commands

	queue *process
}

func newLab(t *testing.T) *lab {
	t.Helper()
	dir, err := os.MkdirTemp("", "pilotage-lab-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	l := &lab{t: t, dir: dir}
	l.own(dir)
	for _, name := range []string{"storage", "outside"} {
		if err := os.Mkdir(l.path(name), 0o777); err != nil {
			t.Fatal(err)
		}
		l.own(l.path(name))
	}
	l.queue = l.start("queue", "taskqueue", "--data", l.path("queue"), "--listen", "127.0.0.1:0", "--listen-http", "127.0.0.1:0")
	l.until("the queue is ready", func() bool { return strings.Contains(l.queue.said(), "ready queue=") })
	l.must("site", "add", "siteA", "--se", "file://"+l.path("storage"))
	l.must("access", "create", "--role", "factory", "--site", "siteA", "--to", l.path("factory.json"))
	return l
}

func (l *lab) path(parts ...string) string {
	return filepath.Join(append([]string{l.dir}, parts...)...)
}

func (l *lab) own(path string) {
	if err := os.Chown(path, int(plain.Uid), int(plain.Gid)); err != nil {
		l.t.Fatal(err)
	}
}

// process is a program that goes on beside the test; what it prints is in a file.
type process struct {
	t      *testing.T
	name   string
	cmd    *exec.Cmd
	log    string
	exited chan struct{}
}

// start runs our binary as the account.
func (l *lab) start(name string, args ...string) *process {
	l.t.Helper()
	command := exec.Command(binary, args...)
	l.asAccount(command)
	return launch(l.t, name, l.path(name+".log"), command)
}

// daemon starts a program of a batch system as root.
func (l *lab) daemon(dir, name string, words ...string) *process {
	l.t.Helper()
	command := exec.Command(words[0], words[1:]...)
	command.Env = append(append(os.Environ(), "SGE_ND=1"), l.env...) // which keeps Grid Engine's in the foreground
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	return launch(l.t, name, filepath.Join(dir, name+".log"), command)
}

func (l *lab) asAccount(command *exec.Cmd) {
	command.Dir = l.dir
	command.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "PILOTAGE_ACCESS=" + l.path("queue", "access", "admin.json")}, l.env...)
	command.SysProcAttr = &syscall.SysProcAttr{Credential: &plain, Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// launch starts a command that is killed at the end of the test.
func launch(t *testing.T, name, log string, command *exec.Cmd) *process {
	t.Helper()
	out, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	command.Stdout, command.Stderr = out, out
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	_ = out.Close()
	p := &process{t, name, command, log, make(chan struct{})}
	go func() {
		_ = command.Wait()
		close(p.exited)
	}()
	t.Cleanup(func() {
		p.kill()
		if text := p.said(); t.Failed() || strings.Contains(text, "panic:") {
			t.Logf("log of %s:\n%s", name, text[max(0, len(text)-8000):])
		}
	})
	return p
}

func (p *process) said() string {
	text, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

func (p *process) signal(signal syscall.Signal) { _ = p.cmd.Process.Signal(signal) }

func (p *process) kill() {
	p.signal(syscall.SIGKILL)
	<-p.exited
}

// run runs a command as the account.
func (l *lab) run(program string, args ...string) (string, error) {
	ctx, stop := context.WithTimeout(context.Background(), patience+time.Minute) // which is more than it waits itself
	defer stop()
	command := exec.CommandContext(ctx, program, args...)
	l.asAccount(command)
	var stdout, stderr bytes.Buffer
	command.Stdout, command.Stderr = &stdout, &stderr
	if err := command.Run(); err != nil {
		return stdout.String(), fmt.Errorf("%s %s: %w: %s", filepath.Base(program), strings.Join(args, " "), err, stderr.String())
	}
	return stdout.String(), nil
}

func (l *lab) must(args ...string) string {
	l.t.Helper()
	out, err := l.run(binary, args...)
	if err != nil {
		l.t.Fatal(err)
	}
	return out
}

// until looks again and again whether something holds.
func (l *lab) until(what string, holds func() bool) {
	l.t.Helper()
	ticker, deadline := time.NewTicker(200*time.Millisecond), time.After(patience)
	defer ticker.Stop()
	for !holds() {
		select {
		case <-ticker.C:
		case <-deadline:
			l.t.Fatalf("not within %s: %s", patience, what)
		}
	}
}

// factory starts a factory of 2-core jobs; the arguments end with those of the submit command.
func (l *lab) factory(name, batch string, args ...string) *process {
	l.t.Helper()
	before := []string{
		"--access", l.path("factory.json"), "factory", "--folder", l.path(name), "--batch", batch, "--disk", "300MiB", "--memory", "2GiB", "--walltime", "30m",
		"--pilot=--advertise=127.0.0.1", "--pilot=--grace=2s", "--pilot=--writable=" + l.path("outside"), "--pilot=--cache-size=50MiB",
	}
	return l.start(name, append(before, args...)...)
}

// status is what the factory tells.
type status struct {
	Time time.Time
	Jobs []struct {
		Name, State, Node, Pilot string
		Cancelled                bool
	}
	Nodes []struct {
		Node, Why string
		Pauses    int
	}
	Excluded []string `json:"nodes_excluded"`
	Paused   string
}

func (l *lab) status(name string) (s status) {
	l.t.Helper()
	content, err := os.ReadFile(l.path(name, "status.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return s
	}
	if err != nil {
		l.t.Fatal(err)
	}
	if err := json.Unmarshal(content, &s); err != nil {
		l.t.Fatal(err)
	}
	return s
}

// submit submits so many tasks, each of which writes a line to the ledger.
func (l *lab) submit(tasks int, script string) (id string) {
	l.t.Helper()
	return strings.TrimSpace(l.must("submit", "--parsable", "--array", fmt.Sprintf("0-%d", tasks-1), "--memory", "100MiB", "--disk", "10MiB", "--", "sh", "-c", "echo x >>"+l.path("outside", "ledger")+"; "+script))
}

// done waits until a workflow is DONE.
func (l *lab) done(id string) {
	l.t.Helper()
	out, err := l.run(binary, "workflow", "wait", id, "--timeout", patience.String())
	if err != nil {
		l.t.Fatalf("%s\n%v", out, err)
	}
}

// executions is how many payloads have run.
func (l *lab) executions() int {
	content, err := os.ReadFile(l.path("outside", "ledger"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		l.t.Fatal(err)
	}
	return strings.Count(string(content), "x")
}

// pilot is what `pilot list` tells.
type pilot struct {
	State    string `json:"state"`
	Job      string `json:"job"`
	BatchJob string `json:"batch_job"`
	Reason   string `json:"reason"`
	Node     string `json:"host"`
}

func (l *lab) pilots() (pilots []pilot) {
	l.t.Helper()
	for _, line := range strings.Split(strings.TrimSpace(l.must("pilot", "list", "--all", "--output", "jsonl")), "\n") {
		var p pilot
		if line == "" {
			continue
		}
		if err := json.Unmarshal([]byte(line), &p); err != nil {
			l.t.Fatalf("%v: %s", err, line)
		}
		pilots = append(pilots, p)
	}
	return pilots
}

// burst has a factory bring pilots up from none for tasks and down to none, and kills
// it on the way.
func (l *lab) burst(name string, tasks int, start func() *process) {
	l.t.Helper()
	f := start()
	work := l.submit(tasks, "sleep 0.5")
	l.until("pilots work", func() bool { return l.executions() > 0 })
	f.kill()
	start()
	l.done(work)
	l.allGone(name)
	if n := l.executions(); n != tasks {
		l.t.Errorf("%d executions of %d tasks", n, tasks)
	}
}

// allGone waits until no job and no pilot is there.
func (l *lab) allGone(name string) {
	l.t.Helper()
	l.until("down to no pilot", func() bool {
		for _, p := range l.pilots() {
			if p.State != "left" {
				return false
			}
		}
		return len(l.status(name).Jobs) == 0
	})
}
