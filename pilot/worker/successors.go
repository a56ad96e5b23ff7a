package worker

import (
	"slices"

	"github.com/pilotage-grid/pilotage/pilot/message"
	"github.com/pilotage-grid/pilotage/task"
)

// A successor has come early: its master names no file for an input that a payload
// here is about to make. It waits for that, and starts when it is in the cache,
// without anybody being asked.

// awaits tells whether inputs of an attempt do not exist yet.
func (a *attempt) awaits() bool {
	return slices.ContainsFunc(a.Files, func(file task.File) bool { return !file.Exists() })
}

// supply hands what has been made here to those that await it.
func (s *attempts) supply(at *step, site task.Site, made []message.Output) {
	for _, a := range s.awaiting() {
		for i, file := range a.Files {
			if n := slices.IndexFunc(made, func(o message.Output) bool { return o.LFN == file.LFN }); n >= 0 && !file.Exists() {
				a.Files[i] = made[n].File(site)
			}
		}
		if !a.awaits() {
			a.received = at.now
			s.slots.hold(a)
			s.stage(at, a)
		}
	}
}

// passAwaiting gives back what waits in vain: the payload that was to make its
// input has failed, was killed, or was over before.
func (s *attempts) passAwaiting(at *step) {
	for _, a := range s.awaiting() {
		if slices.ContainsFunc(a.Files, func(file task.File) bool { return !file.Exists() && !s.makes(file.LFN) }) {
			s.drop(at, a)
			at.answerRetract(a, true)
		}
	}
}

// awaiting lists those whose inputs are being made, in order.
func (s *attempts) awaiting() []*attempt {
	return s.which(func(a *attempt) bool { return a.phase == awaiting })
}

func (s *attempts) makes(name task.LFN) bool {
	return s.count(func(a *attempt) bool {
		return slices.ContainsFunc(a.Task.Outputs, func(output task.Output) bool { return output.LFN == name })
	}) > 0
}
