package integration

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A pilot as a batch job starts it: what it refuses, what it takes from
// Slurm's variables, which ports it opens.
func TestPilotOnABatchNode(t *testing.T) {
	g := newGrid(t, "siteA", "siteB")
	t.Run("self-check", func(t *testing.T) { selfCheck(g.in(t)) })
	t.Run("a node that takes no work", func(t *testing.T) { refuses(g.in(t)) })
	t.Run("a full disk", func(t *testing.T) { fullDisk(g.in(t)) })
	t.Run("Slurm's variables", func(t *testing.T) { slurmVariables(g.in(t)) })
	t.Run("the batch script", func(t *testing.T) { batchScript(g.in(t)) })
	t.Run("port range", func(t *testing.T) { portRange(g.in(t)) })
	t.Run("without namespaces", func(t *testing.T) { withoutNamespaces(g.in(t)) })
	t.Run("without a sandbox", func(t *testing.T) { withoutSandbox(g.in(t)) })
	t.Run("what ran on the node", func(t *testing.T) { recordsOfTheNode(g.in(t)) })
	t.Run("the wrong access", func(t *testing.T) { wrongAccess(g.in(t)) })
}

func (g *grid) check(site string, flags ...string) []string {
	args := []string{
		"pilot", "--check", "--access", g.access("pilot-" + site), "--cache", g.t.TempDir(), "--slots", "1", "--advertise", "127.0.0.1",
	}
	return append(args, flags...)
}

// selfCheck runs --check where all is well, with a peer that tries the ports,
// and where the VO's command or the storage element fails.
func selfCheck(g *grid) {
	t := g.t
	p := g.addPilot("siteA")
	var findings []struct {
		What, Detail string
		OK           bool
	}
	g.read(&findings, g.check("siteA", "--check-cmd", "echo checked by the VO")...)
	said := make(map[string]string)
	for _, f := range findings {
		if !f.OK {
			t.Errorf("%s: %s", f.What, f.Detail)
		}
		said[f.What] = f.Detail
	}
	for what, detail := range map[string]string{
		"disk": "free", "clock": "", "storage element": "file://", "ports": p.id, "walls of payloads": "", "check command": "checked by the VO",
	} {
		if got, there := said[what]; !there || !strings.Contains(got, detail) {
			t.Errorf("check %q says %q, want %q", what, got, detail)
		}
	}
	g.expect(1, []string{"check command", "FAILED", "no compiler here", "1 of 7 checks failed"},
		g.check("siteA", "--check-cmd", "echo no compiler here; exit 3")...)
	storage := filepath.Join(g.dir, "storage", "siteA")
	if err := os.Rename(storage, storage+".away"); err != nil {
		t.Fatal(err)
	}
	g.expect(1, []string{"storage element", "FAILED", storage}, g.check("siteA")...)
	if err := os.Rename(storage+".away", storage); err != nil {
		t.Fatal(err)
	}
	_, stderr, code := g.run(g.check("siteA", "--cache", "/proc/no/such/folder")...)
	if code == 0 || !strings.Contains(stderr, "/proc/no") {
		t.Errorf("an impossible folder: exit %d, %s", code, stderr)
	}
	g.left(g.newest("siteA"), "self-check")
	p.terminate(t, 30*time.Second)
}

// newest is the pilot of a site that registered last.
func (g *grid) newest(site string) string {
	g.t.Helper()
	var pilots []struct {
		Contact    struct{ Pilot string }
		Registered time.Time
	}
	g.read(&pilots, "pilot", "list", "--all", "--site", site)
	id, at := "", time.Time{}
	for _, p := range pilots {
		if p.Registered.After(at) {
			id, at = p.Contact.Pilot, p.Registered
		}
	}
	return id
}

// refuses starts a pilot on a node whose check fails: it ends with a reason
// that the VO can read at the queue, and without having run anything.
func refuses(g *grid) {
	p := g.start("pilot siteA", "pilot", "--access", g.access("pilot-siteA"), "--cache", g.t.TempDir(), "--advertise", "127.0.0.1",
		"--check-cmd", "echo scratch disk is read-only; false")
	if code := p.ends(g.t, startTime); code != 1 {
		g.t.Errorf("a refusing pilot ends with %d, want 1", code)
	}
	wantText(g.t, "the pilot", p.log.String(), "takes no work", "check command", "scratch disk is read-only")
	g.left(g.newest("siteA"), "scratch disk is read-only")
}

// fullDisk gives the pilot a file system of 16 MiB, mounted in a namespace of
// its own.
func fullDisk(g *grid) {
	t := g.t
	dir := t.TempDir()
	args := append([]string{"-c", `mount -t tmpfs -o size=16m tmpfs "$0" && exec "$@"`, dir, binary}, g.check("siteA", "--cache", dir)...)
	command := exec.Command("/bin/sh", args...)
	command.Env = os.Environ()
	command.SysProcAttr = inNamespace(syscall.CLONE_NEWNS)
	out, err := command.CombinedOutput()
	if command.ProcessState == nil {
		t.Fatalf("cannot make a namespace: %v; %s", err, namespaceHint)
	}
	if code := command.ProcessState.ExitCode(); code != 1 {
		t.Errorf("exit %d on a full disk, want 1\n%s", code, out)
	}
	wantText(t, "the check", string(out), "disk", "FAILED", "are free in "+dir, "64MiB")
}

const namespaceHint = "allow user namespaces: sysctl kernel.unprivileged_userns_clone=1 (Debian), kernel.apparmor_restrict_unprivileged_userns=0 (Ubuntu), user.max_user_namespaces=10000"

// inNamespace makes the caller root of a new user namespace and of others.
func inNamespace(flags uintptr) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | flags,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
		Pdeathsig:   syscall.SIGKILL,
	}
}

func slurmVariables(g *grid) {
	t := g.t
	disk := t.TempDir()
	end := time.Now().Add(15 * time.Minute).Truncate(time.Second)
	t.Setenv("SLURM_CPUS_ON_NODE", "3")
	t.Setenv("SLURM_JOB_END_TIME", strconv.FormatInt(end.Unix(), 10))
	t.Setenv("SLURM_TMPDIR", disk)
	p := g.start("pilot siteA", "pilot", "--access", g.access("pilot-siteA"), "--advertise", "127.0.0.1")
	line := p.await(t, "ready pilot=")
	id, _, _ := strings.Cut(strings.TrimPrefix(line, "ready pilot="), " ")
	known := g.pilot(id)
	if known.GetSlots() != 3 {
		t.Errorf("%d slots, want SLURM_CPUS_ON_NODE", known.GetSlots())
	}
	if ends := known.GetEnds().AsTime(); ends.Sub(end.Add(-5*time.Minute)).Abs() > 30*time.Second {
		t.Errorf("ends at %s, want 5 minutes before %s", ends, end)
	}
	folder := filepath.Join(disk, fmt.Sprintf("pilotage-%d", os.Getuid()), id)
	var state struct{ ID, Site, Folder string }
	if err := json.Unmarshal([]byte(readFile(t, filepath.Join(folder, "pilot.json"))), &state); err != nil || state.ID != id || state.Folder != folder {
		t.Errorf("pilot.json holds %+v, %v", state, err)
	}
	p.terminate(t, 30*time.Second)
	t.Setenv("SLURM_JOB_END_TIME", strconv.FormatInt(time.Now().Add(2*time.Minute).Unix(), 10))
	_, stderr, code := g.run("pilot", "--access", g.access("pilot-siteA"))
	if code != 2 || !strings.Contains(stderr, "no time for work") {
		t.Errorf("a job of two minutes: exit %d, %s", code, stderr)
	}
}

// batchScript is examples/slurm/pilot.sbatch as Slurm runs it: a task done,
// then the signal before the end of the job.
func batchScript(g *grid) {
	t := g.t
	disk := t.TempDir()
	script, err := filepath.Abs("../examples/slurm/pilot.sbatch")
	if err != nil {
		t.Fatal(err)
	}
	job := &process{name: "batch job", cmd: exec.Command("/bin/sh", script, "--advertise", "127.0.0.1", "--grace", "3s")}
	for name, value := range map[string]string{
		"SLURM_CPUS_ON_NODE": "2", "SLURM_MEM_PER_NODE": "1024", "SLURM_JOB_ID": "77", "SLURM_TMPDIR": disk, "SLURM_SUBMIT_DIR": disk,
		"SLURM_JOB_END_TIME": strconv.FormatInt(time.Now().Add(time.Hour).Unix(), 10),
		"PILOTAGE_BINARY":    binary, "PILOTAGE_PILOT_ACCESS": g.access("pilot-siteB"), "PILOTAGE_PAYLOAD_USER": os.Getenv("PILOTAGE_PAYLOAD_USER"),
	} {
		job.cmd.Env = append(job.cmd.Env, name+"="+value)
	}
	job.cmd.Env = append(job.cmd.Env, "PATH="+os.Getenv("PATH"))
	g.launch(job)
	job.await(t, "ready pilot=")
	id := strings.TrimSpace(g.must("submit", "--parsable", "--name", "batch", "--require", `pilot.site == "siteB"`, "--", "true"))
	g.done(id)
	worker := g.task(id + "/batch").GetAttempts()[0].GetOutcome().GetAttempt().GetPilot()
	if known := g.pilot(worker); known.GetSlots() != 2 || known.GetResources().GetMemoryBytes() != 1<<30 {
		t.Errorf("the pilot has %d slots and %d bytes of memory", known.GetSlots(), known.GetResources().GetMemoryBytes())
	}
	job.terminate(t, 30*time.Second)
	if code := job.cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("the job ended with %d\n%s", code, job.log)
	}
	g.left(worker, "told to stop")
	if left, err := os.ReadDir(disk); err != nil || len(left) > 0 {
		t.Errorf("the job leaves %v on the node's disk, %v", left, err)
	}
}

func portRange(g *grid) {
	t := g.t
	low := freePorts(t, 4)
	ports := fmt.Sprintf("%d-%d", low, low+3)
	seen := make(map[int]bool)
	for range 2 {
		p := g.addPilot("siteA", "--port-range", ports)
		known := g.pilot(p.id).GetContact()
		_, data, err := net.SplitHostPort(strings.TrimPrefix(known.GetDataUrl(), "https://"))
		if err != nil {
			t.Fatal(err)
		}
		_, overlay, _ := strings.Cut(known.GetAddresses()[0], "/tcp/")
		for _, text := range []string{data, overlay} {
			port, err := strconv.Atoi(text)
			if err != nil || port < low || port > low+3 || seen[port] {
				t.Errorf("port %q, want a new one of %s", text, ports)
			}
			seen[port] = true
		}
	}
	_, stderr, code := g.run("pilot", "--access", g.access("pilot-siteA"), "--cache", t.TempDir(), "--advertise", "127.0.0.1", "--port-range", ports)
	if code == 0 || !strings.Contains(stderr, ports) {
		t.Errorf("an exhausted range: exit %d, %s", code, stderr)
	}
	g.expect(2, []string{"9-3"}, "pilot", "--access", g.access("pilot-siteA"), "--cache", t.TempDir(), "--port-range", "9-3")
}

// recordsOfTheNode reads on the node, without the queue, what ran there at a moment: a
// payload that has ended meanwhile, and that neither saw nor changed the records.
func recordsOfTheNode(g *grid) {
	t := g.t
	records := filepath.Join(t.TempDir(), "records")
	p := g.addPilot("siteB", "--records", records)
	g.must("submit", "--name", "traced", "--require", `pilot.site == "siteB"`, "--wait", "--",
		"sh", "-c", `sleep 1; for f in "$0" "$0"/*; do cat "$f" && exit 3; (echo forged >>"$f") && exit 4; done; exit 0`, records)
	ended := time.Now()
	p.terminate(t, 30*time.Second)
	var ran []struct {
		Subject, Site, Node, Pilot, Note string
		Process                          any
		Started, Ended                   time.Time
	}
	g.read(&ran, "--access", "/no/access", "site", "trace", "--folder", records, "--time", time.Now().UTC().Format(time.RFC3339Nano))
	if len(ran) != 0 {
		t.Errorf("what has ended runs now: %+v", ran)
	}
	at := ended.Add(-500 * time.Millisecond)
	for ; len(ran) == 0 && ended.Sub(at) < time.Minute; at = at.Add(-500 * time.Millisecond) { // it took as long as it took
		g.read(&ran, "--access", "/no/access", "site", "trace", "--folder", records, "--time", at.UTC().Format(time.RFC3339Nano))
	}
	if len(ran) != 1 || !strings.Contains(ran[0].Subject, "/traced") || ran[0].Site != "siteB" || ran[0].Pilot != p.id || ran[0].Node == "" ||
		ran[0].Process == nil || ran[0].Note != "succeeded" || ran[0].Ended.Sub(ran[0].Started) < time.Second {
		t.Errorf("what ran at %s: %+v", at, ran)
	}
	g.expect(5, []string{"no records"}, "site", "trace", "--folder", filepath.Join(records, "none"), "--time", "1h")
}

// freePorts finds so many free ports in a row.
func freePorts(t *testing.T, n int) int {
	t.Helper()
	for low := 21000 + os.Getpid()%1000*10; low < 60000; low += n {
		free := true
		for port := low; port < low+n && free; port++ {
			listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
			if err != nil {
				free = false
				continue
			}
			_ = listener.Close()
		}
		if free {
			return low
		}
	}
	t.Fatalf("no %d free ports in a row", n)
	return 0
}

// withoutNamespaces checks a pilot on a node that lets nobody make namespaces: payloads
// are confined by what there is, and the pilot says what would bring more.
func withoutNamespaces(g *grid) {
	forbid := `echo 0 >/proc/sys/user/max_user_namespaces && exec setpriv --bounding-set=-all --inh-caps=-all --securebits=+noroot "$@"`
	command := exec.Command("/bin/sh", append([]string{"-c", forbid, "sh", binary}, g.check("siteA", "--payload-user", "root")...)...)
	command.SysProcAttr = inNamespace(0)
	said, err := command.CombinedOutput()
	if command.ProcessState == nil {
		g.t.Fatalf("cannot make a namespace: %v; %s", err, namespaceHint)
	}
	if err != nil {
		g.t.Errorf("%v: %s", err, said)
	}
	wantText(g.t, "pilot --check", string(said), "LANDLOCK", "no namespaces", "operation not permitted: the pilot runs in a container that forbids them: allow unshare")
}

// withoutSandbox: pilot list says where nothing confines payloads.
func withoutSandbox(g *grid) {
	g.openWay()
	p := g.addPilot("siteB", "--sandbox", "off")
	if said := g.pilot(p.id); said.GetConfinement() != 0 || len(said.GetWalls()) > 1 { // the account's, of a pilot that root has started
		g.t.Errorf("payloads are said to be confined by %v", said)
	}
	wantText(g.t, "pilot list", g.must("pilot", "list"), " NONE ")
	wantText(g.t, "pilot show", g.must("pilot", "show", p.id), "switched off by --sandbox off")
	g.must("site", "add", "siteB", "--min-confinement", "landlock")
	g.expect(4, []string{"takes pilots that confine payloads by LANDLOCK at least", "has NONE"}, "pilot", "--access", g.access("pilot-siteB"), "--sandbox", "off")
	g.must("site", "add", "siteB", "--min-confinement", "NONE")
	p.terminate(g.t, 30*time.Second)
	g.expect(2, []string{"--sandbox", "maybe"}, "pilot", "--access", g.access("pilot-siteB"), "--sandbox", "maybe")
}

func wrongAccess(g *grid) {
	g.expect(4, []string{"role submit", "pilot-SITE.json"}, "pilot", "--access", g.access("submit"))
	g.expect(2, []string{"no-such-file"}, "pilot", "--access", filepath.Join(g.dir, "no-such-file"))
	open := filepath.Join(g.dir, "open.json")
	writeFile(g.t, open, readFile(g.t, g.access("pilot-siteA")))
	if err := os.Chmod(open, 0o644); err != nil {
		g.t.Fatal(err)
	}
	g.expect(2, []string{"chmod 600"}, "pilot", "--access", open)
}
