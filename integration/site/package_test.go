//go:build site

package site

import (
	"bufio"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// packageName is of the Debian package, of its account, and of its service.
const packageName = "pilotage"

// The Debian package of `make deb` is installed, its queue is started as its unit says,
// and removing and purging leave what they should.
func TestDebianPackage(t *testing.T) {
	need(t, "dpkg", "bash")
	packages, err := filepath.Glob("../../dist/pilotage_*.deb")
	if err != nil || len(packages) != 1 {
		t.Fatalf("make test-site packs one package first, there are %v: %v", packages, err)
	}
	if there("/var/lib/pilotage") || there("/etc/pilotage") {
		t.Fatal("this machine has a queue already: this test would remove it")
	}
	dpkg := func(args ...string) {
		t.Helper()
		if out, err := exec.Command("dpkg", args...).CombinedOutput(); err != nil {
			t.Fatalf("dpkg %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	t.Cleanup(func() { _ = exec.Command("dpkg", "--purge", packageName).Run() })
	dpkg("--install", packages[0])
	for _, path := range []string{"/usr/bin/pilotage", "/usr/share/doc/pilotage/docs/operations.md", "/usr/share/doc/pilotage/copyright"} {
		if !there(path) {
			t.Errorf("%s is not there", path)
		}
	}
	if out, err := exec.Command("bash", "-n", "/usr/share/bash-completion/completions/pilotage").CombinedOutput(); err != nil {
		t.Errorf("completion: %v\n%s", err, out)
	}
	const unit = "/usr/lib/systemd/system/pilotage.service"
	if _, err := exec.LookPath("systemd-analyze"); err == nil {
		if out, err := exec.Command("systemd-analyze", "verify", unit).CombinedOutput(); err != nil || len(out) > 0 {
			t.Errorf("systemd-analyze verify: %v\n%s", err, out)
		}
	}

	const settings = "/etc/pilotage/queue.env"
	if err := os.WriteFile(settings, []byte("PILOTAGE_QUEUE_FLAGS=--advertise localhost --listen 127.0.0.1:0 --listen-http 127.0.0.1:0\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	log := filepath.Join(t.TempDir(), "queue.log")
	queue := launch(t, "queue", log, asUnit(t, unit))
	l := &lab{t: t}
	l.until("the queue is ready", func() bool { return strings.Contains(queue.said(), "ready queue=localhost:") })
	who, err := user.Lookup(packageName)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat("/var/lib/pilotage/queue.db"); err != nil || strconv.Itoa(int(info.Sys().(*syscall.Stat_t).Uid)) != who.Uid {
		t.Errorf("the database is not the account's: %v, %v", info, err)
	}
	doctor := exec.Command("/usr/bin/pilotage", "doctor")
	doctor.Env = append(os.Environ(), "PILOTAGE_ACCESS=/var/lib/pilotage/access/admin.json")
	if out, err := doctor.CombinedOutput(); err != nil {
		t.Errorf("doctor: %v\n%s", err, out)
	}
	queue.kill()

	dpkg("--install", packages[0]) // an update keeps what the operator has set
	dpkg("--remove", packageName)
	if text, err := os.ReadFile(settings); err != nil || !strings.Contains(string(text), "localhost") || !there("/var/lib/pilotage/queue.db") || there("/usr/bin/pilotage") {
		t.Errorf("after its removal: settings %q, %v", text, err)
	}
	dpkg("--purge", packageName)
	if _, err := user.Lookup(packageName); err == nil || there("/etc/pilotage") || there("/var/lib/pilotage") {
		t.Errorf("a purge leaves the account (%v), /etc/pilotage or /var/lib/pilotage", err)
	}
}

func there(path string) bool {
	_, err := os.Stat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

// asUnit is the command line of a unit, as its user, with its file of settings.
func asUnit(t *testing.T, unit string) *exec.Cmd {
	t.Helper()
	values := settingsOf(t, unit)
	who, err := user.Lookup(values["User"])
	if err != nil {
		t.Fatal(err)
	}
	uid, _ := strconv.ParseUint(who.Uid, 10, 32)
	gid, _ := strconv.ParseUint(who.Gid, 10, 32)
	flags := settingsOf(t, strings.TrimPrefix(values["EnvironmentFile"], "-"))
	words := strings.Fields(os.Expand(values["ExecStart"], func(name string) string { return flags[name] }))
	command := exec.Command(words[0], words[1:]...)
	command.Dir = "/"
	command.Env = []string{"PATH=" + os.Getenv("PATH")}
	command.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, Setpgid: true, Pdeathsig: syscall.SIGKILL}
	return command
}

// settingsOf reads lines NAME=VALUE.
func settingsOf(t *testing.T, path string) map[string]string {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	values := make(map[string]string)
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if name, value, is := strings.Cut(lines.Text(), "="); is && !strings.HasPrefix(name, "#") {
			values[name] = value
		}
	}
	return values
}
