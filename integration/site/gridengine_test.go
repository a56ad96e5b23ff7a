//go:build site

package site

import (
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// newGridEngine starts a Grid Engine of its own on this machine, with one queue of
// four slots: a cell in a folder of its own, from what Debian's packages ship.
func newGridEngine(t *testing.T, l *lab) {
	t.Helper()
	need(t, "sge_qmaster", "sge_execd", "qsub", "qstat", "qdel", "qconf")
	dir, err := os.MkdirTemp("", "pilotage-ge-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	owner, err := user.Lookup("sgeadmin")
	if err != nil {
		t.Fatalf("the package gridengine-master makes this account: %v", err)
	}
	uid, _ := strconv.ParseUint(owner.Uid, 10, 32)
	gid, _ := strconv.ParseUint(owner.Gid, 10, 32)
	l.env = append(l.env, "SGE_ROOT="+dir, "SGE_CELL=default", fmt.Sprintf("SGE_QMASTER_PORT=%d", freePort(t)), fmt.Sprintf("SGE_EXECD_PORT=%d", freePort(t)))
	run := func(as *syscall.Credential, words ...string) string {
		t.Helper()
		command := exec.Command(words[0], words[1:]...)
		command.Env, command.Dir = append(os.Environ(), l.env...), dir
		command.SysProcAttr = &syscall.SysProcAttr{Credential: as}
		out, err := command.CombinedOutput()
		if err != nil {
			t.Fatalf("%q: %v: %s", words, err, out)
		}
		return string(out)
	}
	const installed = "/var/lib/gridengine/"
	for _, folder := range []string{"default/common", "spool/qmaster", "spool/execd", "spool/db"} {
		if err := os.MkdirAll(filepath.Join(dir, folder), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, link := range []string{"bin", "lib", "util", "utilbin"} {
		if err := os.Symlink(installed+link, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil { //nolint:gosec // of a lab on this machine
			t.Fatal(err)
		}
	}
	shipped := func(path, from, to string) string {
		t.Helper()
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return strings.ReplaceAll(string(text), from, to)
	}
	write("default/common/act_qmaster", host+"\n")
	write("default/common/host_aliases", "localhost "+host+"\n")
	write("default/common/bootstrap", strings.ReplaceAll(shipped(installed+"default/common/bootstrap", "/var/spool/gridengine/spooldb", dir+"/spool/db"), "/var/spool/gridengine", dir+"/spool"))
	write("configuration", shipped("/usr/share/gridengine/default-configuration", "/var/spool/gridengine", dir+"/spool"))
	run(nil, "chown", "-R", "sgeadmin", dir)
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	sgeadmin := &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	run(sgeadmin, "/usr/lib/gridengine/spoolinit", "berkeleydb", "libspoolb", dir+"/spool/db", "init")
	for _, words := range [][]string{
		{"configuration", dir + "/configuration"}, {"complexes", "/usr/share/gridengine/util/resources/centry"},
		{"usersets", "/usr/share/gridengine/util/resources/usersets"}, {"managers", "root", "sgeadmin"},
	} {
		run(sgeadmin, append([]string{"/usr/lib/gridengine/spooldefaults"}, words...)...)
	}
	l.daemon(dir, "sge_qmaster", "sge_qmaster")
	l.until("the qmaster answers", func() bool {
		_, err := l.run("qconf", "-sh")
		return err == nil
	})
	run(nil, "qconf", "-as", "localhost")
	queue := run(nil, "qconf", "-sq")
	for name, value := range map[string]string{
		"qname": "all.q", "hostlist": "localhost", "slots": "4", "notify": "00:00:05", "load_thresholds": "NONE", "pe_list": "NONE",
	} {
		queue = regexp.MustCompile(`(?m)^`+name+` .*$`).ReplaceAllString(queue, name+" "+value)
	}
	write("queue", queue)
	run(nil, "qconf", "-Aq", filepath.Join(dir, "queue"))
	l.daemon(dir, "sge_execd", "sge_execd")
	l.until("the node is there", func() bool {
		out, err := l.run("qstat", "-f")
		return err == nil && regexp.MustCompile(`(?m)^all\.q@localhost +BIP? +\S+ +[\d.]+ +\S+ *$`).MatchString(out)
	})
	t.Cleanup(func() {
		_, _ = l.run("qdel", "-u", account)
		l.until("no job is left", func() bool {
			out, err := l.run("qstat", "-u", account)
			return err != nil || strings.TrimSpace(out) == ""
		})
	})
}

// A burst of tasks brings pilots up from none and down to none.
func TestGridEngineBurst(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	newGridEngine(t, l)
	if report := l.must("--access", l.path("factory.json"), "factory", "check", "--batch", "gridengine"); !strings.Contains(report, "CHECK") {
		t.Errorf("report of a check:\n%s", report)
	}
	l.burst("ge", 40, func() *process {
		return l.factory("ge", "gridengine", "--max", "6", "--idle", "5s", "--every", "2s")
	})
	seen := make(map[string]bool)
	for _, p := range l.pilots() {
		if _, err := strconv.Atoi(p.BatchJob); err != nil || p.Job == "" || seen[p.Job] || seen[p.BatchJob] {
			t.Errorf("pilot %+v", p)
		}
		seen[p.Job], seen[p.BatchJob] = true, true
	}
}
