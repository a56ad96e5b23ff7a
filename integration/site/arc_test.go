//go:build site

package site

import (
	"crypto/tls"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// newARC starts a computing element of ARC on this machine, which forks its jobs,
// and returns its address. Debian's package has made a test authority and a host
// certificate; the account gets a certificate of its own.
func newARC(t *testing.T, l *lab) string {
	t.Helper()
	need(t, "arched", "openssl", "arcctl", "arcsub", "arcstat", "arckill", "arcproxy")
	dir, err := os.MkdirTemp("", "pilotage-arc-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("arcctl", "test-ca", "usercert", "--install-user", account, "--force").CombinedOutput(); err != nil {
		t.Fatalf("a certificate for %s: %v: %s", account, err, out)
	}
	address := net.JoinHostPort(host, fmt.Sprint(freePort(t)))
	element := "https://" + address + "/arex"
	config := filepath.Join(dir, "arc.conf")
	text := strings.NewReplacer("DIR", dir, "HOST", host, "ELEMENT", element, "ACCOUNT", account).Replace(`[common]
hostname=HOST
x509_host_key=/etc/grid-security/testCA-hostkey.pem
x509_host_cert=/etc/grid-security/testCA-hostcert.pem
[authgroup:zero]
file=/etc/grid-security/testCA.allowed-subjects
[mapping]
map_to_user=zero ACCOUNT:ACCOUNT
[lrms]
lrms=fork
[arex]
controldir=DIR/control
sessiondir=DIR/session
logfile=DIR/arex.log
joblog=DIR/jobs.log
pidfile=DIR/arex.pid
wakeupperiod=2
[arex/ws]
wsurl=ELEMENT
logfile=DIR/ws.log
pidfile=DIR/ws.pid
[arex/ws/jobs]
allowaccess=zero
[infosys]
logfile=DIR/infosys.log
[infosys/glue2]
[infosys/cluster]
[queue:fork]
`)
	for _, folder := range []string{"control", "session"} {
		if err := os.Mkdir(filepath.Join(dir, folder), 0o755); err != nil { //nolint:gosec // of a lab on this machine
			t.Fatal(err)
		}
	}
	if err := os.Chmod(dir, 0o755); err != nil { //nolint:gosec // of a lab on this machine
		t.Fatal(err)
	}
	if err := os.WriteFile(config, []byte(text), 0o644); err != nil { //nolint:gosec // of a lab on this machine
		t.Fatal(err)
	}
	// Else the start looks for parameters of its own, for minutes, on a whole core.
	if out, err := exec.Command("openssl", "genpkey", "-genparam", "-algorithm", "DH", "-pkeyopt", "group:ffdhe2048", "-out", filepath.Join(dir, "control", "dhparam.pem")).CombinedOutput(); err != nil {
		t.Fatalf("parameters of the key exchange: %v: %s", err, out)
	}
	for _, service := range []string{"arex", "ws"} {
		program := "/usr/share/arc/arc-arex-start"
		if service == "ws" {
			program = "/usr/share/arc/arc-arex-ws-start"
		}
		command := exec.Command(program)
		command.Env = append(os.Environ(), "ARC_CONFIG="+config)
		if out, err := command.CombinedOutput(); err != nil {
			t.Fatalf("start %s: %v: %s", program, err, out)
		}
		t.Cleanup(func() {
			if id, err := os.ReadFile(filepath.Join(dir, service+".pid")); err == nil {
				_ = exec.Command("kill", "-KILL", strings.TrimSpace(string(id))).Run()
			}
		})
	}
	l.until("the computing element answers", func() bool {
		connection, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // only whether it answers
		if err != nil {
			return false
		}
		return connection.Close() == nil
	})
	if err := os.RemoveAll(filepath.Join(home, ".arc")); err != nil { // jobs at an element of an earlier run
		t.Fatal(err)
	}
	if _, err := l.run("arcproxy"); err != nil {
		t.Fatal(err)
	}
	return element
}

// The factory brings pilots up and down by ARC, also when it was killed meanwhile.
func TestARCBurst(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	element := newARC(t, l)
	l.burst("arc", 20, func() *process {
		return l.factory("arc", "arc", "--max", "3", "--idle", "5s", "--every", "2s", "--", "--computing-element="+element)
	})
	jobs := make(map[string]bool)
	for _, p := range l.pilots() {
		if p.Job == "" || jobs[p.Job] {
			t.Errorf("pilot %+v", p)
		}
		jobs[p.Job] = true
	}
	if len(jobs) == 0 || len(jobs) > 6 { // three at once, and three once more where the first had left too soon
		t.Errorf("%d jobs", len(jobs))
	}
}
