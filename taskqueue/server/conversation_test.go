package server_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	pb "github.com/pilotage-grid/pilotage/proto/pilotage/v1"
	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/task/taskpb"
	"github.com/pilotage-grid/pilotage/taskqueue"
	"github.com/pilotage-grid/pilotage/taskqueue/server"
)

// A whole life over the wire: register, submit, hand-out, start, outcome,
// acknowledgement; and everything that people can ask about it.
func TestConversation(t *testing.T) {
	onBoth(t, func(t *testing.T, store option) {
		q := start(t, store)
		q.addSite("siteA")
		p := q.join("siteA")
		if p.term.GetEpoch() != 1 {
			t.Fatalf("the first pilot of a site is not master: term %v", p.term)
		}
		p.introduce()
		people := q.submit()
		workflow := q.mustSubmit(single("hello"))
		watch, err := people.WatchWorkflow(q.ctx, &pb.WatchWorkflowRequest{Workflow: "hello"})
		if err != nil {
			t.Fatal(err)
		}
		first, err := watch.Recv()
		if err != nil || first.GetWorkflow().GetId() != workflow || first.GetWorkflow().GetReady() != 1 {
			t.Fatalf("watch began with %v, %v", first, err)
		}

		handed, err := p.Sync(q.ctx, p.report(patience))
		if err != nil || len(handed.GetLeases()) != 1 || len(handed.GetLeases()[0].GetTasks()) != 1 {
			t.Fatalf("hand-out %v, %v", handed, err)
		}
		lease := handed.GetLeases()[0]
		done := p.outcome(lease, 0)
		began := p.report(patience, lease)
		began.Starts = []*pb.Start{{Attempt: done.GetAttempt(), Number: done.GetNumber(), Started: done.GetStarted()}}
		if _, err := p.Sync(q.ctx, began); err != nil {
			t.Fatal(err)
		}
		if list, err := people.ListPilots(q.ctx, &pb.ListPilotsRequest{Site: "siteA"}); err != nil ||
			len(list.GetPilots()) != 1 || list.GetPilots()[0].GetRunning() != 1 || !list.GetPilots()[0].GetMaster() {
			t.Fatalf("pilots while it runs: %v, %v", list, err)
		}
		ended := p.report(patience, lease)
		ended.Outcomes = []*pb.Outcome{done}
		acked, err := p.Sync(q.ctx, ended)
		if err != nil || len(acked.GetAcks()) != 1 || acked.GetAcks()[0].GetVerdict() != pb.AckVerdict_ACK_VERDICT_ACCEPTED {
			t.Fatalf("acknowledgement %v, %v", acked, err)
		}
		for {
			seen, err := watch.Recv()
			if err != nil {
				t.Fatalf("the watch ended before the workflow: %v", err)
			}
			if seen.GetWorkflow().GetState() == pb.WorkflowState_WORKFLOW_STATE_DONE {
				break
			}
		}
		if _, err := watch.Recv(); err == nil {
			t.Error("the watch goes on after the workflow's end")
		}
		checkRecords(t, q, people, workflow, done)
	})
}

func checkRecords(t *testing.T, q *queue, people *client, workflow string, done *pb.Outcome) {
	t.Helper()
	id := workflow + "/only"
	info, err := people.GetTask(q.ctx, &pb.GetTaskRequest{TaskId: id})
	if err != nil {
		t.Fatal(err)
	}
	if got := info.GetTask(); got.GetState() != pb.TaskState_TASK_STATE_DONE || got.GetSite() != "siteA" ||
		!proto.Equal(got.GetWinner(), done.GetAttempt()) || len(got.GetAttempts()) != 1 {
		t.Errorf("task %v", got)
	}
	logs, err := people.GetTaskLogs(q.ctx, &pb.GetTaskLogsRequest{TaskId: id, Number: done.GetNumber()})
	if err != nil || string(logs.GetStdout()) != "hello\n" || string(logs.GetStderr()) != "world\n" {
		t.Errorf("logs %v, %v", logs, err)
	}
	_, err = people.GetTaskLogs(q.ctx, &pb.GetTaskLogsRequest{TaskId: id, Number: 9})
	wantRefusal(t, err, codes.NotFound, "NOT_FOUND")
	explained, err := people.ExplainTask(q.ctx, &pb.ExplainTaskRequest{TaskId: id})
	if err != nil || explained.GetTask().GetTask().GetArgv()[0] != "true" {
		t.Errorf("explanation %v, %v", explained, err)
	}
	q.eventually("requests are booked", func() bool {
		site, err := people.GetSite(q.ctx, &pb.GetSiteRequest{Name: "siteA"})
		if err != nil {
			t.Fatal(err)
		}
		s := site.GetSite()
		return s.GetTasks() == 1 && s.GetDelayCount() == 1 && s.GetDelayP50Seconds() > 0 &&
			s.GetRequestsByMethod()["Sync"] == 4 && s.GetRequestsByMethod()["Register"] == 1 && s.GetQueueRequests() == 5
	})
}

// A parked Sync is answered by a submission, not by the end of its time.
func TestParkedSyncIsWoken(t *testing.T) {
	onBoth(t, func(t *testing.T, store option) {
		q := start(t, store)
		q.addSite("siteA")
		p := q.join("siteA")
		p.introduce()
		answer := p.park(q.ctx)
		q.mustSubmit(single("wake"))
		got := q.await(answer)
		if got.err != nil || len(got.reply.GetLeases()) != 1 {
			t.Fatalf("answered %v, %v", got.reply, got.err)
		}
		if q.server.Parked("siteA") {
			t.Error("the answered Sync is still kept")
		}
	})
}

func TestNewerSyncEndsTheParkedOne(t *testing.T) {
	q := start(t)
	q.addSite("siteA")
	p := q.join("siteA")
	p.introduce()
	older := p.park(q.ctx)
	newer := make(chan synced, 1)
	go func() {
		reply, err := p.Sync(q.ctx, p.report(patience))
		newer <- synced{reply, err}
	}()
	if got := q.await(older); got.err != nil || len(got.reply.GetLeases()) != 0 {
		t.Fatalf("the older one was answered %v, %v", got.reply, got.err)
	}
	select {
	case got := <-newer:
		t.Fatalf("the newer one was answered too: %v, %v", got.reply, got.err)
	default:
	}
	q.mustSubmit(single("wake"))
	if got := q.await(newer); got.err != nil || len(got.reply.GetLeases()) != 1 {
		t.Fatalf("the newer one was answered %v, %v", got.reply, got.err)
	}
}

// A Sync of an older mastership neither counts nor disturbs.
func TestStaleTermIsToldWhoIsInOffice(t *testing.T) {
	q := start(t)
	q.addSite("siteA")
	p := q.join("siteA")
	p.introduce()
	parked := p.park(q.ctx)
	stale := p.report(patience)
	stale.Term = &pb.Term{Epoch: 0, Peer: "12D3"}
	_, err := p.Sync(q.ctx, stale)
	wantRefusal(t, err, codes.FailedPrecondition, taskpb.ReasonStaleTerm)
	_, told, _ := taskpb.Refusal(err)
	if term := taskpb.FromTerm(p.term); told["epoch"] != fmt.Sprint(term.Epoch) || told["ballot"] != fmt.Sprint(term.Ballot) ||
		told["peer"] != string(term.Peer) || told["master"] != p.id {
		t.Errorf("told of %v, want %v of %s", told, term, p.id)
	}
	if !q.server.Parked("siteA") {
		t.Error("the stale Sync ended the parked one")
	}
	q.eventually("the refusal is counted", func() bool {
		_, text := q.get("/metrics")
		return strings.Contains(text, "\npilotage_stale_term_rejects_total 1\n")
	})
	q.mustSubmit(single("wake"))
	if got := q.await(parked); got.err != nil {
		t.Error(got.err)
	}
}

// What a master was told once and has not yet confirmed does not make its
// next Sync return at once, but its end repeats it.
func TestStandingWishesDoNotSpin(t *testing.T) {
	q := start(t)
	q.addSite("siteA")
	p := q.join("siteA")
	p.introduce()
	workflow := q.mustSubmit(single("cancelled"))
	handed, err := p.Sync(q.ctx, p.report(patience))
	if err != nil || len(handed.GetLeases()) != 1 {
		t.Fatal(handed, err)
	}
	lease := handed.GetLeases()[0]
	parked := p.park(q.ctx, lease)
	if _, err := q.submit().CancelWorkflow(q.ctx, &pb.CancelWorkflowRequest{Workflow: workflow}); err != nil {
		t.Fatal(err)
	}
	if got := q.await(parked); got.err != nil || len(got.reply.GetRevoked()) != 1 || !got.reply.GetRevoked()[0].GetCancel() {
		t.Fatalf("the cancel was told as %v, %v", got.reply, got.err)
	}
	again := p.park(q.ctx, lease) // parks although the wish stands
	newer := p.report(time.Nanosecond, lease)
	reply, err := p.Sync(q.ctx, newer)
	if err != nil || len(reply.GetRevoked()) != 1 {
		t.Errorf("the end of a hold does not repeat the wish: %v, %v", reply, err)
	}
	q.await(again)
	confirm := p.report(0, lease)
	confirm.Confirmed = reply.GetRevoked()
	if reply, err = p.Sync(q.ctx, confirm); err != nil || len(reply.GetRevoked()) != 0 {
		t.Errorf("a confirmed wish is repeated: %v, %v", reply, err)
	}
}

// A parked Sync is a sign of life while its connection stands, and not after.
func TestSilenceCountsFromTheEndOfTheConnection(t *testing.T) {
	const silence = 300 * time.Millisecond
	q := start(t, quickRules(func(c *taskqueue.Config) {
		c.Site.ClaimSilence, c.Site.MarkEvery = silence, time.Millisecond
	}), func(c *serverConfig) { c.Timing.Persist = time.Hour }) // only the claim itself looks at parked Syncs
	q.addSite("siteA")
	first, second := q.join("siteA"), q.join("siteA")
	first.introduce()
	ctx, hangUp := context.WithCancel(q.ctx)
	parked := first.park(ctx)
	claim := func() *pb.ClaimMastershipResponse {
		t.Helper()
		reply, err := second.ClaimMastership(q.ctx, &pb.ClaimMastershipRequest{Site: "siteA", Expected: second.term})
		if err != nil {
			t.Fatal(err)
		}
		return reply
	}
	from := q.server.Clock()
	q.eventually("the master was parked for longer than the silence allowed", func() bool {
		return q.server.Clock().Sub(from) > 2*silence
	})
	if reply := claim(); reply.GetGranted() || reply.GetMaster().GetPilot() != first.id || reply.GetWhy() == "" {
		t.Fatalf("a master whose Sync is parked lost its office: %v", reply)
	}
	hangUp()
	q.await(parked)
	q.eventually("the Sync is gone", func() bool { return !q.server.Parked("siteA") })
	gone := q.server.Clock()
	if reply := claim(); reply.GetGranted() {
		t.Fatalf("granted %s after the connection ended", q.server.Clock().Sub(gone))
	}
	q.eventually("the claim is granted", func() bool { return claim().GetGranted() })
	if took := q.server.Clock().Sub(gone); took < silence-100*time.Millisecond {
		t.Errorf("granted after %s of silence, want about %s", took, silence)
	}
	_, err := first.Sync(q.ctx, first.report(0))
	wantRefusal(t, err, codes.FailedPrecondition, taskpb.ReasonStaleTerm)
}

// A master whose connection ends is not waited for as long as one that is
// silent, whether one of its Syncs was parked then or not; a newer connection
// of it counts instead.
func TestBrokenConnectionOfAMaster(t *testing.T) {
	const broken = 300 * time.Millisecond
	for _, test := range []struct {
		name          string
		parked        bool
		before, after bool // it comes by another connection before or after the old one ends
	}{
		{"parked", true, false, false}, {"between two Syncs", false, false, false},
		{"dialled again", true, false, true}, {"moved to another connection", true, true, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			q := start(t, quickRules(func(c *taskqueue.Config) {
				c.Site.ClaimSilence, c.Site.BrokenSilence, c.Site.MarkEvery = time.Hour, broken, time.Millisecond
			}))
			q.addSite("siteA")
			first, second := q.join("siteA"), q.join("siteA")
			first.introduce()
			claim := func() bool {
				reply, err := second.ClaimMastership(q.ctx, &pb.ClaimMastershipRequest{Site: "siteA", Expected: second.term})
				if err != nil {
					t.Fatal(err)
				}
				return reply.GetGranted()
			}
			var answer <-chan synced
			if test.parked {
				answer = first.park(q.ctx)
			}
			from := q.server.Clock()
			q.eventually("time passes", func() bool { return q.server.Clock().Sub(from) > 2*broken })
			if claim() {
				t.Fatal("granted while the connection stands")
			}
			old := first.client
			if test.before {
				first.client = q.dial("", first.cert)
				first.introduce()
			}
			gone := q.server.Clock()
			if err := old.Close(); err != nil {
				t.Fatal(err)
			}
			if test.parked {
				q.await(answer)
				q.eventually("the Sync is gone", func() bool { return !q.server.Parked("siteA") })
			}
			if test.after {
				first.client = q.dial("", first.cert)
				first.introduce()
			}
			if test.before || test.after {
				q.eventually("time passes", func() bool { return q.server.Clock().Sub(gone) > 2*broken })
				if claim() {
					t.Error("granted although the master has another connection")
				}
				return
			}
			q.eventually("the claim is granted", claim)
			if took := q.server.Clock().Sub(gone); took < broken {
				t.Errorf("granted after %s, want %s", took, broken)
			}
		})
	}
}

// Other servers and the shares of other sites learn that a parked master lives.
func TestParkedSyncIsWrittenAsSignOfLife(t *testing.T) {
	q := start(t, quickRules(func(c *taskqueue.Config) { c.Site.MarkEvery = time.Millisecond }))
	q.addSite("siteA")
	p := q.join("siteA")
	p.introduce()
	parked := p.park(q.ctx)
	from := q.server.Clock()
	q.eventually("the sign of life is written", func() bool {
		var sites []taskqueue.SiteRecord
		err := q.server.Store().View(q.ctx, func(tx taskqueue.Tx) (err error) {
			sites, err = tx.Sites().Load("siteA")
			return err
		})
		return err == nil && sites[0].LastSync.Sub(from) > 100*time.Millisecond
	})
	q.mustSubmit(single("wake"))
	q.await(parked)
}

func TestClaimEndsTheParkedSyncOfTheOldTerm(t *testing.T) {
	q := start(t)
	q.addSite("siteA")
	first, second := q.join("siteA"), q.join("siteA")
	first.introduce()
	parked := first.park(q.ctx)
	if _, err := first.Leave(q.ctx, &pb.LeaveRequest{Site: "siteA", Reason: "end", Resigns: true, Term: first.term}); err != nil {
		t.Fatal(err)
	}
	reply, err := second.ClaimMastership(q.ctx, &pb.ClaimMastershipRequest{Site: "siteA", Expected: second.term, Resigned: true})
	if err != nil || !reply.GetGranted() || reply.GetTerm().GetEpoch() != 2 {
		t.Fatal(reply, err)
	}
	wantRefusal(t, q.await(parked).err, codes.FailedPrecondition, taskpb.ReasonStaleTerm)
}

// Outcomes may come from any pilot of the site, without a mastership.
func TestAnyPilotDelivers(t *testing.T) {
	q := start(t)
	q.addSite("siteA")
	master, worker := q.join("siteA"), q.join("siteA")
	master.introduce()
	q.mustSubmit(single("deliver"))
	handed, err := master.Sync(q.ctx, master.report(patience))
	if err != nil || len(handed.GetLeases()) != 1 {
		t.Fatal(handed, err)
	}
	outcome := master.outcome(handed.GetLeases()[0], 0)
	for _, want := range []pb.AckVerdict{pb.AckVerdict_ACK_VERDICT_ACCEPTED, pb.AckVerdict_ACK_VERDICT_ACCEPTED} {
		reply, err := worker.DeliverOutcomes(q.ctx, &pb.DeliverOutcomesRequest{
			Site: "siteA", Outcomes: []*pb.Outcome{outcome}, Seals: []*pb.OutcomeSeal{master.sealed(outcome)},
		})
		if err != nil || len(reply.GetAcks()) != 1 || reply.GetAcks()[0].GetVerdict() != want {
			t.Fatalf("delivered: %v, %v; want %s", reply, err, want)
		}
	}
	if out, err := q.submit().GetWorkflow(q.ctx, &pb.GetWorkflowRequest{Workflow: "deliver"}); err != nil ||
		out.GetWorkflow().GetState() != pb.WorkflowState_WORKFLOW_STATE_DONE {
		t.Error(out, err)
	}
}

// Whether a hold is bounded by the server too.
func TestHoldIsBounded(t *testing.T) {
	q := start(t, func(c *serverConfig) { c.Timing.Holds.Sync = 30 * time.Millisecond })
	q.addSite("siteA")
	p := q.join("siteA")
	p.introduce()
	began := time.Now()
	if _, err := p.Sync(q.ctx, p.report(time.Hour)); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took < 30*time.Millisecond {
		t.Errorf("answered after %s although there was nothing to say", took)
	}
}

// The end of a server answers what is parked instead of waiting for it.
func TestStopAnswersParkedCalls(t *testing.T) {
	q := start(t, func(c *serverConfig) { c.Timing.StopGrace = patience })
	q.addSite("siteA")
	p := q.join("siteA")
	p.introduce()
	watch, err := q.submit().WatchWorkflow(t.Context(), &pb.WatchWorkflowRequest{Workflow: q.mustSubmit(single("watched"))})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := watch.Recv(); err != nil {
		t.Fatal(err)
	}
	handed, err := p.Sync(q.ctx, p.report(patience))
	if err != nil {
		t.Fatal(err)
	}
	parked := p.park(t.Context(), handed.GetLeases()...)
	began := time.Now()
	q.stop()
	if took := time.Since(began); took > patience/2 {
		t.Errorf("the end took %s", took)
	}
	if got := q.await(parked); got.err != nil {
		t.Errorf("the parked Sync got %v", got.err)
	}
	for err = nil; err == nil; _, err = watch.Recv() { // what was sent before its end comes first
	}
	wantRefusal(t, err, codes.Unavailable, "STOPPING")
}

// A newcomer that finds no peer takes itself for the last pilot of its site:
// the queue, which knows of others, takes nothing back.
func TestIsolatedPilotIsNotTheLast(t *testing.T) {
	q := start(t)
	q.addSite("siteA")
	master, newcomer := q.join("siteA"), q.join("siteA")
	master.introduce()
	q.mustSubmit(single("held"))
	handed, err := master.Sync(q.ctx, master.report(patience))
	if err != nil || len(handed.GetLeases()) != 1 {
		t.Fatal(handed, err)
	}
	leave := func(p *pilot, left int) {
		t.Helper()
		if _, err := p.Leave(q.ctx, &pb.LeaveRequest{Site: "siteA", Reason: "end", Last: true}); err != nil {
			t.Fatal(err)
		}
		err := q.server.Store().View(q.ctx, func(tx taskqueue.Tx) error {
			open, err := tx.Leases().OfSite("siteA")
			if len(open) != left {
				t.Errorf("%d open leases, want %d", len(open), left)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	leave(newcomer, 1)
	leave(master, 0)
}

// Logs are those of the attempt that won, also where earlier queues gave its number
// to another one; without a winner those of the newest.
func TestLogsAreTheWinners(t *testing.T) {
	var attempts []taskqueue.Attempt
	for i, number := range []int{1, 2, 1, 1} {
		attempts = append(attempts, taskqueue.Attempt{Outcome: task.Outcome{Attempt: task.AttemptID{Task: "w-aaaaaaaaaa/t", Counter: uint64(i + 1)}, Number: number}})
	}
	for _, c := range []struct {
		winner uint64
		number int
		want   uint64
	}{
		{1, 1, 1}, {3, 1, 3}, {3, 0, 3}, {3, 2, 2}, {2, 1, 4}, {0, 1, 4}, {0, 0, 4}, {0, 3, 0},
	} {
		winner := task.AttemptID{}
		if c.winner > 0 {
			winner = attempts[c.winner-1].Outcome.Attempt
		}
		var got uint64
		if shown := server.AttemptOfNumber(attempts, winner, c.number); shown != nil {
			got = shown.Outcome.Attempt.Counter
		}
		if got != c.want {
			t.Errorf("attempt %d won, a%d is asked for: attempt %d is shown, not %d", c.winner, c.number, got, c.want)
		}
	}
}
