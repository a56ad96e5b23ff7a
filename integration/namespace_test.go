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
// bite inside a site. The test runs itself in a namespace of its own.
func TestTwentyPilotsAtOtherAddresses(t *testing.T) {
	if os.Getenv(namespaceVariable) != "" {
		twentyPilots(t)
		return
	}
	command := exec.Command(os.Args[0], "-test.run=^TestTwentyPilotsAtOtherAddresses$", "-test.v", "-test.count=1", "-test.timeout=8m")
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
