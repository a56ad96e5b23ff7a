package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"

	tea "charm.land/bubbletea/v2"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"

	pb "github.com/pilotage-grid/pilotage/proto/pilotage/v1"
)

// topQueue answers what top asks.
type topQueue struct {
	pb.TaskServiceClient
	away bool
}

func (q *topQueue) ListWorkflows(context.Context, *pb.ListWorkflowsRequest, ...grpc.CallOption) (*pb.ListWorkflowsResponse, error) {
	if q.away {
		return nil, errAway
	}
	return &pb.ListWorkflowsResponse{Workflows: []*pb.Workflow{{Id: "w-aaaaaaaaaa", Name: "first"}, {Id: "w-bbbbbbbbbb", Name: "sec\x1b[31mond"}}}, nil
}

func (q *topQueue) ListTasks(_ context.Context, in *pb.ListTasksRequest, _ ...grpc.CallOption) (*pb.ListTasksResponse, error) {
	return &pb.ListTasksResponse{Tasks: []*pb.TaskInfo{{Task: &pb.Task{Id: in.GetWorkflow() + "/one"}}, {Task: &pb.Task{Id: in.GetWorkflow() + "/two"}}}}, nil
}

func (q *topQueue) GetTaskLogs(context.Context, *pb.GetTaskLogsRequest, ...grpc.CallOption) (*pb.GetTaskLogsResponse, error) {
	return &pb.GetTaskLogsResponse{Stdout: []byte("a line\x1b]0;evil\x07\nanother"), Stderr: []byte("complaint")}, nil
}

func (q *topQueue) ExplainTask(_ context.Context, in *pb.ExplainTaskRequest, _ ...grpc.CallOption) (*pb.ExplainTaskResponse, error) {
	return &pb.ExplainTaskResponse{Task: &pb.TaskInfo{Task: &pb.Task{Id: in.GetTaskId()}, State: pb.TaskState_TASK_STATE_BLOCKED}, Missing: []*pb.MissingInput{{Lfn: "vo:x", Why: "nobody makes it"}}}, nil
}

// press sends keys to a top without a terminal, and what the commands bring back.
func press(t *testing.T, m *topModel, keys ...string) {
	t.Helper()
	for _, key := range keys {
		message := tea.KeyPressMsg{Code: []rune(key)[0], Text: key}
		for name, code := range map[string]rune{"enter": tea.KeyEnter, "esc": tea.KeyEsc, "down": tea.KeyDown, "backspace": tea.KeyBackspace} {
			if key == name {
				message = tea.KeyPressMsg{Code: code}
			}
		}
		if _, next := m.Update(message); next != nil {
			m.Update(next())
		}
	}
}

func TestTopWithoutATerminal(t *testing.T) {
	queue := &topQueue{}
	m := newTopModel(t.Context(), &clients{tasks: queue})
	m.Update(tea.WindowSizeMsg{Width: 90, Height: 12})
	m.Update(m.Init()())
	shows := func(words ...string) {
		t.Helper()
		view := m.View().Content
		for _, word := range words {
			if !strings.Contains(view, word) {
				t.Errorf("no %q in:\n%s", word, view)
			}
		}
		for _, line := range strings.Split(view, "\n") {
			if len([]rune(line)) > 90 {
				t.Errorf("%d columns: %s", len([]rune(line)), line)
			}
		}
		if strings.ContainsAny(view, "\x1b\x07") || strings.Count(view, "\n") != 11 {
			t.Errorf("%d lines, or something that steers the terminal:\n%q", strings.Count(view, "\n")+1, view)
		}
	}
	shows("[1 workflows]", "> w-aaaaaaaaaa", "first", "sec^[[31mond", "2 rows")
	press(t, m, "/", "s", "x", "backspace")
	m.Update(tea.PasteMsg{Content: "e"})
	press(t, m, "c", "enter")
	shows("> w-bbbbbbbbbb", "1 of 2 rows")
	press(t, m, "enter")
	press(t, m, "esc")
	shows("[4 tasks]", "of w-bbbbbbbbbb", "> w-bbbbbbbbbb/one", "w-bbbbbbbbbb/two")
	press(t, m, "down", "l")
	shows("Output of w-bbbbbbbbbb/two", "a line", "another", "complaint")
	press(t, m, "esc", "e")
	shows("w-bbbbbbbbbb/two is BLOCKED", "input vo:x is missing: nobody makes it")
	press(t, m, "esc", "?")
	shows("filter rows")
	press(t, m, "esc")
	queue.away = true
	press(t, m, "1")
	shows("[1 workflows]", "the queue does not answer", "nothing to show")
	before := m.opened
	m.Update(topLook{opened: before - 1, rows: [][]string{{"w-old"}}}) // of a list that was left
	shows("nothing to show")
	if _, quit := m.Update(tea.KeyPressMsg{Code: 'q', Text: "q"}); quit == nil || quit() != tea.Quit() {
		t.Error("q does not end it")
	}
}

// No library asks the terminal for anything before a command has begun: one that does not
// answer, as a console or a script's, would hold up each command for seconds.
func TestTheTerminalIsNotAskedAtTheStart(t *testing.T) {
	terminal, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = terminal.Close() }()
	number, err := unix.IoctlGetInt(int(terminal.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(terminal.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	end, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^$")
	command.Stdin, command.Stdout, command.Stderr = end, end, end
	command.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	command.Env = append(slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "CI=") }), "TERM=xterm-256color")
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	_ = end.Close()
	said, _ := io.ReadAll(terminal) // its end is an error, of a terminal
	if err := command.Wait(); err != nil || strings.Contains(string(said), "\x1b") {
		t.Errorf("%v: %q", err, said)
	}
}
