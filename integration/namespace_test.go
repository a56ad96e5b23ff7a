package integration

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

const namespaceVariable = "PILOTAGE_TEST_NAMESPACE"

// Twenty pilots, each at a non-loopback address of its own, as on twenty
// worker nodes: the limits that libraries set for the outside world must not
// bite inside a site. The test runs itself in a namespace of its own.
func TestTwentyPilotsAtOtherAddresses(t *testing.T) {
	if os.Getenv(namespaceVariable) != "" {
		twentyPilots(t)
		return
	}
	command := exec.Command(os.Args[0], "-test.run=^TestTwentyPilotsAtOtherAddresses$", "-test.v", "-test.count=1", "-test.timeout=4m")
	command.Env = append(os.Environ(), namespaceVariable+"=1", binaryVariable+"="+binary)
	command.SysProcAttr = inNamespace(syscall.CLONE_NEWNET)
	out, err := command.CombinedOutput()
	if command.ProcessState == nil {
		t.Fatalf("cannot make a namespace: %v; %s", err, namespaceHint)
	}
	if err != nil || !strings.Contains(string(out), "--- PASS: TestTwentyPilotsAtOtherAddresses") {
		t.Errorf("in the namespace: %v\n%s", err, out)
	}
}

const nodes = 20

func nodeAddress(n int) string { return fmt.Sprintf("10.9.0.%d", n) }

func twentyPilots(t *testing.T) {
	giveAddresses(t)
	g := newGrid(t, "siteA")
	for n := 1; n <= nodes; n++ {
		g.startPilot("siteA", "--advertise", nodeAddress(n))
	}
	for _, p := range g.pilots {
		p.awaitReady(t)
	}
	for i, p := range g.pilots {
		if address := g.pilot(p.id).GetContact().GetAddresses()[0]; !strings.HasPrefix(address, "/ip4/"+nodeAddress(i+1)+"/tcp/") {
			t.Errorf("pilot %d is at %s", i+1, address)
		}
	}
	id := g.submitted("nodes", `
defaults: {memory: 64MiB, disk: 64MiB}
tasks:
  seed: {shell: "head -c 100000 /dev/urandom > seed", outputs: [seed]}
  work:
    foreach: {n: "{00..59}"}
    inputs: [seed]
    shell: "sleep 0.5; cksum seed | cut -d ' ' -f 1 > sum.{n}"
    outputs: ["sum.{n}"]
  same: {inputs: ["sum.{00..59}"], shell: "cat sum.* | sort -u | wc -l | tr -d ' ' > same", outputs: [same]}
outputs: [same]
`)
	g.done(id)
	if got := g.output(id, "same"); got != "1\n" {
		t.Errorf("%s different checksums of one file", got)
	}
	workers := make(map[string]bool)
	for n := range 60 {
		workers[g.task(fmt.Sprintf("%s/work[%02d]", id, n)).GetAttempts()[0].GetOutcome().GetAttempt().GetPilot()] = true
	}
	if len(workers) < nodes*3/4 {
		t.Errorf("%d of %d pilots worked", len(workers), nodes)
	}
	sums := g.site("siteA").GetIntermediate()
	if sums.GetPeerReads() == 0 || sums.GetSeReads() > 1 {
		t.Errorf("reads %v, want them from peers", sums)
	}
	t.Logf("%d pilots worked; reads %v", len(workers), sums)
}

// giveAddresses brings the loopback device up and gives it the nodes'
// addresses, which are none of the loopback network.
func giveAddresses(t *testing.T) {
	t.Helper()
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Close(socket) }()
	set := func(device string, request uint, change func(*unix.Ifreq) error) {
		t.Helper()
		ask, err := unix.NewIfreq(device)
		if err == nil {
			err = change(ask)
		}
		if err == nil {
			err = unix.IoctlIfreq(socket, request, ask)
		}
		if err != nil {
			t.Fatalf("set up %s: %v; %s", device, err, namespaceHint)
		}
	}
	up := func(ask *unix.Ifreq) error {
		ask.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
		return nil
	}
	set("lo", unix.SIOCSIFFLAGS, up)
	for n := 1; n <= nodes; n++ {
		device := fmt.Sprintf("lo:%d", n)
		set(device, unix.SIOCSIFADDR, func(ask *unix.Ifreq) error { return ask.SetInet4Addr(net.ParseIP(nodeAddress(n)).To4()) })
		set(device, unix.SIOCSIFNETMASK, func(ask *unix.Ifreq) error { return ask.SetInet4Addr(net.IPv4Mask(255, 255, 255, 0)) })
		set(device, unix.SIOCSIFFLAGS, up)
	}
}
