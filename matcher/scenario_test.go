package matcher

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/pilotage-grid/pilotage/task"
)

var rewrite = flag.Bool("rewrite", false, "write what the scenarios under testdata give now")

// TestScenarios plays the files testdata/*.txt: each line that is a command is
// followed by what the site answers, indented. The commands are
//
//	class NO [cores=N] [memory=SIZE] [rank=NAME] [require=EXPRESSION to the end]
//	pilot ID [cores=N] [memory=SIZE] [cache=a,b]
//	task NO class=NO [order=N] [priority=N] [inputs=name:size:source,...]
//	list                 the pilots see the tasks so far and answer
//	cache ID +a -b       files come into a pilot's cache or leave it
//	places ID [slots=N] [cores=N] [prefill=N]
//	leave ID, end NO, refused NO, solve, why CLASS, infeasible
func TestScenarios(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := play(t, string(text))
			if *rewrite {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			} else if got != string(text) {
				t.Errorf("%s plays otherwise now; see the difference with -rewrite:\n%s", file, got)
			}
		})
	}
}

// play returns the scenario with the answers that it gives now.
func play(t *testing.T, text string) string {
	s := newScenario()
	var played strings.Builder
	for _, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		if strings.HasPrefix(line, "  ") {
			continue
		}
		played.WriteString(line + "\n")
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		for _, answer := range s.command(t, line) {
			played.WriteString("  " + answer + "\n")
		}
	}
	return played.String()
}

type scenario struct {
	matrix   *Matrix
	compiler *Compiler
	order    []task.PilotID
	pilots   map[task.PilotID]*livePilot
	classes  map[uint32]task.Class
	delta    ListDelta
	list     ListSnapshot
}

func newScenario() *scenario {
	return &scenario{
		matrix: NewMatrix(testTerm), compiler: NewCompiler(16),
		pilots: make(map[task.PilotID]*livePilot), classes: make(map[uint32]task.Class),
		list:  ListSnapshot{Version: ListVersion{Term: testTerm}, Rates: DefaultRates()},
		delta: ListDelta{Base: ListVersion{Term: testTerm}, Version: ListVersion{Term: testTerm, N: 1}},
	}
}

// options reads key=value words; require takes the rest of the line.
func options(words []string) map[string]string {
	found := make(map[string]string)
	for i, word := range words {
		key, value, _ := strings.Cut(word, "=")
		if key == "require" {
			_, found[key], _ = strings.Cut(strings.Join(words[i:], " "), "=")
			break
		}
		found[key] = value
	}
	return found
}

func whole(text string) int {
	value, err := strconv.Atoi(text)
	if err != nil && text != "" {
		panic(err)
	}
	return value
}

func size(text string) task.Bytes {
	if text == "" {
		return 0
	}
	value, err := task.ParseBytes(text)
	if err != nil {
		panic(err)
	}
	return value
}

func (s *scenario) command(t *testing.T, line string) []string {
	words := strings.Fields(line)
	name, with := "", options(words[1:])
	if len(words) > 1 {
		name = words[1]
	}
	pilot := task.PilotID(name)
	switch words[0] {
	case "class":
		class := task.Class{Require: with["require"], Rank: with["rank"], Resources: task.Resources{Cores: whole(with["cores"]), Memory: size(with["memory"])}}
		s.classes[uint32(whole(name))] = class
		s.delta.Classes = append(s.delta.Classes, ListClass{uint32(whole(name)), class})
		s.matrix.AddClass(s.delta.Classes[len(s.delta.Classes)-1])
	case "pilot":
		return s.join(pilot, with)
	case "task":
		s.addTask(t, uint64(whole(name)), with)
	case "list":
		return s.broadcast(t)
	case "cache":
		return s.turnOver(t, s.pilots[pilot], words[2:])
	case "places":
		s.matrix.SetPlaces(pilot, Places{Free: task.Resources{Cores: whole(with["cores"]), Memory: 1 << 50}, FreeSlots: whole(with["slots"]), Prefill: whole(with["prefill"])})
	case "leave":
		s.matrix.RemovePilot(pilot)
	case "end":
		s.matrix.RemoveTask(uint64(whole(name)))
	case "refused":
		s.matrix.SetReady(uint64(whole(name)), true)
	case "solve":
		return s.solve()
	case "why":
		return []string{fmt.Sprintf("%+v", s.matrix.WhyNot(uint32(whole(name))))}
	case "infeasible":
		return []string{fmt.Sprint(s.matrix.Infeasible())}
	default:
		t.Fatalf("unknown command %q", line)
	}
	return nil
}

func (s *scenario) join(id task.PilotID, with map[string]string) []string {
	p := &livePilot{cache: make(map[task.FileKey]bool)}
	p.pilot = Pilot{ID: id, Resources: task.Resources{Cores: whole(with["cores"]), Memory: size(with["memory"])}, Features: strings.Split(with["features"], ",")}
	for _, file := range strings.Split(with["cache"], ",") {
		p.cache[task.FileKey(file)] = true
	}
	p.evaluator = NewEvaluator(p.pilot, func(key task.FileKey) (task.Bytes, bool) { return 0, p.cache[key] }, s.compiler)
	s.pilots[id] = p
	s.order = append(s.order, id)
	p.evaluator.Reset(s.list)
	row := p.evaluator.Row()
	s.matrix.SetRow(row)
	return describe(id, row.Classes, row.Exceptions, nil)
}

func (s *scenario) addTask(t *testing.T, no uint64, with map[string]string) {
	entry := &ListEntry{No: no, Version: s.delta.Version.N, Class: uint32(whole(with["class"]))}
	class := s.classes[entry.Class]
	entry.Task = &task.Task{Require: class.Require, Rank: class.Rank, Resources: class.Resources, Priority: whole(with["priority"])}
	for _, input := range strings.Split(with["inputs"], ",") {
		if name, rest, found := strings.Cut(input, ":"); found {
			amount, source, _ := strings.Cut(rest, ":")
			from := map[string]task.Source{"peer": task.SourcePeer, "se": task.SourceSE, "remote": task.SourceRemote}[source]
			entry.Files = append(entry.Files, FileInfo{Key: task.FileKey(name), LFN: task.LFN(name), Size: size(amount), Source: from})
		}
	}
	rank, err := s.compiler.Rank(class.Rank)
	if err != nil {
		t.Fatal(err)
	}
	s.delta.Add = append(s.delta.Add, entry)
	s.matrix.AddTask(MatrixTask{
		No: no, Class: entry.Class, Version: entry.Version, EntryBase: rank.EntryBase(entry.Task, entry.Files, s.list.Rates),
		Order: uint64(whole(with["order"])), Priority: entry.Task.Priority,
	})
	s.matrix.SetReady(no, true)
}

func (s *scenario) broadcast(t *testing.T) (answers []string) {
	for _, id := range s.order {
		update, err := s.pilots[id].evaluator.Apply(s.delta)
		if err != nil {
			t.Fatal(err)
		}
		answers = append(answers, s.update(t, update)...)
	}
	s.list.Version = s.delta.Version
	s.list.Classes = append(s.list.Classes, s.delta.Classes...)
	s.list.Entries = append(s.list.Entries, s.delta.Add...)
	s.delta = ListDelta{Base: s.list.Version, Version: ListVersion{Term: testTerm, N: s.list.Version.N + 1}}
	return answers
}

func (s *scenario) turnOver(t *testing.T, p *livePilot, changes []string) []string {
	var keys []task.FileKey
	for _, change := range changes {
		p.cache[task.FileKey(change[1:])] = change[0] == '+'
		keys = append(keys, task.FileKey(change[1:]))
	}
	return s.update(t, p.evaluator.FilesChanged(keys...))
}

func (s *scenario) update(t *testing.T, update RowUpdate) []string {
	if err := s.matrix.UpdateRow(update); err != nil && !errors.Is(err, ErrRowGap) {
		t.Fatal(err)
	}
	return describe(update.Pilot, update.Classes, update.Set, update.Clear)
}

func (s *scenario) solve() (answers []string) {
	for _, a := range s.matrix.Solve(Greedy) {
		kind := "starts"
		if a.Prefill {
			kind = "keeps"
		}
		answers = append(answers, fmt.Sprintf("%s %s %d, rank %.4g", a.Pilot, kind, a.No, a.Rank))
	}
	return append(answers, fmt.Sprintf("%d wait", s.matrix.Ready()))
}

func describe(pilot task.PilotID, classes []ClassAnswer, set []Exception, clear []uint64) (lines []string) {
	for _, c := range classes {
		switch {
		case !c.Feasible:
			lines = append(lines, fmt.Sprintf("%s cannot run class %d: %s", pilot, c.Class, c.FailedClause))
		case c.PerTask:
			lines = append(lines, fmt.Sprintf("%s ranks class %d task by task", pilot, c.Class))
		default:
			lines = append(lines, fmt.Sprintf("%s ranks class %d: %.4g", pilot, c.Class, c.Base))
		}
	}
	for _, e := range set {
		if e.Infeasible {
			lines = append(lines, fmt.Sprintf("%s cannot run %d: %s", pilot, e.No, e.FailedClause))
		} else {
			lines = append(lines, fmt.Sprintf("%s ranks %d: %.4g", pilot, e.No, e.Rank))
		}
	}
	if len(clear) > 0 {
		lines = append(lines, fmt.Sprintf("%s ranks as all do: %v", pilot, clear))
	}
	return lines
}
