package worker

// Several jobs of a pilot may need more room in the cache than it has. Then
// each would hold what it has got and wait for the rest, or fail, for ever. So
// a job that finds no room lets go of what it has got and waits until another
// one of this pilot ends; the oldest goes first, and those that have no slot
// yet make room for it. A job that finds no room alone has failed.

// stage begins to fetch and pin the inputs of a job.
func (w *Worker) stage(job *work) {
	if job.phase == crowded {
		w.crowd--
	}
	job.phase, job.beside = staging, false
	for _, other := range w.work {
		if other != job && other.phase > crowded {
			job.beside, other.beside = true, true
		}
	}
	w.act(StageIn{Attempt: job.attempt, Files: job.Files})
}

// crowdOut lets a job wait for room.
func (w *Worker) crowdOut(job *work) {
	job.phase = crowded
	w.crowd++
	w.act(Discard{Attempt: job.attempt})
}

// passCrowd lets the oldest job that waits for room try again when there may
// be some: another one has let go of its inputs, or none has any.
func (w *Worker) passCrowd() {
	if w.crowd == 0 {
		return
	}
	var oldest *work
	alone := true
	for _, job := range w.inOrder() {
		alone = alone && job.phase <= crowded
		if job.phase == crowded && (oldest == nil || job.holding && !oldest.holding) {
			oldest = job
		}
	}
	if oldest.holding {
		w.yieldTo(oldest)
	}
	if w.roomier || alone {
		w.roomier = false
		w.stage(oldest)
	}
}

// yieldTo takes the inputs back from jobs that have them and no slot.
func (w *Worker) yieldTo(oldest *work) {
	for _, job := range w.inOrder() {
		if job != oldest && job.phase == staged && !job.holding {
			w.crowdOut(job)
			w.roomier = true
		}
	}
}
