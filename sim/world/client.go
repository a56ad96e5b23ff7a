package world

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

// client is a user with a small workflow of its own: it submits it, looks at its tasks,
// cancels and retries them. Answers to it get lost as those to pilots do.
type client struct {
	*timeline
	storm   *storm
	name    string
	flow    task.WorkflowID
	names   []string      // of its tasks
	badLine time.Duration // until when every other answer is lost
	history []porcupine.Operation
}

// request is what a client asked about a task, answer what it was told.
type request struct {
	verb verb
	task task.ID
}

type verb uint8

const (
	look verb = iota
	cancel
	retry
)

// answer is the state of a task after the request.
type answer struct {
	known      bool // the answer came
	done       bool // it changed something
	generation uint32
	state      task.State
}

const (
	clientPause = 5 * time.Second // between two requests, at most
	clientTries = time.Second     // between two tries of a submission
)

// addClient lets a user in, who begins after a while.
func (s *storm) addClient(d draws) *client {
	c := &client{timeline: s.timeline, storm: s, name: fmt.Sprint("user", len(s.clients)), names: []string{"a", "b", "c"}}
	s.clients = append(s.clients, c)
	s.after(d.between(0, 10*time.Second), c.submit)
	return c
}

// ask carries a call to the queue; what it does there happens if the call arrives, and
// told says whether the answer comes back.
func (c *client) ask(do func(*taskqueue.Turn) error, told func(ok bool)) {
	lost, lostReply := c.storm.queue.link.losesNext()
	lostReply = lostReply || c.now() < c.badLine && draws{c.random}.one(2)
	c.after(callTime, func() {
		if c.storm.queue.away || lost {
			c.after(callFailure, func() { told(false) })
			return
		}
		err := c.storm.queue.Update(do)
		if lostReply || c.storm.queue.away {
			c.after(callFailure, func() { told(false) })
			return
		}
		c.after(callTime+c.storm.queue.lag, func() { told(err == nil) })
	})
}

// submit submits the workflow until that is acknowledged, with one key.
func (c *client) submit() {
	submission := taskqueue.Submission{
		Key: c.name, Name: c.name, Fresh: true, Outputs: []string{c.name + ".z"},
		Tasks: named(c.name, []task.Task{
			one("a", makes("x")), one("b", reads("x"), makes("y")), one("c", reads("y"), makes("z")),
		}),
	}
	for i := range submission.Tasks {
		submission.Tasks[i].Retries = 50
	}
	var submitted taskqueue.Submitted
	c.ask(func(t *taskqueue.Turn) (err error) {
		submitted, err = c.storm.queue.Rules.Submit(t, submission)
		return err
	}, func(ok bool) {
		if !ok {
			c.after(clientTries, c.submit)
			return
		}
		c.flow = submitted.Workflow
		c.note("%s has submitted %s", c.name, c.flow)
		c.goOn()
	})
}

// goOn makes the next request after a while, until the faults are over.
func (c *client) goOn() {
	c.after(c.storm.between(0, clientPause), func() {
		if c.storm.calmed {
			return
		}
		of := []verb{look, look, look, look, look, cancel, retry, retry}
		c.request(request{of[c.random.IntN(len(of))], task.NewID(c.flow, c.name+"."+c.names[c.random.IntN(len(c.names))])}, c.goOn)
	})
}

// request makes one request and notes it in the history.
func (c *client) request(in request, then func()) {
	began := c.now()
	var out answer
	c.ask(func(t *taskqueue.Turn) error {
		out = answer{}
		n := 0
		var err error
		switch in.verb {
		case cancel:
			n, err = c.storm.queue.Rules.CancelTask(t, in.task)
		case retry:
			n, err = c.storm.queue.Rules.RetryTask(t, in.task)
		}
		if err != nil {
			return err
		}
		states, err := t.Tasks().Load(in.task)
		if err == nil && len(states) > 0 {
			out.done, out.generation, out.state = n > 0, states[0].Generation, states[0].State
		}
		return err
	}, func(ok bool) {
		ends := int64(math.MaxInt64) // it may still happen
		if out.known = ok; ok {
			ends = int64(c.now())
		}
		c.history = append(c.history, porcupine.Operation{Input: in, Call: int64(began), Output: out, Return: ends})
		then()
	})
}

// lifecycle is what the queue promises of one task: generations only grow, and within
// one of them a task ends once, for good. What ends it or begins the next generation
// may be somebody else at any time, so that only what was seen binds.
var lifecycle = porcupine.Model{
	Partition: func(history []porcupine.Operation) (parts [][]porcupine.Operation) {
		var order []task.ID
		by := make(map[task.ID][]porcupine.Operation)
		for _, o := range history {
			id := o.Input.(request).task
			if by[id] == nil {
				order = append(order, id)
			}
			by[id] = append(by[id], o)
		}
		for _, id := range order {
			parts = append(parts, by[id])
		}
		return parts
	},
	Init: func() any { return answer{} },
	Step: func(state, input, output any) (bool, any) {
		before, in, after := state.(answer), input.(request), output.(answer)
		after.known = true
		switch {
		case !output.(answer).known:
			return true, before
		case after.generation < before.generation:
			return false, before
		case after.generation == before.generation && before.state.Terminal() && before.state != after.state:
			return false, before
		case in.verb == cancel && !after.state.Terminal():
			return false, before
		case in.verb == retry && after.done && (after.state.Terminal() || before.known && after.generation == before.generation):
			return false, before
		}
		after.done = false
		return true, after
	},
	Equal: func(a, b any) bool { return a == b },
}

// judgeHistory says what must be true of what the client was told.
func (c *client) judgeHistory() {
	if !c.storm.restored() && !porcupine.CheckOperations(lifecycle, c.history) {
		c.judge.Errorf("what %s was told of its tasks contradicts itself: %s", c.name, c.contradiction())
	}
	copies := len(c.storm.queue.workflows(c.name))
	if copies > 1 || copies == 0 && !c.storm.restored() {
		c.judge.Errorf("%s has submitted once and has %d workflows", c.name, copies)
	}
}

// contradiction lists what was told of the first task for which it cannot be true.
func (c *client) contradiction() (told string) {
	for _, part := range lifecycle.Partition(c.history) {
		if porcupine.CheckOperations(lifecycle, part) {
			continue
		}
		slices.SortFunc(part, func(a, b porcupine.Operation) int { return int(a.Call - b.Call) })
		for _, o := range part {
			told += fmt.Sprintf("\n%s %+v: %+v", time.Duration(o.Call), o.Input, o.Output)
		}
		return told
	}
	return told
}

// settle retries what was cancelled, until all is DONE.
func (c *client) settle() {
	if !c.runUntil(time.Minute, func() bool { return c.flow != "" }) {
		c.judge.Errorf("the submission of %s is not answered", c.name)
		return
	}
	c.run(callFailure) // what is under way
	if c.storm.queue.workflow(c.flow).ID == "" {
		return // of after the backup
	}
	err := c.storm.queue.Update(func(t *taskqueue.Turn) error {
		_, err := c.storm.queue.Rules.RetryWorkflow(t, c.flow, false)
		return err
	})
	if err != nil && !errors.Is(err, taskqueue.ErrConflict) { // which says that nothing ended badly
		c.judge.Errorf("%s retries in vain: %v", c.name, err)
	}
	c.storm.endsWell(c.flow)
}
