package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/pilotage-grid/pilotage/proto/pilotage/v1"
)

// Programs read numbers as numbers and states by the names that tables show.
func TestJSONIsPlain(t *testing.T) {
	for _, c := range []struct {
		value any
		want  string
	}{
		{&pb.Workflow{State: pb.WorkflowState_WORKFLOW_STATE_DONE}, `"state":"DONE"`},
		{&pb.Workflow{}, `"state":"UNSPECIFIED"`},
		{&pb.Site{Tasks: 17, Running: 1, RequestsByMethod: map[string]uint64{"Sync": 3}}, `"requests_by_method":{"Sync":3}`},
		{&pb.Site{Tasks: 1<<63 + 1}, `"tasks":9223372036854775809`},
		{&pb.Site{Settings: &pb.SiteSettings{Mode: pb.SiteMode_SITE_MODE_DISTRIBUTED}}, `"mode":"DISTRIBUTED"`},
		{&pb.TaskInfo{Attempts: []*pb.Attempt{{State: pb.AttemptState_ATTEMPT_STATE_LOST}}}, `"state":"LOST"`},
		{&pb.File{SizeBytes: -1}, `"size_bytes":-1`},
		{&pb.File{}, `"digest":""`},
		{&pb.File{Digest: []byte{1, 2, 255}}, `"digest":"AQL/"`},
		{&pb.Workflow{Created: timestamppb.New(time.Unix(0, 0))}, `"created":"1970-01-01T00:00:00Z","done":0,"ended":null`},
		{&pb.Site{ModeFor: durationpb.New(90 * time.Second), DelayP50Seconds: 0.0015}, `"mode_for":"90s"`},
		{&pb.Outcome{}, `{"attempt":null,"ended":null`},
		{[]*pb.File{{SizeBytes: 5}}, `"size_bytes":5`},
		{[]*pb.File{}, `[]`},
		{map[string]any{"numbers": []int{1}}, `{"numbers":[1]}`},
	} {
		data, err := json.Marshal(plain(c.value))
		if err != nil || !json.Valid(data) || !contains(data, c.want) {
			t.Errorf("%v: %s, %v; want %s", c.value, data, err, c.want)
		}
	}
}

// A list without descriptions says nothing of what it has not loaded.
func TestShortTaskListLeavesOutWhatItHasNot(t *testing.T) {
	a := testApp()
	a.out.output = "jsonl"
	info := &pb.TaskInfo{Task: &pb.Task{Id: "w-aaaaaaaaaa/x"}, State: pb.TaskState_TASK_STATE_READY, Failures: 2}
	if err := a.out.printTasks([]*pb.TaskInfo{info}, false); err != nil {
		t.Fatal(err)
	}
	got := said(a)
	for _, absent := range []string{"argv", "retries", "attempts"} {
		if contains([]byte(got), absent) {
			t.Errorf("%s is in %s", absent, got)
		}
	}
	for _, there := range []string{`"id":"w-aaaaaaaaaa/x"`, `"state":"READY"`, `"failures":2`} {
		if !contains([]byte(got), there) {
			t.Errorf("%s is not in %s", there, got)
		}
	}
	a = testApp()
	a.out.output = "json"
	if err := a.out.printTasks([]*pb.TaskInfo{info}, true); err != nil || !contains([]byte(said(a)), `"argv"`) {
		t.Errorf("the full list: %s, %v", said(a), err)
	}
}

func contains(data []byte, text string) bool { return strings.Contains(string(data), text) }

func said(a *app) string { return a.out.stdout.(*bytes.Buffer).String() }
