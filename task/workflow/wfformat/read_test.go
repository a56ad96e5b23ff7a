package wfformat_test

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/task/workflow"
	"github.com/pilotage-grid/pilotage/task/workflow/trace"
	"github.com/pilotage-grid/pilotage/task/workflow/wfformat"
)

func chain(t testing.TB) string {
	t.Helper()
	data, err := os.ReadFile("testdata/chain.json")
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func bytesOf(w *trace.Workload) (sum task.Bytes) {
	for _, f := range w.Files {
		sum += f.Size
	}
	return sum
}

func TestReadTakesTasksFilesAndOrder(t *testing.T) {
	w, err := wfformat.Read("chain.json", []byte(chain(t)))
	if err != nil {
		t.Fatal(err)
	}
	if w.Name != "two letters" || len(w.Tasks) != 4 || len(w.Files) != 7 || bytesOf(w) != 5026 {
		t.Errorf("%q: %d tasks, %d files, %d bytes", w.Name, len(w.Tasks), len(w.Files), bytesOf(w))
	}
	second := w.Tasks[1]
	if second.Runtime != 3*time.Second || second.Cores != 2 || w.Tasks[0].Memory != 1_000_000 {
		t.Errorf("%+v", second)
	}
	// tidy_4 reads no file of join_3: a marker of no bytes makes it wait.
	marker := w.Files[w.Tasks[3].Inputs[0]]
	if marker.Size != 0 || marker.Producer != 2 || len(w.Notes) != 1 {
		t.Errorf("marker %+v, notes %q", marker, w.Notes)
	}
}

func TestReadNamesThePlaceOfAnError(t *testing.T) {
	for _, c := range []struct{ name, old, fresh, want string }{
		{"broken JSON", `"id": "sum",`, `"id" "sum",`, "chain.json:21:15: this is no JSON"},
		{"cut off", `"id": "tidy_4", "runtimeInSeconds": 0.25}`, ``, "no JSON"},
		{"wrong kind", `"sizeInBytes": 4}`, `"sizeInBytes": "4"}`, "chain.json:21:40: workflow.specification.files.sizeInBytes: a string stands where a float64 belongs"},
		{"version", `"1.5"`, `"1.3"`, `schemaVersion: is "1.3", only 1.5 is read`},
		{"no size", `"id": "sum", "sizeInBytes": 4`, `"id": "sum"`, `workflow.specification.files[5]: file "sum" has no size`},
		{"file not listed", `"outputFiles": ["sum"]`, `"outputFiles": ["total"]`, `workflow.specification.tasks[2]: task "join_3" names file "total"`},
		{"negative size", `"sizeInBytes": 4}`, `"sizeInBytes": -4}`, `files[5]: file "sum" has the size -4`},
		{"two sizes", `{"id": "sum", "sizeInBytes": 4}`, `{"id": "tool", "sizeInBytes": 4}`, `files[5]: file "tool" is listed with 0 and with 4 bytes`},
		{"no run time", `"runtimeInSeconds": 3,`, ``, `workflow.execution.tasks[1]: task "count_2" has no run time`},
		{"not run", `{"id": "count_1", "run`, `{"id": "count_9", "run`, `workflow.specification.tasks[0]: task "count_1" is not in`},
		{"same task twice", `"id": "count_2", "parents"`, `"id": "count_1", "parents"`, `workflow.specification.tasks[1]: two tasks are called count_1`},
		{"cycle", `"parents": [], "children": ["join_3"],
         "inputFiles": ["/data/a.txt", "tool"]`, `"parents": [], "children": ["join_3"],
         "inputFiles": ["sum", "tool"]`, "tasks wait for one another: count_1 -> join_3 -> count_1"},
		{"unknown parent", `"parents": ["join_3"]`, `"parents": ["split_0"]`, `tasks[3].parents: task tidy_4 comes after split_0, which there is not`},
		{"more behind it", "\"runtimeInSeconds\": 0.25}\n      ]\n    }\n  }\n}", "\"runtimeInSeconds\": 0.25}\n      ]\n    }\n  }\n} {}", "something follows"},
	} {
		t.Run(c.name, func(t *testing.T) {
			text := strings.Replace(chain(t), c.old, c.fresh, 1)
			if text == chain(t) {
				t.Fatal("the case changes nothing")
			}
			_, err := wfformat.Read("chain.json", []byte(text))
			var place *workflow.Error
			if !errors.As(err, &place) || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "chain.json:") {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestFilesChangedInPlaceAndMadeTwiceAreNoted(t *testing.T) {
	text := strings.Replace(chain(t), `"outputFiles": ["/work/2/b.count"]`, `"outputFiles": ["/work/2/b.count", "/data/b.txt", "/work/1/a.count"]`, 1)
	w, err := wfformat.Read("chain.json", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	notes := strings.Join(w.Notes, "\n")
	if !strings.Contains(notes, "count_2 reads and writes /data/b.txt") || !strings.Contains(notes, "/work/1/a.count is made by count_1 and by count_2") {
		t.Error(notes)
	}
}

func TestPlanMakesValidTasksOfAnyNames(t *testing.T) {
	w, err := wfformat.Read("chain.json", []byte(chain(t)))
	if err != nil {
		t.Fatal(err)
	}
	plan, contents, err := w.Plan(trace.Scale{Time: 0.001, Size: 0.5})
	if err != nil {
		t.Fatal(err)
	}
	if len(plan.Tasks) != 4 || plan.Name != "two_letters" || len(plan.Files) != 3 || contents[0].Name != "data/a.txt" || contents[0].Size != 1000 {
		t.Errorf("%q %+v %+v", plan.Name, plan.Files, contents)
	}
	if !strings.Contains(plan.Tasks[0].Shell, "sleep 0.002500") || !strings.Contains(plan.Tasks[0].Shell, "make 5 work/1/a.count 0") {
		t.Error(plan.Tasks[0].Shell)
	}
	if _, _, err := w.Plan(trace.Scale{Time: 1}); err == nil {
		t.Error("a size scale of 0 is accepted")
	}
}

func FuzzRead(f *testing.F) {
	f.Add(chain(f))
	f.Add(`{"name":"x","schemaVersion":"1.5","workflow":{"specification":{"tasks":[{"id":"a","inputFiles":["-"],"outputFiles":["/"]}],"files":[{"id":"-","sizeInBytes":1},{"id":"/","sizeInBytes":2}]},"execution":{"tasks":[{"id":"a","runtimeInSeconds":0}]}}}`)
	f.Fuzz(func(t *testing.T, text string) {
		w, err := wfformat.Read("f", []byte(text))
		if err != nil {
			var place *workflow.Error
			if !errors.As(err, &place) {
				t.Errorf("%T: %v", err, err)
			}
			return
		}
		for _, task := range w.Tasks {
			for _, file := range task.Inputs {
				_ = w.Files[file]
			}
		}
		plan, _, err := w.Plan(trace.Scale{Time: 1e-6, Size: 1e-6})
		if err != nil {
			return // too many files or too long a command for one real task
		}
		plan.Bind(task.WorkflowID("w-aaaaaaaaaa"))
		for _, real := range plan.Tasks {
			if err := real.Validate(); err != nil {
				t.Error(err)
			}
		}
	})
}
