package integration

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	pb "github.com/pilotage-grid/pilotage/proto/pilotage/v1"
)

// ledgered is a workflow whose payloads write what they do into a ledger
// outside Pilotage, and their nonce into their output. Every output is final,
// so that its bytes can be compared with ledger and queue.
type ledgered struct {
	g       *grid
	name    string
	ledger  string
	tasks   map[string][]string // task -> the tasks whose outputs it reads
	seconds float64
	padding int // KiB added to each output
}

// newLedgered draws a workflow of three layers from a seed: chains, splits
// and merges.
func newLedgered(g *grid, seed uint64, width int) *ledgered {
	random := rand.New(rand.NewPCG(seed, 1))
	l := &ledgered{g: g, name: fmt.Sprintf("ledger%d", seed), ledger: filepath.Join(g.outside(), "ledger"), tasks: make(map[string][]string), seconds: 0.3}
	for i := range width {
		l.tasks[fmt.Sprintf("first%d", i)] = nil
	}
	for i := range width {
		reads := []string{fmt.Sprintf("first%d", i)} // a chain
		if random.IntN(2) == 0 {
			reads = append(reads, fmt.Sprintf("first%d", (i+1+random.IntN(width-1))%width)) // a merge
		}
		l.tasks[fmt.Sprintf("second%d", i)] = reads
	}
	for i := range width / 2 {
		l.tasks[fmt.Sprintf("third%d", i)] = []string{fmt.Sprintf("second%d", 2*i), fmt.Sprintf("second%d", 2*i+1)}
	}
	return l
}

func (l *ledgered) submit() {
	var text strings.Builder
	text.WriteString("defaults: {retries: 10, memory: 256MiB, disk: 256MiB}\ntasks:\n")
	for name, reads := range l.tasks {
		inputs, cat := []string{}, ""
		for _, read := range reads {
			inputs = append(inputs, read+".out")
			cat += "cat " + read + ".out; "
		}
		fmt.Fprintf(&text, "  %s:\n    inputs: [%s]\n    outputs: [%s.out]\n    shell: |\n", name, strings.Join(inputs, ", "), name)
		fmt.Fprintf(&text, "      n=$(od -An -N8 -tx8 /dev/urandom | tr -d ' ')\n")
		fmt.Fprintf(&text, "      echo \"start $PILOTAGE_ATTEMPT $n $(date +%%s%%N)\" >> %s\n", l.ledger)
		fmt.Fprintf(&text, "      sleep %.2f\n", l.seconds)
		fmt.Fprintf(&text, "      ( %secho \"%s $n\" ) > %s.out\n", cat, name, name)
		if l.padding > 0 {
			fmt.Fprintf(&text, "      head -c %dK /dev/zero | tr '\\0' x >> %s.out; echo >> %s.out\n", l.padding, name, name)
		}
		fmt.Fprintf(&text, "      echo \"end $PILOTAGE_ATTEMPT $n $(date +%%s%%N)\" >> %s\n", l.ledger)
	}
	text.WriteString("outputs: [")
	for name := range l.tasks {
		text.WriteString(name + ".out, ")
	}
	text.WriteString("]\n")
	l.g.must("submit", "-f", l.g.workflow(l.name, text.String()))
}

// wait follows the workflow to its end.
func (l *ledgered) wait() {
	l.g.t.Helper()
	out, errOut, code := l.g.run("workflow", "wait", l.name, "--timeout", "120s")
	if code != 0 {
		listed, _, _ := l.g.run("task", "list", l.name)
		l.g.t.Log(listed)
		l.g.t.Fatalf("workflow wait: exit %d\n%s%s", code, out, errOut)
	}
}

// reconcile checks from outside that every task has exactly one accepted
// outcome and the right bytes: the nonces in the outputs on the storage
// elements are those of payloads that ended, and each reader read the very
// bytes that were accepted of its producer.
func (l *ledgered) reconcile() {
	l.g.t.Helper()
	t := l.g.t
	ended := l.readLedger()
	_, tasks, _, _ := l.g.client()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	list, err := tasks.ListTasks(ctx, &pb.ListTasksRequest{Workflow: l.name, PageSize: 1000, Full: true})
	if err != nil {
		t.Fatal(err)
	}
	if len(list.GetTasks()) != len(l.tasks) {
		t.Fatalf("the queue lists %d tasks of %d", len(list.GetTasks()), len(l.tasks))
	}
	winners := make(map[string]string)
	for _, info := range list.GetTasks() {
		_, name, _ := strings.Cut(info.GetTask().GetId(), "/")
		accepted := 0
		for _, attempt := range info.GetAttempts() {
			if attempt.GetState() == pb.AttemptState_ATTEMPT_STATE_SUCCEEDED && attempt.GetOutcome().GetAttempt().GetGeneration() == info.GetGeneration() {
				accepted++
				winners[name] = fmt.Sprintf("%s/a%d", info.GetTask().GetId(), attempt.GetOutcome().GetNumber())
			}
		}
		if info.GetState() != pb.TaskState_TASK_STATE_DONE || accepted != 1 {
			t.Errorf("%s is %s with %d accepted outcomes", name, info.GetState(), accepted)
		}
	}
	out := filepath.Join(l.g.dir, "out-"+l.name)
	l.g.must("workflow", "outputs", l.name, "--to", out)
	nonces := make(map[string]map[string]string)
	for name := range l.tasks {
		nonces[name] = readNonces(t, filepath.Join(out, name+".out"))
	}
	for name, reads := range l.tasks {
		own := nonces[name][name]
		if own == "" || !ended[own] {
			t.Errorf("the output of %s has nonce %q, of no payload that ended", name, own)
		}
		for _, read := range reads {
			if got, want := nonces[name][read], nonces[read][read]; got != want {
				t.Errorf("%s read %s with nonce %q, accepted is %q", name, read, got, want)
			}
		}
	}
}

// readLedger returns the nonces of payloads that came to their end.
func (l *ledgered) readLedger() map[string]bool {
	l.g.t.Helper()
	file, err := os.Open(l.ledger)
	if err != nil {
		l.g.t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	ended := make(map[string]bool)
	scanner := bufio.NewScanner(file)
	for scanner.Scan() {
		if fields := strings.Fields(scanner.Text()); len(fields) == 4 && fields[0] == "end" {
			ended[fields[2]] = true
		}
	}
	return ended
}

// readNonces reads an output: lines "task nonce", of itself and of what it read.
func readNonces(t *testing.T, path string) map[string]string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	nonces := make(map[string]string)
	for line := range strings.SplitSeq(string(data), "\n") {
		if name, nonce, found := strings.Cut(line, " "); found {
			if other, twice := nonces[name]; twice && other != nonce {
				t.Errorf("%s holds two nonces of %s", path, name)
			}
			nonces[name] = nonce
		}
	}
	return nonces
}

// seeds are derived from the commit, so that every commit tries others; a
// failing one is printed and becomes a named test.
func seeds(t *testing.T) []uint64 {
	t.Helper()
	n := 3
	if os.Getenv("ONESEED") != "" {
		n = 1
	}
	if os.Getenv("PILOTAGE_TEST_LONG") != "" {
		n = 20
	}
	base := uint64(1)
	if out, err := exec.Command("git", "rev-parse", "--short=12", "HEAD").Output(); err == nil {
		if v, err := strconv.ParseUint(strings.TrimSpace(string(out)), 16, 64); err == nil {
			base = v
		}
	}
	list := make([]uint64, n)
	for i := range list {
		list[i] = (base + uint64(i)*7919) % 1_000_000
	}
	return list
}
