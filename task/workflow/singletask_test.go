package workflow

import (
	"strings"
	"testing"
)

func TestSingleTask(t *testing.T) {
	for _, c := range []struct {
		name   string
		single Single
		want   []string // lines of the description; of the error if the first one begins with "error "
	}{
		{"plain", Single{Argv: []string{"/bin/true", "{print $1}"}},
			[]string{"workflow true", "task true", `argv ["/bin/true" "{print $1}"]`, "outputs []"}},
		{"settings", Single{Name: "n", Argv: []string{"x"}, Require: "a", Rank: "rest", Settings: map[string]string{"retries": "0", "cores": "2", "memory": "1GiB", "walltime": "5m", "disk": "2GiB", "gpus": "1"}},
			[]string{"workflow n", `2 cores, 1GiB memory, 2GiB disk, 1 gpu, 5m0s, 0 retries, priority 0, require "a", rank "rest"`}},
		{"files", Single{Argv: []string{"x"}, Inputs: []string{"./data/a.txt", "b=/abs/{{b c", "vo:dir/ref", "r=vo:ref"}, Outputs: []string{"out", "kept=dir/raw"}},
			[]string{
				`file data/a.txt source="here/data/a.txt"`, `file abs/_b_c source="/abs/{b c"`,
				"in data/a.txt as a.txt", "in abs/_b_c as b", "in vo:dir/ref as ref", "in vo:ref as r",
				"out out from out", "out kept from dir/raw", "outputs [out kept]",
			}},
		{"array", Single{Argv: []string{"run.sh", "{i}"}, Array: "08-09,3", Inputs: []string{"in=p/{i}.txt", "all"}, Outputs: []string{"{i}.out=out"}},
			[]string{
				"workflow run.sh", `file p/08.txt source="here/p/08.txt"`, `file p/3.txt source="here/p/3.txt"`, `file all source="here/all"`,
				"task run.sh[08]", "task run.sh[09]", "task run.sh[3]", `argv ["run.sh" "3"]`, "in p/3.txt as in", "in all as all",
				"out 3.out from out", "outputs [08.out 09.out 3.out]",
			}},
		{"odd program", Single{Argv: []string{"/-my prog"}}, []string{"task _my_prog"}},
		{"program that is no input", Single{Argv: []string{"./a.sh"}}, []string{"error task a.sh runs ./a.sh, which is not in its work folder", "hint: add --input ./a.sh:"}},
		{"no command", Single{}, []string{"error no command is given"}},
		{"bad numbers", Single{Argv: []string{"x"}, Settings: map[string]string{"cores": "many", "memory": "-1", "walltime": "10", "retries": "101"}},
			[]string{"error --retries is 101: give 0 to 100", `--cores: "many"`, `--memory: "-1"`, `--walltime: "10"`}},
		{"bad array", Single{Argv: []string{"x"}, Array: "a-b"}, []string{`error --array "a-b"`}},
		{"huge array", Single{Argv: []string{"x"}, Array: "0-999999999"}, []string{"error --array makes 1000000000 tasks"}},
		{"index without array", Single{Argv: []string{"x"}, Inputs: []string{"{i}"}}, []string{"error --input {i}: {i} is neither"}},
		{"shared outputs", Single{Argv: []string{"x"}, Array: "1-2", Outputs: []string{"out"}}, []string{"error tasks x[1] and x[2] both make out"}},
		{"bad name", Single{Argv: []string{"x"}, Name: "a b"}, []string{`error task name "a b"`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			plan, err := SingleTask(c.single, Options{Dir: "here"})
			got := ""
			if err != nil {
				got = "error " + err.Error()
			} else {
				got = describe(plan)
			}
			if strings.HasPrefix(got, "error ") != strings.HasPrefix(c.want[0], "error ") {
				t.Fatalf("got\n%s", got)
			}
			for _, want := range c.want {
				if !strings.Contains(got, want) {
					t.Errorf("no %q in\n%s", want, got)
				}
			}
		})
	}
}
