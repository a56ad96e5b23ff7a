package server

import (
	"context"
	"slices"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
	"github.com/pilotage-grid/pilotage/taskqueue/serving"
)

// Call is a Sync or a Pull that has come to the queue. It is parked while there is no
// news.
type Call struct {
	By *serving.Connection
	// Answer is called at its end, Lost instead if the process ends before.
	Answer func(reply *task.PullReply, err error)
	Lost   func()
	// Look looks for news. Sync and Pull set it.
	Look func() (reply task.PullReply, office bool, err error)

	entry *serving.Call
	site  task.Site
	pilot task.PilotID
	pull  bool
	reply task.PullReply
	over  bool
	waits int
}

// Sync enters the call of a master.
func (q *Queue) Sync(c *Call, in *task.Sync) {
	c.site, c.pilot = in.Site, in.Pilot
	c.entry = q.Desk.Sync(q.moment(), in, c.By, func() { q.host.After(0, func() { q.attend(c) }) })
	c.Look = func() (reply task.PullReply, office bool, err error) {
		err = q.host.Update(func(t *taskqueue.Turn) (err error) {
			reply.SyncReply, err = q.Rules.Sync(t, *in)
			return err
		})
		return reply, true, err
	}
}

// Pull enters the call of a pilot that is its own master.
func (q *Queue) Pull(c *Call, in *task.Pull) {
	c.site, c.pilot, c.pull = in.Site, in.Pilot, true
	c.entry = q.Desk.Pull(q.moment(), in, c.By, func() { q.host.After(0, func() { q.attend(c) }) })
	capacity := q.Matching.Hear(c.entry, in)
	c.Look = func() (task.PullReply, bool, error) {
		return q.Matching.Pull(context.Background(), c.entry, in, capacity)
	}
}

// Serve serves a call that was entered until it is answered.
func (q *Queue) Serve(c *Call) {
	q.calls = append(q.calls, c)
	q.attend(c)
}

// ServeLate carries a call out for which nobody waits any more.
func (q *Queue) ServeLate(c *Call) error {
	_, _, err := c.Look()
	q.leave(c)
	return err
}

// attend does with a call what the desk says, as the product's server does.
func (q *Queue) attend(c *Call) {
	for !c.over {
		do, wait := q.Desk.Next(q.moment(), c.entry)
		switch do {
		case serving.Answer:
			q.leave(c)
			c.Answer(&c.reply, nil)
		case serving.Look:
			reply, office, err := c.Look()
			switch {
			case c.over: // dropped meanwhile
			case err != nil:
				q.leave(c)
				c.Answer(nil, err)
			default:
				c.reply = reply
				q.Desk.Looked(q.moment(), c.entry, &c.reply, office)
			}
		case serving.Wait:
			c.waits++
			waits := c.waits
			q.host.After(wait, func() {
				if c.waits == waits {
					q.attend(c)
				}
			})
			return
		}
	}
}

// leave ends a call.
func (q *Queue) leave(c *Call) (newest bool) {
	c.over = true
	q.calls = slices.DeleteFunc(q.calls, func(other *Call) bool { return other == c })
	return q.Desk.Leave(q.moment(), c.entry)
}

// HangUp notes that a connection has ended: nobody waits for the answers to its calls.
func (q *Queue) HangUp(by *serving.Connection) {
	q.Desk.HangUp(q.moment(), by)
	for _, c := range slices.Clone(q.calls) {
		if c.By == by && q.leave(c) && c.pull {
			q.Matching.Broken(c.site, c.pilot)
		}
	}
}

// Kill ends the process: no call is answered.
func (q *Queue) Kill() {
	for _, c := range q.calls {
		c.over = true
		c.Lost()
	}
	q.calls = nil
}
