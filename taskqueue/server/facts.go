package server

import (
	"fmt"
	"time"

	"github.com/pilotage-grid/pilotage/identity"
	pb "github.com/pilotage-grid/pilotage/proto/pilotage/v1"
	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/task/taskpb"
)

// Reasons for which facts of pilots are refused, in the log and as labels.
const (
	refusedOutcome     = "OUTCOME_NOT_SIGNED"
	refusedResignation = "RESIGNATION_NOT_SIGNED"
)

// facts tells which facts are signed by who alone can know them, and counts the others.
type facts struct {
	verifier *identity.Verifier
	refusals *refusals
}

// outcomes takes out of what a pilot brings the outcomes that neither it nor their own
// pilot has signed, and answers them as those of unknown attempts. A connection is as
// good as a signature.
func (f *facts) outcomes(c caller, brought []*pb.Outcome, seals []*pb.OutcomeSeal) (signed []*pb.Outcome, refused []*pb.Ack) {
	by := make(map[task.OutcomeDigest]task.PilotID)
	var bad error
	for _, seal := range seals[:min(len(seals), len(brought))] {
		member, digests, err := f.open(seal, c.site)
		if err != nil {
			bad = err
			continue
		}
		for _, digest := range digests {
			by[digest] = member.Pilot
		}
	}
	for _, outcome := range brought {
		of := task.PilotID(outcome.GetAttempt().GetPilot())
		if of == c.pilot {
			signed = append(signed, outcome)
			continue
		}
		digest, err := taskpb.OutcomeDigest(outcome)
		if err == nil && of != "" && by[digest] == of {
			signed = append(signed, outcome)
			continue
		}
		if bad == nil {
			bad = fmt.Errorf("an outcome in the name of pilot %.40q: %w", of, identity.ErrNotSigned)
		}
		f.refusals.note(refusedOutcome, c.site, c.String(), bad)
		refused = append(refused, &pb.Ack{Attempt: outcome.GetAttempt(), Verdict: pb.AckVerdict_ACK_VERDICT_UNKNOWN})
	}
	return signed, refused
}

func (f *facts) open(sealed *pb.OutcomeSeal, site task.Site) (identity.Member, []task.OutcomeDigest, error) {
	seal, err := taskpb.FromSeal(sealed)
	if err != nil {
		return identity.Member{}, nil, err
	}
	member, err := f.verifier.VerifySeal(seal, site, time.Now())
	return member, seal.Digests, err
}

// granted tells whether the queue itself has signed the term that a claimant expects in
// office: perhaps one that it forgot when it was put back to a backup.
func (f *facts) granted(c caller, in *pb.ClaimMastershipRequest) bool {
	return f.verifier.VerifyTerm(c.site, taskpb.FromTerm(in.GetExpected()), in.GetExpectedSignature()) == nil
}

// resigned tells whether the master of a term has signed that it gives it up.
func (f *facts) resigned(c caller, in *pb.ClaimMastershipRequest) bool {
	if !in.GetResigned() {
		return false
	}
	err := identity.VerifyResignation(c.site, taskpb.FromTerm(in.GetExpected()), in.GetResignation())
	if err != nil {
		f.refusals.note(refusedResignation, c.site, c.String(), err)
	}
	return err == nil
}
