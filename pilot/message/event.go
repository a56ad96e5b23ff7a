package message

import "github.com/pilotage-grid/pilotage/task"

// Event is an input of a core's Step: Tick, MasterInOffice, or one of the core's own.
type Event any

// Action is an output of a core's Step: Tell, or one of the core's own.
type Action any

// Tick lets time pass.
type Tick struct{}

// MasterInOffice tells a worker who is master; an empty peer is nobody.
type MasterInOffice struct {
	Term task.Term
	Peer task.PeerID
}

// Tell sends a message to a pilot.
type Tell struct {
	To      task.PeerID
	Message Message
}
