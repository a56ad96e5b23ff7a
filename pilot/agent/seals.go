package agent

import (
	"github.com/pilotage-grid/pilotage/pilot/message"
	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/task/taskpb"
)

// sealed is a message with this pilot's signature of the outcomes in it, one for all:
// another pilot brings them to the queue. What this pilot brings itself needs none.
func (r *roles) sealed(to task.PeerID, said message.Message) message.Message {
	if to == r.network.peer {
		return said
	}
	switch m := said.(type) {
	case message.Report:
		m.Seal = r.seal(m.Outcomes)
		return m
	case message.State:
		m.Seal = r.seal(m.Outcomes)
		return m
	case message.Answer:
		if m.State != nil && len(m.State.Outcomes) > 0 {
			state := *m.State
			state.Seal = r.seal(state.Outcomes)
			m.State = &state
		}
		return m
	}
	return said
}

func (r *roles) seal(outcomes []task.Outcome) *task.Seal {
	if len(outcomes) == 0 {
		return nil
	}
	digests, err := taskpb.DigestsOf(outcomes)
	if err != nil {
		r.log.Error("outcomes cannot be signed", "error", err)
		return nil
	}
	return r.own.Seal(digests)
}
