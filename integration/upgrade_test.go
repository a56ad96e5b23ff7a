package integration

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// protocolFile holds the number of what pilots of one site speak with each other.
const protocolFile = "dht/node/protocol.go"

// protocolIn reads the protocol of the sources in a folder, and what stands before and
// after its number.
func protocolIn(t *testing.T, dir string) (protocol int, before, after string) {
	t.Helper()
	source, err := os.ReadFile(filepath.Join(dir, protocolFile))
	if err != nil {
		t.Fatal(err)
	}
	before, after, _ = strings.Cut(string(source), "const Protocol = ")
	if _, err := fmt.Sscan(after, &protocol); err != nil {
		t.Fatalf("%s does not say its protocol: %v", protocolFile, err)
	}
	return protocol, before, strings.TrimPrefix(after, fmt.Sprint(protocol))
}

// unpackRelease unpacks the sources of the commit that .ci/release-before names. A clone
// without its history has today's only, which then stand for those of the release before.
func unpackRelease(t *testing.T, dir string) {
	t.Helper()
	named, err := os.ReadFile("../.ci/release-before")
	if err != nil {
		t.Fatal(err)
	}
	for _, commit := range []string{strings.TrimSpace(string(named)), "HEAD"} {
		pack := exec.Command("git", "archive", commit)
		pack.Dir = ".." // else git packs this folder only
		tree, err := pack.Output()
		if err != nil {
			t.Logf("commit %s of .ci/release-before is not in this clone: %v", commit, err)
			continue
		}
		unpack := exec.Command("tar", "--extract", "--directory", dir)
		unpack.Stdin = bytes.NewReader(tree)
		if out, err := unpack.CombinedOutput(); err != nil {
			t.Fatalf("unpack the release before: %v\n%s", err, out)
		}
		return
	}
	t.Fatal("no sources of a release before")
}

var releaseBuilds sync.Mutex

// releaseBefore builds the release before. Its pilots speak that release's protocol with
// each other, or else an older one than today's.
func releaseBefore(t *testing.T, older bool) (binary string, same bool) {
	t.Helper()
	noteSources(t)
	dir := t.TempDir()
	unpackRelease(t, dir)
	today, _, _ := protocolIn(t, "..")
	protocol, before, after := protocolIn(t, dir)
	if older && protocol == today {
		protocol--
		writeFile(t, filepath.Join(dir, protocolFile), fmt.Sprint(before, "const Protocol = ", protocol, after))
	}
	binary = filepath.Join(dir, "pilotage")
	// The flavour of `make build`, whose dependencies are compiled already; one build after
	// the other, as the second one takes most from the first.
	releaseBuilds.Lock()
	defer releaseBuilds.Unlock()
	build := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w", "-o", binary, "./cmd/pilotage")
	build.Dir, build.Env = dir, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the release before: %v\n%s", err, out)
	}
	return binary, protocol == today
}

// A queue is replaced by that of this release while pilots of the release before work:
// their attempts deliver, new pilots join them, or wait until they have left if they
// speak another protocol with each other; every task runs once.
func TestRollingUpgrade(t *testing.T) {
	t.Parallel()
	for _, older := range []bool{false, true} {
		t.Run(fmt.Sprintf("older protocol %v", older), func(t *testing.T) {
			t.Parallel()
			upgrade(t, older)
		})
	}
}

func upgrade(t *testing.T, older bool) {
	t.Helper()
	old, same := releaseBefore(t, older)
	g := newGridOf(t, old, "siteA")
	before := g.addPilots("siteA", "siteA")
	l := newLedgered(g, 1, 6)
	l.gated = true
	l.submit()
	begun := func(n int) {
		observe(g, "tasks that have begun", func() (int, bool) { return 0, len(l.starts()) >= n })
	}
	begun(2)
	g.queue.terminate(t, time.Minute)
	g.binary = binary
	g.startQueue()
	after := []*pilotProcess{g.startPilot("siteA"), g.startPilot("siteA")}
	if same {
		begun(4) // with gates closed these are attempts of the new ones
		l.open("all")
		for _, p := range before {
			g.must("pilot", "drain", p.id)
		}
	} else {
		observe(g, "that pilots of the release before are drained", func() (int, bool) {
			out := g.must("pilot", "list")
			return 0, strings.Contains(out, "draining") && strings.Contains(after[0].log.String(), "drained first")
		})
		if n := len(l.starts()); n != 2 {
			t.Errorf("%d tasks have begun while pilots of two protocols were there", n)
		}
		l.open("all")
	}
	observe(g, "that they leave", func() (int, bool) { return 0, !before[0].running() && !before[1].running() })
	for _, p := range after {
		p.awaitReady(t)
	}
	l.wait()
	l.reconcile()
	for name, times := range l.starts() {
		if times != 1 {
			t.Errorf("%s was run %d times", name, times)
		}
	}
}
