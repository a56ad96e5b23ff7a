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

	pb "github.com/pilotage-grid/pilotage/proto/pilotage/v1"
)

const namespaceVariable = "PILOTAGE_TEST_NAMESPACE"

// Twenty pilots, each at a non-loopback address of its own, as on twenty
// worker nodes: the limits that libraries set for the outside world must not
// bite inside a site.
func TestTwentyPilotsAtOtherAddresses(t *testing.T) {
	t.Parallel()
	inOwnNamespace(t, twentyPilots)
}

// inOwnNamespace runs a test in a network namespace of its own.
func inOwnNamespace(t *testing.T, run func(*testing.T)) {
	t.Helper()
	inNamespaces(t, syscall.CLONE_NEWNET, run)
}

// inNamespaces runs a test in namespaces of its own: a process of this binary
// that runs the same test.
func inNamespaces(t *testing.T, flags uintptr, run func(*testing.T)) {
	t.Helper()
	if os.Getenv(namespaceVariable) != "" {
		run(t)
		return
	}
	command := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v", "-test.count=1", "-test.timeout=8m")
	command.Env = append(os.Environ(), namespaceVariable+"=1", binaryVariable+"="+binary)
	command.SysProcAttr = inNamespace(flags)
	out, err := command.CombinedOutput()
	if command.ProcessState == nil {
		t.Fatalf("cannot make a namespace: %v; %s", err, namespaceHint)
	}
	if err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
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
	// Every pilot reads the file that one of them made.
	var work strings.Builder
	for i, p := range g.pilots {
		fmt.Fprintf(&work, `
  work%d:
    require: 'pilot.id == "%s"'
    inputs: [seed]
    shell: "cksum seed | cut -d ' ' -f 1 > sum.%02d"
    outputs: [sum.%02d]`, i, p.id, i, i)
	}
	id := g.submitted("nodes", fmt.Sprintf(`
defaults: {memory: 64MiB, disk: 64MiB}
tasks:
  seed: {shell: "head -c 100000 /dev/urandom > seed", outputs: [seed]}%s
  same: {inputs: ["sum.{00..%02d}"], shell: "cat sum.* | sort -u | wc -l | tr -d ' ' > same", outputs: [same]}
outputs: [same]
`, &work, nodes-1))
	g.done(id)
	if got := g.output(id, "same"); got != "1\n" {
		t.Errorf("%s different checksums of one file", got)
	}
	// All pilots but the one that made the file have to get it. One whose question
	// stays without an answer for long reads the storage element by itself:
	// starved ones may, most must not. The sums, all alike, are one content.
	sums := observe(g, "all reads reported", func() (*pb.SourceSums, bool) {
		s := g.site("siteA").GetIntermediate()
		return s, reads(s) >= 2*nodes
	})
	if sums.GetPeerReads() < nodes/2 {
		t.Errorf("reads %v, want at least half of %d from peers", sums, nodes-1)
	}
	t.Logf("reads %v", sums)
}

// giveAddresses brings the loopback device up and gives it the nodes'
// addresses, which are none of the loopback network.
func giveAddresses(t *testing.T) {
	t.Helper()
	device := loopback{t}
	device.up("lo")
	for n := 1; n <= nodes; n++ {
		device.address(n, nodeAddress(n))
		device.netmask(n)
		device.up(alias(n))
	}
}

// takeAddresses takes the nodes' addresses away, and with them the traffic
// between pilots: what is connected hangs, what dials fails. The queue is at
// another address.
func takeAddresses(t *testing.T) {
	t.Helper()
	for n := 1; n <= nodes; n++ {
		loopback{t}.address(n, "0.0.0.0")
	}
}

func alias(n int) string { return fmt.Sprintf("lo:%d", n) }

// loopback is the loopback device of a test's namespace.
type loopback struct{ t *testing.T }

func (l loopback) set(device string, request uint, change func(*unix.Ifreq) error) {
	l.t.Helper()
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		l.t.Fatal(err)
	}
	defer func() { _ = unix.Close(socket) }()
	ask, err := unix.NewIfreq(device)
	if err == nil {
		err = change(ask)
	}
	if err == nil {
		err = unix.IoctlIfreq(socket, request, ask)
	}
	if err != nil {
		l.t.Fatalf("set up %s: %v; %s", device, err, namespaceHint)
	}
}

func (l loopback) up(device string) {
	l.t.Helper()
	l.set(device, unix.SIOCSIFFLAGS, func(ask *unix.Ifreq) error {
		ask.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
		return nil
	})
}

func (l loopback) address(n int, address string) {
	l.t.Helper()
	l.set(alias(n), unix.SIOCSIFADDR, func(ask *unix.Ifreq) error { return ask.SetInet4Addr(net.ParseIP(address).To4()) })
}

func (l loopback) netmask(n int) {
	l.t.Helper()
	l.set(alias(n), unix.SIOCSIFNETMASK, func(ask *unix.Ifreq) error { return ask.SetInet4Addr(net.IPv4Mask(255, 255, 255, 0)) })
}
