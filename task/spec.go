package task

import (
	"cmp"
	"fmt"
	"strings"
	"time"
)

// NodeOf names the worker node of a pilot: pilots of one host share its faults,
// and one that declares no host is a node of its own.
func NodeOf(host string, pilot PilotID) string { return cmp.Or(host, string(pilot)) }

// Input is a file that a task reads.
type Input struct {
	LFN  LFN
	Name string // path in the work folder
}

// Output is a file that a task must leave behind.
type Output struct {
	LFN  LFN
	Name string // path in the work folder
}

// Task describes a unit of work. It is immutable once submitted.
type Task struct {
	ID        ID
	Argv      []string // exactly one of Argv and Shell
	Shell     string   // run by /bin/sh -c
	Env       map[string]string
	Inputs    []Input
	Outputs   []Output
	Resources Resources
	Require   string        // CEL, hard requirement; "" accepts every pilot
	Rank      string        // a built-in name or CEL; "" is locality
	Priority  int           // higher first
	Bound     Bound         // what limits it, a hint for ranks
	Queue     string        // sites may serve queues in turn; "" is one of them
	Retries   int           // further attempts after a retryable failure
	Walltime  time.Duration // of one attempt
	// Container is the folder of an unpacked image at the node in which the payload
	// runs, e.g. below /cvmfs/unpacked.cern.ch; "" is the pilot's, or the node itself.
	Container string
}

// Bound says what limits a payload, so that a node can be given tasks that do
// not get in each other's way (004, section II).
type Bound string

// What a task may say; "" says nothing.
const (
	CPUBound Bound = "cpu"
	IOBound  Bound = "io"
)

// Class groups tasks that look alike to a pilot: same requirement, rank and
// resources. Expressions are evaluated once per class and pilot.
type Class struct {
	Require   string
	Rank      string
	Resources Resources
}

// Class returns the task's class.
func (t Task) Class() Class { return Class{t.Requirement(), t.Rank, t.Resources} }

// Requirement is what a pilot must meet: what the task asks for, and that its site
// lets payloads run in the task's container.
func (t Task) Requirement() string {
	if t.Container == "" {
		return t.Require
	}
	clause := fmt.Sprintf("pilot.images.exists(folder, %q.startsWith(folder))", t.Container)
	if strings.TrimSpace(t.Require) == "" {
		return clause
	}
	return clause + " && (" + t.Require + "\n)" // it may end in a comment
}

// Defaults of a task that does not say otherwise, and limits on what may come
// from outside.
const (
	DefaultRetries  = 3
	DefaultWalltime = 24 * time.Hour
	DefaultCores    = 1
	DefaultMemory   = 512 * MiB
	DefaultDisk     = GiB

	MaxInputs     = 10_000
	MaxOutputs    = 10_000
	MaxArgv       = 4_096
	MaxArgvBytes  = 128 << 10
	MaxEnv        = 256
	MaxTaskBytes  = 4 << 20 // of all texts of a description: it travels in one message
	MaxExpression = 8 << 10
	MaxQueue      = 64 // bytes of a queue's name
	MaxContainer  = 1 << 10
	MaxRetries    = 100
	MaxCores      = 4_096
	MaxGPUs       = 1_024
	MaxPriority   = 1_000_000
	MaxWorkflow   = 1_000_000 // tasks in a workflow after expansion
)
