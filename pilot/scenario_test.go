package pilot_test

import (
	"bufio"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/matcher"
	"github.com/pilotage-grid/pilotage/pilot/worker"
	"github.com/pilotage-grid/pilotage/task"
)

var rewrite = flag.Bool("rewrite", false, "write the scenarios' outcome anew: read it as a diff")

// TestScenarios plays the files of testdata: lines that begin at the margin
// are commands, indented ones what then happened.
func TestScenarios(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			before, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			after := play(t, string(before))
			if *rewrite {
				if err := os.WriteFile(file, []byte(after), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if string(before) != after {
				t.Errorf("%s has changed:\n%s", file, firstDifference(string(before), after))
			}
		})
	}
}

func firstDifference(before, after string) string {
	a, b := strings.Split(before, "\n"), strings.Split(after, "\n")
	for i := range max(len(a), len(b)) {
		var was, is string
		if i < len(a) {
			was = a[i]
		}
		if i < len(b) {
			is = b[i]
		}
		if was != is {
			return fmt.Sprintf("line %d\nwas %q\nis  %q", i+1, was, is)
		}
	}
	return ""
}

// play carries out the commands of a scenario and returns it with what
// happened.
func play(t *testing.T, text string) string {
	p := &player{t: t, w: newWorld(t.Errorf)}
	var out strings.Builder
	scanner := bufio.NewScanner(strings.NewReader(text))
	for scanner.Scan() {
		line := scanner.Text()
		if strings.HasPrefix(line, "  ") {
			continue
		}
		out.WriteString(line + "\n")
		if words := strings.Fields(line); len(words) > 0 && words[0] != "#" {
			p.carryOut(words)
			for _, note := range p.w.notes {
				out.WriteString("  " + note + "\n")
			}
			p.w.notes = nil
		}
	}
	return out.String()
}

// player carries out commands on a world.
type player struct {
	t *testing.T
	w *world
}

func (p *player) carryOut(words []string) {
	p.t.Helper()
	arguments, options := words[1:], make(map[string]string)
	var names []string
	for _, word := range arguments {
		if key, value, found := strings.Cut(word, "="); found {
			options[key] = value
		} else {
			names = append(names, word)
		}
	}
	w := p.w
	switch words[0] {
	case "pilots":
		for _, name := range names {
			p.pilot(name, options)
		}
	case "master":
		w.elect(w.node(task.PilotID(names[0])))
	case "tasks":
		p.tasks(names, options)
	case "run":
		w.run(p.duration(names[0]))
	case "finish":
		if !w.runUntil(p.duration(names[0]), func() bool { return w.queue.finished() && (w.idle() || w.noUploads) }) {
			w.note("NOT FINISHED")
		}
	case "kill":
		w.kill(w.node(task.PilotID(names[0])))
	case "suspect":
		w.suspect(w.node(task.PilotID(names[0])), p.duration(names[1]))
	case "cut":
		w.cut(w.node(task.PilotID(names[0])), w.node(task.PilotID(names[1])), p.duration(names[2]))
	case "drain":
		w.node(task.PilotID(names[0])).drainNow("its lifetime ends", 0)
	case "end":
		w.node(task.PilotID(names[0])).drainNow("told to stop", p.duration(names[1]))
	case "full":
		w.node(task.PilotID(names[0])).full = true
	case "stop":
		w.node(task.PilotID(names[0])).stepWorker(worker.PilotChanged{Lifetime: time.Hour, Stop: "its disk is full"})
	case "goon":
		w.node(task.PilotID(names[0])).stepWorker(worker.PilotChanged{Lifetime: time.Hour})
	case "leave":
		w.node(task.PilotID(names[0])).leave()
	case "evict":
		w.node(task.PilotID(names[0])).evict(*w.queue.files[name(names[1])])
	case "show":
		p.show()
	default:
		p.queue(words[0], names, options)
	}
}

// queue carries out commands about the queue and the circumstances.
func (p *player) queue(command string, names []string, options map[string]string) {
	p.t.Helper()
	w, q := p.w, p.w.queue
	switch command {
	case "settings":
		for key, value := range options {
			p.setting(key, value)
		}
	case "queue":
		q.away = names[0] == "away"
	case "confirm":
		w.confirm()
	case "cancel":
		q.cancel(id(names[0]))
	case "recall":
		q.recall(id(names[0]))
	case "lapse":
		q.lapse()
	case "drain-order":
		q.drain = append(q.drain, task.PilotID(names[0]))
		q.wake()
	case "fail":
		w.failures[names[0]] = p.number(names[1])
	case "lose":
		w.loseCall, w.loseReply = names[0] == "call", names[0] == "reply"
	case "verbose":
		w.verbose = true
	default:
		p.t.Fatalf("unknown command %q", command)
	}
}

func (p *player) setting(key, value string) {
	p.t.Helper()
	w, settings := p.w, &p.w.queue.settings
	switch key {
	case "prefill":
		settings.Prefill = p.number(value)
	case "wait":
		settings.LocalityWait = p.duration(value)
	case "period":
		settings.RoundEvery = p.duration(value)
	case "se":
		settings.SE = value
	case "upload":
		w.upload = p.duration(value)
	case "stage":
		w.stageTime = p.duration(value)
	case "uploads":
		w.noUploads, w.storageDown = value == "fail", value == "down"
	case "replicate":
		settings.Replicate = value
	case "solver":
		settings.Solver = value
	case "perslot":
		w.queue.perSlot = p.number(value)
	case "ttl":
		w.queue.ttl = p.duration(value)
	case "elected":
		w.slowStart = func(*node) time.Duration { return p.duration(value) }
	default:
		p.t.Fatalf("unknown setting %q", key)
	}
}

func (p *player) pilot(id string, options map[string]string) {
	slots := 1
	if value, found := options["slots"]; found {
		slots = p.number(value)
	}
	n := p.w.add(task.PilotID(id), slots, func(self *matcher.Pilot) {
		if value, found := options["memory"]; found {
			self.Resources.Memory = p.bytes(value)
		}
		if value, found := options["features"]; found {
			self.Features = strings.Split(value, ",")
		}
	})
	if value, found := options["cache"]; found {
		n.capacity = p.bytes(value)
		n.stepWorker(worker.CacheChanged{Cache: n.usage()})
	}
	if value, found := options["has"]; found {
		n.stepWorker(worker.CacheChanged{Keys: n.keep(*external(name(value))), Cache: n.usage()})
	}
}

func (p *player) tasks(names []string, options map[string]string) {
	var tasks []task.Task
	for _, short := range names {
		t := task.Task{
			ID: id(short), Shell: "true", Walltime: time.Hour, Retries: 3,
			Resources: task.Resources{Cores: 1, Memory: task.MiB},
		}
		for key, value := range options {
			switch key {
			case "in":
				for _, input := range strings.Split(value, ",") {
					t.Inputs = append(t.Inputs, task.Input{LFN: name(input), Name: input})
				}
			case "out":
				for _, output := range strings.Split(value, ",") {
					t.Outputs = append(t.Outputs, task.Output{LFN: name(output), Name: output})
				}
			case "memory":
				t.Resources.Memory = p.bytes(value)
			case "require":
				t.Require = value
			case "rank":
				t.Rank = value
			case "priority":
				t.Priority = p.number(value)
			case "run":
				p.w.runs[short] = p.duration(value)
			default:
				p.t.Fatalf("unknown option %q of tasks", key)
			}
		}
		tasks = append(tasks, t)
	}
	p.w.queue.submit(tasks...)
}

// show notes how things stand.
func (p *player) show() {
	q := p.w.queue
	names := []string{"blocked", "ready", "leased", "done", "failed", "cancelled"}
	for state, what := range names {
		var in []string
		for _, id := range q.order {
			if t := q.tasks[id]; t.state == queuedState(state) {
				in = append(in, id.Name())
			}
		}
		if len(in) > 0 {
			p.w.note("%s: %s", what, strings.Join(in, " "))
		}
	}
	for _, n := range p.w.live() {
		for _, id := range slices.SortedFunc(maps.Keys(n.sole), task.OutputID.Compare) {
			p.w.note("%s keeps %s of %s", n.id, id.LFN.Local(), attemptName(id.Attempt))
		}
		if running := n.worker.Running(); running > 0 {
			p.w.note("%s runs %d payloads", n.id, running)
		}
	}
}

func (p *player) duration(text string) time.Duration {
	d, err := time.ParseDuration(text)
	if err != nil {
		p.t.Fatal(err)
	}
	return d
}

func (p *player) bytes(text string) task.Bytes {
	size, err := task.ParseBytes(text)
	if err != nil {
		p.t.Fatal(err)
	}
	return size
}

func (p *player) number(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		p.t.Fatal(err)
	}
	return n
}

const workflow = task.WorkflowID("w-abcdefghij")

func id(name string) task.ID { return task.NewID(workflow, name) }

func name(file string) task.LFN { return task.Qualify(workflow, file) }
