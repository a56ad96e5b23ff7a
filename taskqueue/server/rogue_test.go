package server_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/pilotage-grid/pilotage/identity"
	pb "github.com/pilotage-grid/pilotage/proto/pilotage/v1"
	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/task/taskpb"
)

// sealed is a pilot's signature of outcomes, as its master passes it on.
func (p *pilot) sealed(outcomes ...*pb.Outcome) *pb.OutcomeSeal {
	p.q.t.Helper()
	var digests []task.OutcomeDigest
	form := &pb.OutcomeSeal{}
	for _, outcome := range outcomes {
		digest, err := taskpb.OutcomeDigest(outcome)
		if err != nil {
			p.q.t.Fatal(err)
		}
		digests = append(digests, digest)
		form.Digests = append(form.Digests, digest[:])
	}
	seal := p.cert.Seal(digests)
	form.Certificate, form.Signature = seal.Certificate, seal.Signature
	return form
}

// rogues is a site with a master and a worker, another site with a pilot, and a
// workflow of three tasks that the first site holds.
func rogues(t *testing.T) (q *queue, master, worker, stranger *pilot, lease *pb.Lease, workflow string) {
	t.Helper()
	q = start(t)
	q.addSite("siteA")
	master, worker = q.join("siteA"), q.join("siteA")
	work := single("work")
	work.Tasks = append(work.Tasks, plain("second"), plain("third"))
	workflow = q.mustSubmit(work)
	master.introduce()
	q.eventually("the tasks are handed out", func() bool {
		reply, err := master.Sync(q.ctx, master.report(0))
		if err != nil {
			t.Fatal(err)
		}
		if len(reply.GetLeases()) > 0 {
			lease = reply.GetLeases()[0]
		}
		return lease != nil && len(lease.GetTasks()) == 3
	})
	q.addSite("siteB") // now, so that it is handed out nothing
	return q, master, worker, q.join("siteB"), lease, workflow
}

// TestARogueMaster speaks in the name of a pilot of its site.
func TestARogueMaster(t *testing.T) {
	q, master, worker, stranger, lease, workflow := rogues(t)
	deliver := func(want pb.AckVerdict, what string, outcome *pb.Outcome, seals ...*pb.OutcomeSeal) {
		t.Helper()
		told := master.report(0, lease)
		told.Outcomes, told.Seals = []*pb.Outcome{outcome}, seals
		reply, err := master.Sync(q.ctx, told)
		if err != nil {
			t.Fatal(err)
		}
		if acks := reply.GetAcks(); len(acks) != 1 || acks[0].GetVerdict() != want {
			t.Errorf("%s: %v, want %s", what, acks, want)
		}
	}
	const refused = pb.AckVerdict_ACK_VERDICT_UNKNOWN
	truth, last := worker.outcome(lease, 0), worker.outcome(lease, 2)
	lie := proto.Clone(truth).(*pb.Outcome)
	lie.Ok, lie.Failure, lie.Reason = false, pb.FailureKind(task.PayloadFailed), "it failed, says the master"
	deliver(refused, "a failure that the pilot has not signed", lie)
	deliver(refused, "under the seal of the truth", lie, worker.sealed(truth))
	deliver(refused, "under the master's own seal", lie, master.sealed(lie))
	deliver(refused, "under the seal of a pilot of another site", lie, stranger.sealed(lie))
	forged := worker.sealed(truth)
	digest, err := taskpb.OutcomeDigest(lie)
	if err != nil {
		t.Fatal(err)
	}
	forged.Digests = [][]byte{digest[:]}
	deliver(refused, "under a seal with another digest", lie, forged)
	forged.Digests = [][]byte{{1}}
	deliver(refused, "under no seal", lie, forged)
	deliver(pb.AckVerdict_ACK_VERDICT_ACCEPTED, "the truth, passed on", truth, worker.sealed(worker.outcome(lease, 1), truth))
	deliver(refused, "a lie after the truth", lie, worker.sealed(truth))
	deliver(pb.AckVerdict_ACK_VERDICT_ACCEPTED, "the truth again", truth, worker.sealed(truth))
	deliver(pb.AckVerdict_ACK_VERDICT_ACCEPTED, "the master's own", master.outcome(lease, 1))
	deliver(pb.AckVerdict_ACK_VERDICT_ACCEPTED, "the last", last, worker.sealed(last))
	got, err := q.submit().GetWorkflow(q.ctx, &pb.GetWorkflowRequest{Workflow: workflow})
	if err != nil || got.GetWorkflow().GetState() != pb.WorkflowState_WORKFLOW_STATE_DONE {
		t.Errorf("the work of honest pilots: %v, %v", got.GetWorkflow(), err)
	}
	if _, metrics := q.get("/metrics"); !strings.Contains(metrics, `pilotage_refused_total{reason="OUTCOME_NOT_SIGNED",site="siteA"} 7`) {
		t.Error("the forged outcomes are not counted")
	}
}

// TestARoguePilot wants its master's office, and others' tasks and names.
func TestARoguePilot(t *testing.T) {
	q, master, worker, stranger, lease, _ := rogues(t)
	claim := func(expected *pb.Term, resignation []byte) *pb.ClaimMastershipResponse {
		t.Helper()
		master.introduce() // it lives
		reply, err := worker.ClaimMastership(q.ctx, &pb.ClaimMastershipRequest{Site: "siteA", Expected: expected, Resigned: true, Resignation: resignation})
		if err != nil {
			t.Fatal(err)
		}
		return reply
	}
	term := taskpb.FromTerm(master.term)
	other := term
	other.Epoch++
	for what, resignation := range map[string][]byte{
		"without a signature": nil, "signed by who wants it": worker.key.SignResignation("siteA", term),
		"of another term": master.key.SignResignation("siteA", other), "of another site": master.key.SignResignation("siteB", term),
	} {
		if reply := claim(master.term, resignation); reply.GetGranted() {
			t.Fatalf("a living master's office was given away by a resignation %s", what)
		}
	}
	// A later term, or another one of the same epoch, that the queue has not signed is no backup's.
	for _, made := range []task.Term{{Epoch: term.Epoch + 1, Peer: worker.key.Peer()}, {Epoch: term.Epoch, Ballot: 3, Peer: term.Peer}, {Epoch: term.Epoch, Peer: "z" + term.Peer}} {
		if reply := claim(taskpb.Term(made), worker.key.SignResignation("siteA", made)); reply.GetGranted() {
			t.Fatalf("a living master's office was given away by the invention of term %s: %s", made, reply.GetWhy())
		}
	}
	_, err := worker.ClaimMastership(q.ctx, &pb.ClaimMastershipRequest{Site: "siteA", Expected: &pb.Term{Epoch: math.MaxUint64, Peer: string(worker.key.Peer())}})
	wantRefusal(t, err, codes.PermissionDenied, "REFUSED")

	// A pilot of another site brings an outcome of its own for a task that is not its site's.
	reply, err := stranger.DeliverOutcomes(q.ctx, &pb.DeliverOutcomesRequest{Site: "siteB", Outcomes: []*pb.Outcome{stranger.outcome(lease, 0), worker.outcome(lease, 0)}})
	if err != nil || len(reply.GetAcks()) != 2 {
		t.Fatal(reply, err)
	}
	for _, ack := range reply.GetAcks() {
		if ack.GetVerdict() != pb.AckVerdict_ACK_VERDICT_UNKNOWN {
			t.Errorf("an outcome for another site's task: %v", ack)
		}
	}
	_, err = stranger.Sync(q.ctx, master.report(0, lease))
	wantRefusal(t, err, codes.PermissionDenied, "FORBIDDEN")

	// It registers with a key that is not its own.
	stolen := registration(t, "siteA", stranger.key)
	stolen.PublicKey = master.key.Public()
	_, err = q.dial(q.access("pilot-siteA").Token, nil).Register(q.ctx, stolen)
	wantRefusal(t, err, codes.InvalidArgument, "INVALID")

	// The master's own word moves its office at once, and the queue signs the new term.
	granted := claim(master.term, master.key.SignResignation("siteA", term))
	if !granted.GetGranted() {
		t.Fatalf("the master resigned: %v", granted.GetWhy())
	}
	verifier, err := identity.NewVerifier(q.caPEM())
	if err != nil {
		t.Fatal(err)
	}
	now := taskpb.FromTerm(granted.GetTerm())
	if err := verifier.VerifyTerm("siteA", now, granted.GetTermSignature()); err != nil {
		t.Error(err)
	}
	if now.Epoch++; verifier.VerifyTerm("siteA", now, granted.GetTermSignature()) == nil {
		t.Error("the queue's signature stands for an epoch that it has not granted")
	}
	worker.term = granted.GetTerm()
	told := worker.report(0, lease)
	told.Outcomes = []*pb.Outcome{worker.outcome(lease, 0)}
	if synced, err := worker.Sync(q.ctx, told); err != nil || len(synced.GetAcks()) != 1 || synced.GetAcks()[0].GetVerdict() != pb.AckVerdict_ACK_VERDICT_ACCEPTED {
		t.Errorf("honest pilots go on: %v, %v", synced, err)
	}
	if _, metrics := q.get("/metrics"); !strings.Contains(metrics, `pilotage_refused_total{reason="RESIGNATION_NOT_SIGNED",site="siteA"} 6`) {
		t.Error("forged resignations are not counted")
	}
}

// A seal outlives the membership of its pilot: late work is still work.
func TestSealsOutliveMemberships(t *testing.T) {
	q := start(t)
	q.addSite("siteA")
	p := q.join("siteA")
	verifier, err := identity.NewVerifier(q.caPEM())
	if err != nil {
		t.Fatal(err)
	}
	seal := p.cert.Seal([]task.OutcomeDigest{{1}, {2}})
	if m, err := verifier.VerifySeal(seal, "siteA", time.Now().Add(1000*time.Hour)); err != nil || string(m.Pilot) != p.id {
		t.Errorf("%v, %v", m, err)
	}
	seal.Digests = seal.Digests[:1]
	if _, err := verifier.VerifySeal(seal, "siteA", time.Now()); err == nil {
		t.Error("a seal with fewer outcomes than were signed")
	}
}
