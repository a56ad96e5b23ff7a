package worker

import (
	"slices"

	"github.com/pilotage-grid/pilotage/pilot/message"
	"github.com/pilotage-grid/pilotage/task"
)

// A successor has come early: its master names no file for an input that a payload
// here is about to make. It waits for that, and starts when it is in the cache,
// without anybody being asked.

// awaits tells whether inputs of a job do not exist yet.
func (w *Worker) awaits(job *work) bool {
	return slices.ContainsFunc(job.Files, func(file task.File) bool { return !file.Exists() })
}

// supply hands the outputs of an attempt to the jobs that await them.
func (w *Worker) supply(outcome *task.Outcome) {
	if !outcome.OK {
		return
	}
	for _, job := range w.awaitingJobs() {
		for _, output := range outcome.Outputs {
			job.learn(message.Output{Attempt: outcome.Attempt, Produced: output}.File(outcome.Site))
		}
		if !w.awaits(job) {
			job.received = w.now
			w.reserve(job)
			w.stage(job)
		}
	}
}

// learn fills a file in that did not exist when the job was assigned.
func (job *work) learn(file task.File) {
	for i := range job.Files {
		if job.Files[i].LFN == file.LFN && !job.Files[i].Exists() {
			job.Files[i] = file
		}
	}
}

// passAwaiting gives back what waits in vain: the payload that was to make its
// input has failed, was killed, or was over before.
func (w *Worker) passAwaiting() {
	for _, job := range w.awaitingJobs() {
		if !w.makesAll(job) {
			w.drop(job)
			w.report.Retracts = append(w.report.Retracts, message.RetractAnswer{Task: job.Task.ID, Lease: job.Lease, Retracted: true})
			w.soon(0)
		}
	}
}

// awaitingJobs lists those whose inputs are being made, in order.
func (w *Worker) awaitingJobs() (found []*work) {
	for _, job := range w.work {
		if job.phase == awaiting {
			found = append(found, job)
		}
	}
	slices.SortFunc(found, oldestFirst)
	return found
}

// makesAll tells whether all inputs that a job awaits are being made here.
func (w *Worker) makesAll(job *work) bool {
	for _, file := range job.Files {
		if !file.Exists() && !w.makes(file.LFN) {
			return false
		}
	}
	return true
}

func (w *Worker) makes(name task.LFN) bool {
	for _, job := range w.work {
		if slices.ContainsFunc(job.Task.Outputs, func(output task.Output) bool { return output.LFN == name }) {
			return true
		}
	}
	return false
}
