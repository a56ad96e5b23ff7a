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

	"google.golang.org/protobuf/proto"

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
	padding int    // KiB added to each output
	gated   bool   // payloads wait until open lets them through
	site    string // where every second task of the first layer has to run; "" is anywhere
	linked  bool   // outputs have a second hard link, so that pilots copy them into their caches
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
			cat += "grep ' ' " + read + ".out; " // all but the padding
		}
		fmt.Fprintf(&text, "  %s:\n    inputs: [%s]\n    outputs: [%s.out]\n", name, strings.Join(inputs, ", "), name)
		if l.site != "" && len(reads) == 0 && strings.ContainsAny(name[len(name)-1:], "02468") {
			fmt.Fprintf(&text, "    require: 'pilot.site == \"%s\"'\n", l.site)
		}
		fmt.Fprintf(&text, "    shell: |\n")
		fmt.Fprintf(&text, "      n=$(od -An -N8 -tx8 /dev/urandom | tr -d ' ')\n")
		fmt.Fprintf(&text, "      echo \"start $PILOTAGE_TASK/$PILOTAGE_PILOT $n $(date +%%s%%N)\" >> %s\n", l.ledger)
		if l.gated {
			fmt.Fprintf(&text, "      until test -e %s -o -e %s; do sleep 0.05; done\n", l.gate("all"), l.gate(name))
		} else {
			fmt.Fprintf(&text, "      sleep %.2f\n", l.seconds)
		}
		fmt.Fprintf(&text, "      ( %secho \"%s $n\" ) > %s.out\n", cat, name, name)
		if l.padding > 0 {
			fmt.Fprintf(&text, "      head -c %dK /dev/zero | tr '\\0' x >> %s.out; echo >> %s.out\n", l.padding, name, name)
		}
		if l.linked {
			fmt.Fprintf(&text, "      ln %s.out second-link\n", name)
		}
		fmt.Fprintf(&text, "      echo \"end $PILOTAGE_TASK/$PILOTAGE_PILOT $n $(date +%%s%%N)\" >> %s\n", l.ledger)
	}
	text.WriteString("outputs: [")
	for name := range l.tasks {
		text.WriteString(name + ".out, ")
	}
	text.WriteString("]\n")
	l.g.must("submit", "-f", l.g.workflow(l.name, text.String()))
}

func (l *ledgered) gate(task string) string {
	return filepath.Join(l.g.outside(), "gate-"+l.name+"-"+task)
}

// open lets the payloads of a task, or of "all", go on.
func (l *ledgered) open(task string) {
	l.g.t.Helper()
	writeFile(l.g.t, l.gate(task), "")
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
// outcome and the right bytes: the nonce in each output on the storage
// elements is, says the ledger, that of the accepted attempt, which came to
// its end, and each reader read the very bytes that were accepted of its
// producer.
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
	winners := make(map[string]string) // task -> its accepted attempt, as payloads know it
	for _, info := range list.GetTasks() {
		_, name, _ := strings.Cut(info.GetTask().GetId(), "/")
		accepted := 0
		for _, attempt := range info.GetAttempts() {
			if attempt.GetState() != pb.AttemptState_ATTEMPT_STATE_SUCCEEDED || attempt.GetOutcome().GetAttempt().GetGeneration() != info.GetGeneration() {
				continue
			}
			accepted++
			if proto.Equal(attempt.GetOutcome().GetAttempt(), info.GetWinner()) {
				winners[name] = info.GetTask().GetId() + "/" + info.GetWinner().GetPilot()
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
		if wrote := ended[own]; own == "" || wrote == "" || wrote != winners[name] {
			t.Errorf("the output of %s has nonce %q, which attempt %q wrote at its end; accepted is attempt %q", name, own, wrote, winners[name])
		}
		for _, read := range reads {
			if got, want := nonces[name][read], nonces[read][read]; got != want {
				t.Errorf("%s read %s with nonce %q, accepted is %q", name, read, got, want)
			}
		}
	}
}

// readLedger returns the nonces of payloads that came to their end, with the
// attempts that drew them.
func (l *ledgered) readLedger() map[string]string {
	l.g.t.Helper()
	file, err := os.Open(l.ledger)
	if err != nil {
		l.g.t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	ended := make(map[string]string)
	scanner := bufio.NewScanner(file)
	for scanner.Scan() {
		if fields := strings.Fields(scanner.Text()); len(fields) == 4 && fields[0] == "end" {
			if other := ended[fields[2]]; other != "" {
				l.g.t.Errorf("nonce %s belongs to attempts %s and %s", fields[2], other, fields[1])
			}
			ended[fields[2]] = fields[1]
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

// seedVariable names the seed to repeat, instead of those of the commit.
const seedVariable = "PILOTAGE_TEST_SEED"

// seeds are derived from the commit, so that every commit tries others. A
// failing one is printed, with the way to repeat it.
func seeds(t *testing.T) []uint64 {
	t.Helper()
	if text := os.Getenv(seedVariable); text != "" {
		seed, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatalf("%s: %v", seedVariable, err)
		}
		return []uint64{seed}
	}
	n := 3
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
