package task

import (
	"fmt"
)

// State is a durable state of a task. Assigned and running are attributes of
// attempts, not states.
type State uint8

// The states of a task.
const (
	Blocked     State = iota + 1 // an input does not exist yet
	Ready                        // may be handed to a site
	Leased                       // handed to a site
	Done                         // an outcome was accepted
	Failed                       // retries are used up, or the failure is final
	Cancelled                    // by a user, or because an upstream task ended badly
	Quarantined                  // its attempts killed pilot after pilot
)

var stateNames = [...]string{
	Blocked: "BLOCKED", Ready: "READY", Leased: "LEASED", Done: "DONE",
	Failed: "FAILED", Cancelled: "CANCELLED", Quarantined: "QUARANTINED",
}

// States lists all states in the order of a task's life.
func States() []State {
	return []State{Blocked, Ready, Leased, Done, Failed, Cancelled, Quarantined}
}

func (s State) String() string {
	if int(s) < len(stateNames) && stateNames[s] != "" {
		return stateNames[s]
	}
	return fmt.Sprintf("State(%d)", uint8(s))
}

// Terminal tells whether the task has ended (it may be reopened by Retry or
// Regenerate).
func (s State) Terminal() bool { return s >= Done && s <= Quarantined }

// EndedBadly tells whether dependants can no longer get their input.
func (s State) EndedBadly() bool { return s == Failed || s == Cancelled || s == Quarantined }

// Event is what may change a task's state.
type Event uint8

// The events of a task's life.
const (
	InputsExist    Event = iota + 1 // the last missing input became readable somewhere
	InputsLost                      // a needed file has no holder and no replica left
	HandOut                         // leased to a site
	Return                          // given back unstarted, its inputs exist
	ReturnBlocked                   // given back unstarted, an input is missing
	AttemptFailed                   // a retryable failure, retries left
	LeaseExpired                    // the site was not heard within the lease
	Succeed                         // an outcome with all outputs was accepted
	GiveUp                          // a failure with no retries left, or a final one
	Quarantine                      // too many attempts took their pilot with them
	Cancel                          // a user's wish
	CancelUpstream                  // a task that it depends on ended badly
	Retry                           // a user reopens it
	Regenerate                      // its output was lost and is needed again
)

var eventNames = [...]string{
	InputsExist: "inputs exist", InputsLost: "inputs lost", HandOut: "hand-out",
	Return: "return", ReturnBlocked: "return, inputs missing", AttemptFailed: "attempt failed",
	LeaseExpired: "lease expired", Succeed: "outcome accepted", GiveUp: "give up",
	Quarantine: "quarantine", Cancel: "cancel", CancelUpstream: "upstream ended badly",
	Retry: "retry", Regenerate: "output lost",
}

func (e Event) String() string {
	if int(e) < len(eventNames) && eventNames[e] != "" {
		return eventNames[e]
	}
	return fmt.Sprintf("Event(%d)", uint8(e))
}

// Events lists all events.
func Events() []Event {
	events := make([]Event, 0, len(eventNames))
	for e := InputsExist; e <= Regenerate; e++ {
		events = append(events, e)
	}
	return events
}

// transitions is the one table of a task's life; docs/task-states.md is
// generated from it. What is not listed is not allowed.
//
// Outcomes are facts: Succeed is accepted from every open state, because late
// work is still work when no other outcome won.
var transitions = map[State]map[Event]State{
	Blocked: {
		InputsExist: Ready, HandOut: Leased, Succeed: Done,
		GiveUp: Failed, // its output was lost too often
		Cancel: Cancelled, CancelUpstream: Cancelled,
	},
	Ready: {
		InputsLost: Blocked, HandOut: Leased, Succeed: Done,
		Cancel: Cancelled, CancelUpstream: Cancelled,
	},
	Leased: {
		InputsLost: Blocked, Return: Ready, ReturnBlocked: Blocked,
		AttemptFailed: Ready, LeaseExpired: Ready, Succeed: Done,
		GiveUp: Failed, Quarantine: Quarantined,
		Cancel: Cancelled, CancelUpstream: Cancelled,
	},
	Done:        {Regenerate: Blocked},
	Failed:      {Retry: Blocked},
	Cancelled:   {Retry: Blocked},
	Quarantined: {Retry: Blocked},
}

// TransitionError tells that an event is not allowed in a state.
type TransitionError struct {
	From  State
	Event Event
}

func (e *TransitionError) Error() string {
	return fmt.Sprintf("a task in state %s does not take the event %q", e.From, e.Event)
}

// Next returns the state after the event, or a *TransitionError.
func (s State) Next(event Event) (State, error) {
	if next, ok := transitions[s][event]; ok {
		return next, nil
	}
	return s, &TransitionError{From: s, Event: event}
}
