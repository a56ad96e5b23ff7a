package server_test

import (
	"encoding/json"
	"slices"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/pilotage-grid/pilotage/identity"
	pb "github.com/pilotage-grid/pilotage/proto/pilotage/v1"
	"github.com/pilotage-grid/pilotage/task/taskpb"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

// person connects with a new submit access of a person.
func (q *queue) person(name string, groups ...string) *client {
	q.t.Helper()
	made, err := q.admin().CreateAccess(q.ctx, &pb.CreateAccessRequest{Role: "submit", Person: name, Groups: groups})
	if err != nil {
		q.t.Fatal(err)
	}
	var access identity.AccessFile
	if err := json.Unmarshal(made.GetAccessFile(), &access); err != nil {
		q.t.Fatal(err)
	}
	if access.Person != name || !slices.Equal(access.Groups, groups) {
		q.t.Errorf("an access file of %s %v", access.Person, access.Groups)
	}
	return q.dial(access.Token, nil)
}

// What a person may do with the work of another, by how it is shared.
func TestWorkBelongsToPersons(t *testing.T) {
	q := start(t)
	q.addSite("siteA")
	alice, bob, eve := q.person("alice", "higgs"), q.person("bob", "higgs", "top"), q.person("eve")
	mallory := single("mallory")
	mallory.Group = "higgs"
	_, err := eve.SubmitWorkflow(q.ctx, mallory)
	wantRefusal(t, err, codes.PermissionDenied, "REFUSED")
	ids := map[string]string{}
	for _, group := range []string{"", "higgs", taskqueue.Everybody} {
		request := single("w" + group)
		if group == taskqueue.Everybody {
			request = single("public")
		}
		request.Group = group
		request.Tasks[0].Outputs = []*pb.Binding{{Lfn: "out", Name: "out"}}
		request.Outputs = []string{"out"}
		reply, err := alice.SubmitWorkflow(q.ctx, request)
		if err != nil {
			t.Fatal(err)
		}
		ids[group] = reply.GetWorkflowId()
	}
	same, err := bob.SubmitWorkflow(q.ctx, single("w")) // with the same key
	if err != nil || same.GetExisted() {
		t.Fatal(same, err)
	}
	for _, c := range []struct {
		who, group    string
		client        *client
		sees, changes bool
	}{
		{"alice", "", alice, true, true}, {"admin", "", q.admin(), true, true}, {"bob", "", bob, false, false}, {"eve", "", eve, false, false},
		{"bob", "higgs", bob, true, true}, {"eve", "higgs", eve, false, false}, {"reader", "", q.with("read-only", ""), true, false},
		{"eve", taskqueue.Everybody, eve, true, false}, {"bob", taskqueue.Everybody, bob, true, false},
	} {
		id := ids[c.group]
		one := id + "/only"
		if _, err := c.client.GetWorkflow(q.ctx, &pb.GetWorkflowRequest{Workflow: id}); err != nil {
			t.Errorf("%s asks how a workflow does: %v", c.who, err)
		}
		looks := map[string]func() error{
			"tasks": func() error { _, err := c.client.ListTasks(q.ctx, &pb.ListTasksRequest{Workflow: id}); return err },
			"task":  func() error { _, err := c.client.GetTask(q.ctx, &pb.GetTaskRequest{TaskId: one}); return err },
			"logs":  func() error { _, err := c.client.GetTaskLogs(q.ctx, &pb.GetTaskLogsRequest{TaskId: one}); return err },
			"why":   func() error { _, err := c.client.ExplainTask(q.ctx, &pb.ExplainTaskRequest{TaskId: one}); return err },
			"outputs": func() error {
				_, err := c.client.ListWorkflowOutputs(q.ctx, &pb.ListWorkflowOutputsRequest{Workflow: id})
				return err
			},
			"file": func() error {
				_, err := c.client.LocateFile(q.ctx, &pb.LocateFileRequest{Lfn: id + ":out"})
				return err
			},
		}
		for what, look := range looks {
			if refused := refusal(look()) == "REFUSED"; refused == c.sees {
				t.Errorf("%s looks at the %s of a workflow shared with %q: refused %v", c.who, what, c.group, refused)
			}
		}
		listed, err := c.client.ListFiles(q.ctx, &pb.ListFilesRequest{Prefix: id + ":"})
		if err != nil || (len(listed.GetFiles()) == 1) != c.sees {
			t.Errorf("%s lists the files of a workflow shared with %q: %v, %v", c.who, c.group, listed, err)
		}
		for what, change := range map[string]func() error{
			"workflow": func() error {
				_, err := c.client.RetryWorkflow(q.ctx, &pb.RetryWorkflowRequest{Workflow: id})
				return err
			},
			"task": func() error { _, err := c.client.CancelTask(q.ctx, &pb.CancelTaskRequest{TaskId: one}); return err },
			"name": func() error {
				_, err := c.client.CancelWorkflow(q.ctx, &pb.CancelWorkflowRequest{Workflow: "alice/" + map[string]string{"": "w", "higgs": "whiggs", "*": "public"}[c.group]})
				return err
			},
		} {
			if reason := refusal(change()); slices.Contains([]string{"REFUSED", "FORBIDDEN"}, reason) == c.changes {
				t.Errorf("%s changes the %s of a workflow shared with %q: %q", c.who, what, c.group, reason)
			}
		}
	}
	for who, c := range map[string]*client{"alice": alice, "bob": bob} {
		found, err := c.GetWorkflow(q.ctx, &pb.GetWorkflowRequest{Workflow: "w"})
		if err != nil || found.GetWorkflow().GetOwner() != who {
			t.Errorf("%s asks for w and is shown that of %s, %v", who, found.GetWorkflow().GetOwner(), err)
		}
	}
	mine, err := alice.ListWorkflows(q.ctx, &pb.ListWorkflowsRequest{Mine: true})
	if err != nil || len(mine.GetWorkflows()) != 3 || mine.GetWorkflows()[0].GetGroup() != "*" {
		t.Errorf("alice's: %v, %v", mine, err)
	}
}

// refusal is the reason of an error, "" of none.
func refusal(err error) string {
	reason, _, _ := taskpb.Refusal(err)
	return reason
}
