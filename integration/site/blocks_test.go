//go:build site

package site

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// Where the file system shares blocks, a payload gets a large input as a file of its own
// that takes no room, and what it writes to it reaches nobody else: a second copy would
// not fit beside the cached file.
func TestLargeInputsShareBlocks(t *testing.T) {
	t.Parallel()
	need(t, "mkfs.xfs")
	l := newLab(t)
	const size, written = 300 << 20, 1 << 20
	image, node := l.path("image"), l.path("node")
	if err := os.WriteFile(image, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(image, 512<<20); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(node, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, words := range [][]string{{"mkfs.xfs", "-q", image}, {"mount", "-o", "loop", image, node}} {
		if out, err := exec.Command(words[0], words[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", words, err, out)
		}
	}
	t.Cleanup(func() {
		if out, err := exec.Command("umount", node).CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	})
	l.own(node)
	content := make([]byte, size)
	_, _ = rand.Read(content)
	if err := os.WriteFile(l.path("big"), content, 0o644); err != nil {
		t.Fatal(err)
	}
	sum := func() string {
		digest := sha256.Sum256(content)
		return hex.EncodeToString(digest[:])
	}
	whole := sum()
	clear(content[:written])
	changed := sum()
	pilot := l.start("pilot", "pilot", "--access", l.path("queue", "access", "pilot-siteA.json"), "--cache", l.path("node", "cache"),
		"--cache-size", "310MiB", "--disk", "40MiB", "--slots", "1", "--memory", "1GiB", "--lifetime", "1h")
	l.until("the pilot is there", func() bool { return strings.Contains(pilot.said(), "ready pilot=") })
	if err := os.WriteFile(l.path("flow.yaml"), []byte(`apiVersion: pilotage/v1
kind: Workflow
name: blocks
defaults: {retries: 0, memory: 100MiB, disk: 20MiB}
files: {big: {source: ./big}}
tasks:
  writes:
    inputs: [big]
    shell: "chmod 644 big && dd if=/dev/zero of=big bs=1M count=1 conv=notrunc && sha256sum big > changed"
    outputs: [changed]
  reads:
    inputs: [big, changed]
    shell: "sha256sum big > whole"
    outputs: [whole]
outputs: [changed, whole]
`), 0o644); err != nil {
		t.Fatal(err)
	}
	id, _, _ := strings.Cut(strings.TrimSpace(l.must("submit", "-f", l.path("flow.yaml"), "--upload", "--parsable")), " ")
	l.done(id)
	l.must("workflow", "outputs", id, "--to", l.path("results"))
	for name, want := range map[string]string{"changed": changed, "whole": whole} {
		if got, err := os.ReadFile(l.path("results", name)); err != nil || !strings.HasPrefix(string(got), want) {
			t.Errorf("%s is %q, wanted %s: %v", name, got, want, err)
		}
	}
}
