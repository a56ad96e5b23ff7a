package integration

import (
	"context"
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	pb "github.com/pilotage-grid/pilotage/proto/pilotage/v1"
)

// work is what the nemesis has a queue do: workflows drawn from the seed, of
// which the bytes of every file are known beforehand.
type work struct {
	n              *nemesis
	random         *rand.Rand
	abreast, width int // workflows at once, and tasks of a layer

	mu    sync.Mutex
	flows []*flow
	said  map[string]int // what submissions were answered when they were not taken
}

// flow is one workflow.
type flow struct {
	name, id string // no id: not acknowledged
	ledger   string
	tasks    []*flowTask // makers first
	ended    atomic.Bool // seen as such
}

type flowTask struct {
	name     string
	reads    []*flowTask
	size     int // of its output
	out, err int // bytes that it writes to its streams
	seconds  float64
	site     string // where it must run; "" is anywhere
	final    bool
	content  []byte
}

// draw makes a workflow: a chain, a diamond, or layers with splits and merges.
func (w *work) draw(number int) *flow {
	random := w.random
	f := &flow{name: fmt.Sprintf("nemesis%d", number)}
	f.ledger = filepath.Join(w.n.outside(), f.name)
	add := func(name string, reads ...*flowTask) *flowTask {
		t := &flowTask{name: name, reads: reads, size: 1 << (10 + random.IntN(11)), seconds: .2 + 1.3*random.Float64()}
		t.size -= random.IntN(512)
		if random.IntN(3) == 0 {
			t.site = w.n.sites[random.IntN(len(w.n.sites))].name
		}
		switch random.IntN(6) {
		case 0: // just as much as travels with an outcome
			t.out, t.err = 64<<10, 64<<10
		case 1: // more than that
			t.out, t.err = 100<<10, 1<<10
		default:
			t.out = random.IntN(2 << 10)
		}
		f.tasks = append(f.tasks, t)
		return t
	}
	switch number % 3 {
	case 0:
		last := add("begin")
		for i := range 3 + random.IntN(3) {
			last = add(fmt.Sprintf("link%d", i), last)
		}
		last.final = true
	case 1:
		top := add("top")
		var sides []*flowTask
		for i := range w.width {
			sides = append(sides, add(fmt.Sprintf("side%d", i), top))
		}
		add("bottom", sides...).final = true
	default:
		var layer []*flowTask
		for i := range w.width {
			layer = append(layer, add(fmt.Sprintf("first%d", i)))
		}
		for i, left := range layer {
			right := layer[(i+1+random.IntN(w.width-1))%w.width]
			add(fmt.Sprintf("second%d", i), left, right).final = true
		}
	}
	for _, t := range f.tasks {
		t.final = t.final || random.IntN(8) == 0
		t.make()
	}
	return f
}

// make computes the output, as the payload does.
func (t *flowTask) make() {
	sum := sha256.New()
	_, _ = fmt.Fprintln(sum, t.name)
	for _, read := range t.reads {
		_, _ = sum.Write(read.content)
	}
	line := fmt.Sprintf("%s %x\n", t.name, sum.Sum(nil))
	t.content = []byte(strings.Repeat(line, t.size/len(line)+1)[:t.size])
}

func (t *flowTask) file() string { return t.name + ".out" }

// text is the workflow's file.
func (f *flow) text() string {
	var text strings.Builder
	fmt.Fprintf(&text, "defaults: {retries: 30, memory: 64MiB, disk: 4MiB, walltime: 5m, env: {NEMESIS: '%s'}}\ntasks:\n", f.ledger)
	var final []string
	for _, t := range f.tasks {
		var reads []string
		for _, read := range t.reads {
			reads = append(reads, read.file())
		}
		if t.final {
			final = append(final, t.file())
		}
		fmt.Fprintf(&text, "  %s:\n    inputs: [%s]\n    outputs: [%s]\n", t.name, strings.Join(reads, ", "), t.file())
		if t.site != "" {
			fmt.Fprintf(&text, "    require: 'pilot.site == \"%s\"'\n", t.site)
		}
		fmt.Fprintf(&text, "    shell: |\n      set -e\n")
		fmt.Fprintf(&text, "      echo \"start $PILOTAGE_TASK/$PILOTAGE_PILOT $(date +%%s%%N)\" >> %s\n", f.ledger)
		fmt.Fprintf(&text, "      sleep %.2f\n", t.seconds)
		fmt.Fprintf(&text, "      sum=$( ( echo %s; cat %s /dev/null ) | sha256sum | cut -c 1-64 )\n", t.name, strings.Join(reads, " "))
		fmt.Fprintf(&text, "      yes \"%s $sum\" | head -c %d > %s\n", t.name, t.size, t.file())
		fmt.Fprintf(&text, "      yes \"said by %s\" | head -c %d\n", t.name, t.out)
		fmt.Fprintf(&text, "      yes \"complained by %s\" | head -c %d >&2\n", t.name, t.err)
		fmt.Fprintf(&text, "      echo \"end $PILOTAGE_TASK/$PILOTAGE_PILOT $(date +%%s%%N)\" >> %s\n", f.ledger)
	}
	fmt.Fprintf(&text, "outputs: [%s]\n", strings.Join(final, ", "))
	return text.String()
}

// run submits workflow after workflow, as many abreast as are wanted, until
// the time for new ones is over and the last one is acknowledged.
func (w *work) run(ctx context.Context, over <-chan struct{}) {
	again := time.NewTicker(300 * time.Millisecond)
	defer again.Stop()
	var next *flow
	for number := 1; ; {
		select {
		case <-ctx.Done():
			return
		case <-again.C:
		}
		if next == nil {
			select {
			case <-over:
				return
			default:
			}
			if w.open(ctx) >= w.abreast {
				continue
			}
			next = w.draw(number)
			number++
		}
		if w.submit(next) {
			next = nil
		}
	}
}

// submit tries once; what is acknowledged is kept from then on. A repeated
// call has the same key.
func (w *work) submit(f *flow) bool {
	path := w.n.workflow(f.name, f.text())
	out, said, code := w.n.run("submit", "-f", path, "--parsable", "--key", fmt.Sprintf("%d-%s", w.n.seed, f.name))
	w.mu.Lock()
	defer w.mu.Unlock()
	if code != 0 {
		w.said[fmt.Sprintf("exit %d", code)]++
		w.n.tell("submit %s: exit %d: %s", f.name, code, strings.TrimSpace(said))
		return false
	}
	f.id = strings.TrimSpace(out)
	w.flows = append(w.flows, f)
	w.n.tell("submitted %s as %s, %d tasks", f.name, f.id, len(f.tasks))
	return true
}

// open counts the workflows that have not ended, as far as the queue can say.
func (w *work) open(ctx context.Context) int {
	open := 0
	for _, f := range w.all() {
		if f.ended.Load() {
			continue
		}
		open++
		var state pb.WorkflowState
		err := w.n.ask(ctx, func(ctx context.Context, c queueClients) error {
			reply, err := c.tasks.GetWorkflow(ctx, &pb.GetWorkflowRequest{Workflow: f.id})
			state = reply.GetWorkflow().GetState()
			return err
		})
		if err == nil && state != pb.WorkflowState_WORKFLOW_STATE_RUNNING {
			f.ended.Store(true)
			open--
			w.n.tell("%s is %s", f.id, state)
		}
	}
	return open
}

func (w *work) all() []*flow {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.flows)
}

// mayBeSpoiled tells whether a file on a storage element is one that the queue
// can have made again when somebody needs it: no final output.
func (w *work) mayBeSpoiled(name string) bool {
	for _, f := range w.all() {
		if rest, own := strings.CutPrefix(name, f.id+"/"); own && !f.ended.Load() {
			task, _, _ := strings.Cut(rest, "/")
			return slices.ContainsFunc(f.tasks, func(t *flowTask) bool { return t.name == task && !t.final })
		}
	}
	return false
}

// events counts the lines that payloads wrote into their ledgers, by task and pilot.
func (f *flow) events() (started, ended map[string]int, err error) {
	started, ended = make(map[string]int), make(map[string]int)
	data, err := os.ReadFile(f.ledger)
	if os.IsNotExist(err) {
		return started, ended, nil
	}
	for line := range strings.Lines(string(data)) {
		if fields := strings.Fields(line); len(fields) == 3 {
			switch fields[0] {
			case "start":
				started[fields[1]]++
			case "end":
				ended[fields[1]]++
			}
		}
	}
	return started, ended, err
}
