package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	pb "github.com/pilotage-grid/pilotage/proto/pilotage/v1"
)

func printed(t *testing.T, form string, value any) string {
	t.Helper()
	var out bytes.Buffer
	a := &app{out: &console{stdout: &out, output: form}}
	if err := a.out.print(value, []string{"NAME", "LEFT"}, [][]string{{"a", "1"}, {"long name", "22"}}); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestPrintInEachForm(t *testing.T) {
	list := []*pb.Workflow{{Id: "w-1", Done: 3}, {Id: "w-2", State: pb.WorkflowState_WORKFLOW_STATE_DONE}}
	if got, want := printed(t, "table", list), "NAME       LEFT\na          1\nlong name  22\n"; got != want {
		t.Errorf("table:\n%q, want\n%q", got, want)
	}
	var whole []map[string]any
	if err := json.Unmarshal([]byte(printed(t, "json", list)), &whole); err != nil || len(whole) != 2 {
		t.Fatalf("json: %v, %v", whole, err)
	}
	// Names are those of the protos, and what is zero is there too.
	if whole[0]["id"] != "w-1" || whole[0]["done"] != 3.0 || whole[0]["outputs_pending"] != 0.0 || whole[1]["state"] != "DONE" {
		t.Errorf("json: %v", whole)
	}
	lines := strings.Split(strings.TrimSuffix(printed(t, "jsonl", list), "\n"), "\n")
	if len(lines) != 2 || !json.Valid([]byte(lines[0])) || !json.Valid([]byte(lines[1])) {
		t.Errorf("jsonl: %q", lines)
	}
	if got := printed(t, "jsonl", list[0]); strings.Count(got, "\n") != 1 {
		t.Errorf("jsonl of one: %q", got)
	}
	if got := printed(t, "json", []*pb.Workflow{}); got != "[]\n" {
		t.Errorf("json of nothing: %q", got)
	}
	if got := printed(t, "jsonl", []*pb.Workflow(nil)); got != "" {
		t.Errorf("jsonl of nothing: %q", got)
	}
	if got := printed(t, "json", []struct{ What string }{{"disk"}}); !strings.Contains(got, `"What": "disk"`) {
		t.Errorf("json of what is no message: %q", got)
	}
}

func TestPeoplesLinesStayOutOfPrograms(t *testing.T) {
	for form, want := range map[string]string{"table": "said 1\n", "json": "", "jsonl": ""} {
		var out bytes.Buffer
		a := &app{out: &console{stdout: &out, output: form}}
		a.out.say("said %d\n", 1)
		if out.String() != want {
			t.Errorf("%s: said %q, want %q", form, out.String(), want)
		}
	}
}

func TestFiguresForPeople(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	for _, c := range []struct{ got, want string }{
		{percent(1, 3), "33.3 %"}, {percent(0, 0), "-"}, {percent(0, 5), "0.0 %"}, {percent(5, 5), "100.0 %"},
		{ago(now.Add(-90*time.Second), now), "1m30s"}, {ago(time.Time{}, now), "-"},
		{sizeText(-1), "-"}, {sizeText(1 << 20), "1MiB"}, {orDash(""), "-"}, {orDash("x"), "x"},
		{shorten("a  b\n c", 10), "a b c"}, {shorten("abcdefghijkl", 10), "abcdefg..."},
		{delayText(&pb.Site{}), "not measured yet"},
		{requestsText(&pb.Site{QueueRequests: 6, Tasks: 4, RequestsByMethod: map[string]uint64{"Sync": 4, "Register": 2}}), "6, 1.50 per task; Register 2; Sync 4"},
		{clausesText([]*pb.ClauseCount{{Clause: "a > 1", Pilots: 3}, {Clause: "b", Pilots: 1}}), "3 pilots fail `a > 1`, 1 pilot fails `b`"},
	} {
		if c.got != c.want {
			t.Errorf("%q, want %q", c.got, c.want)
		}
	}
	rows := ratioRows("reads", &pb.SourceSums{LocalReads: 2, PeerReads: 1, SeReads: 1, LocalBytes: 10, SeBytes: 30})
	if !strings.Contains(rows[1][1], "total hit ratio 75.0 % of files, 25.0 % of bytes; local 50.0 %, 25.0 %") {
		t.Errorf("hit ratios: %q", rows)
	}
	sum := addSums(&pb.SourceSums{LocalReads: 1, RemoteBytes: 5}, &pb.SourceSums{LocalReads: 2, RemoteBytes: 6})
	if sum.GetLocalReads() != 3 || sum.GetRemoteBytes() != 11 {
		t.Errorf("sums: %v", sum)
	}
}

// The variables of the environment count where no flag is given.
func TestWhereSettingsComeFrom(t *testing.T) {
	dir := t.TempDir()
	set := map[string]string{"PILOTAGE_OUTPUT": "jsonl", "PILOTAGE_LOG": "error", "XDG_CONFIG_HOME": dir}
	prepared := func(flags *app) (*app, error) {
		flags.out.stdout, flags.out.stderr, flags.getenv = &bytes.Buffer{}, &bytes.Buffer{}, func(name string) string { return set[name] }
		return flags, flags.prepare()
	}
	if a, err := prepared(&app{out: &console{}}); err != nil || a.out.output != "jsonl" {
		t.Errorf("output %q, %v; want jsonl", a.out.output, err)
	}
	if a, err := prepared(&app{out: &console{output: "json"}}); err != nil || a.out.output != "json" {
		t.Errorf("output %q, %v; want the flag's", a.out.output, err)
	}
	for name, value := range map[string]string{"PILOTAGE_OUTPUT": "xml", "PILOTAGE_LOG": "loud", "PILOTAGE_LOG_FORMAT": "poem"} {
		before := set[name]
		set[name] = value
		if _, err := prepared(&app{out: &console{}}); err == nil || exitCode(t.Context(), err) != exitUsage || !strings.Contains(err.Error(), value) {
			t.Errorf("%s=%s: %v", name, value, err)
		}
		set[name] = before
	}
	a, err := prepared(&app{out: &console{}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.readAccess(); err == nil || !strings.Contains(err.Error(), filepath.Join(dir, "pilotage", "access.json")) {
		t.Errorf("access is looked for: %v", err)
	}
	set["PILOTAGE_ACCESS"] = filepath.Join(dir, "variable.json")
	if _, err := a.readAccess(); err == nil || !strings.Contains(err.Error(), "variable.json") {
		t.Errorf("access is looked for: %v", err)
	}
	a.access = filepath.Join(dir, "flag.json")
	if _, err := a.readAccess(); err == nil || !strings.Contains(err.Error(), "flag.json") {
		t.Errorf("access is looked for: %v", err)
	}
	for home, want := range map[string]string{"/var/state": "/var/state/pilotage/queue", "": "/.local/state/pilotage/queue"} {
		set["XDG_STATE_HOME"] = home
		if got := stateFolder(a.getenv, "queue"); !strings.HasSuffix(got, want) {
			t.Errorf("the queue's folder is %s, want %s", got, want)
		}
	}
	if isTerminal(&bytes.Buffer{}) {
		t.Error("a buffer is no terminal")
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = null.Close() }()
	if isTerminal(null) {
		t.Error("/dev/null is no terminal")
	}
}

// A task that wrote to stderr only is not shown as one that wrote nothing.
func TestLogsTellOfStderr(t *testing.T) {
	for _, c := range []struct {
		out, err       string
		stdout, stderr bool
		want, note     string
	}{
		{"a\n", "b\n", true, false, "a\n", ""},
		{"a\n", "b\n", false, true, "b\n", ""},
		{"a\n", "b\n", true, true, "a\nb\n", ""},
		{"", "b\n", true, true, "b\n", ""},
		{"", "b\n", true, false, "", "stderr has 2B"},
		{"", "", true, false, "", ""},
	} {
		a := testApp()
		logs := &pb.GetTaskLogsResponse{Stdout: []byte(c.out), Stderr: []byte(c.err)}
		if err := a.out.printLogs(logs, c.stdout, c.stderr); err != nil {
			t.Fatal(err)
		}
		printed, noted := fmt.Sprint(a.out.stdout), fmt.Sprint(a.out.stderr)
		if printed != c.want || (noted == "") != (c.note == "") || !strings.Contains(noted, c.note) {
			t.Errorf("%+v: printed %q, noted %q", c, printed, noted)
		}
	}
}
