package pilot_test

import (
	"fmt"
	"slices"
	"time"

	"github.com/pilotage-grid/pilotage/pilot/master"
	"github.com/pilotage-grid/pilotage/pilot/message"
	"github.com/pilotage-grid/pilotage/pilot/worker"
	"github.com/pilotage-grid/pilotage/task"
)

// stepWorker drives the worker's core and carries its actions out.
func (n *node) stepWorker(event message.Event) []message.Action {
	if !n.alive {
		return nil
	}
	w := n.w
	actions := n.worker.Step(w.now, event)
	for _, action := range actions {
		switch a := action.(type) {
		case message.Tell:
			w.noteTold(n, a)
			w.send(n, a.To, a.Message)
		case worker.AnswerBroadcast:
			// by deliver
		case worker.StageIn:
			w.after(w.stageTime, func() { n.staged(a) })
		case worker.StartPayload:
			n.start(a)
		case worker.KillPayload:
			w.after(time.Millisecond, func() { n.killed(a.Attempt) })
		case worker.Publish:
			w.after(5*time.Millisecond, func() { n.published(a) })
		case worker.Upload:
			n.upload(a.Output)
		case worker.Keep:
			w.after(w.stageTime, func() { n.takeOver(a.File) })
		case worker.CopyIn:
			if n.mute {
				continue
			}
			n.making++
			if n.making > 2 {
				w.failed("%s makes %d copies at once", n.id, n.making)
			}
			w.after(w.stageTime, func() { n.copyIn(a.File) })
		case worker.DropCopy:
			if n.cache[a.File.Key()] && !n.keeps(a.File) {
				w.note("%s drops %s", n.id, a.File.LFN.Local())
				w.after(0, func() { n.evict(a.File) })
			}
		case worker.LetGo:
			if !n.sole[a.Output.ID()] {
				w.failed("%s lets go of %s, which it does not keep", n.id, a.Output.LFN)
			}
			delete(n.sole, a.Output.ID())
			w.detail("%s lets go of %s of %s", n.id, a.Output.LFN.Local(), attemptName(a.Output.Attempt))
		case worker.Discard:
			delete(n.payloads, a.Attempt)
		case worker.DropLogs:
			if p := n.payloads[a.Attempt]; p != nil && !p.over {
				w.failed("%s drops the logs of a payload that runs", n.id)
			}
		case worker.DeliverToQueue:
			n.deliverToQueue(a)
		case worker.Draining:
			w.note("%s drains: %s", n.id, a.Reason)
		case worker.Drained:
			n.drained = true
			w.note("%s is drained", n.id)
		default:
			w.failed("the worker wants %T", action)
		}
	}
	n.arm(n.worker.Deadline(), &n.wakeWorker, func() {
		n.stepWorker(message.Tick{})
		if next := n.worker.Deadline(); !next.IsZero() && !next.After(w.now) {
			w.failed("%s: the worker wants a tick at %s, which is past", n.id, next.Sub(epoch))
		}
	})
	return actions
}

// stepMaster drives the master's core and carries its actions out.
func (n *node) stepMaster(event message.Event) {
	if !n.alive {
		return
	}
	w := n.w
	for _, action := range n.stepCore(event) {
		switch a := action.(type) {
		case message.Tell:
			w.noteTold(n, a)
			w.send(n, a.To, a.Message)
		case master.CastList:
			w.cast(n, a)
		case master.CallSync:
			w.callSync(n, a)
		case master.Fenced:
			w.note("%s is fenced", n.id)
		case master.DenyPeers:
		default:
			w.failed("the master wants %T", action)
		}
	}
	n.arm(n.master.Deadline(), &n.wakeMaster, func() {
		n.stepMaster(message.Tick{})
		if next := n.master.Deadline(); !next.IsZero() && !next.After(w.now) {
			w.failed("%s: the master wants a tick at %s, which is past", n.id, next.Sub(epoch))
		}
	})
}

// stepCore records what the master's core is told, if that is wanted.
func (n *node) stepCore(event message.Event) []message.Action {
	if n.recorder == nil {
		return n.master.Step(n.w.now, event)
	}
	actions, err := n.recorder.Step(n.master, n.w.now, event)
	if err != nil {
		n.w.failed("%s: %v", n.id, err)
	}
	return actions
}

// arm has a core woken at its deadline.
func (n *node) arm(at time.Time, armed *time.Time, wake func()) {
	if at.IsZero() || at.Equal(*armed) {
		return
	}
	*armed = at
	n.w.after(max(0, at.Sub(n.w.now)), func() {
		if n.alive && armed.Equal(at) {
			*armed = time.Time{}
			wake()
		}
	})
}

func (n *node) keep(f task.File) []task.FileKey {
	keys := []task.FileKey{task.KeyOf(f.LFN, task.Digest{}), f.Key()}
	for _, key := range keys {
		n.cache[key] = true
	}
	return keys
}

// evict takes a file out of a cache.
func (n *node) evict(f task.File) {
	keys := []task.FileKey{task.KeyOf(f.LFN, task.Digest{}), f.Key()}
	for _, key := range keys {
		delete(n.cache, key)
	}
	n.stepWorker(worker.CacheChanged{Keys: keys, Cache: n.usage()})
}

// staged reads inputs from the own cache, peers, or the storage element.
func (n *node) staged(a worker.StageIn) {
	w := n.w
	var reads []task.Read
	var fresh []task.FileKey
	var lost []task.File
	for _, f := range a.Files {
		source, found := n.find(f)
		if !found {
			lost = append(lost, f)
			continue
		}
		if source != task.SourceLocal {
			fresh = append(fresh, n.keep(f)...)
		}
		reads = append(reads, task.Read{
			LFN: f.LFN, Size: f.Size, Digest: f.Digest, Source: source, Intermediate: !f.Producer.IsZero(), Producer: f.Producer,
		})
	}
	if len(fresh) > 0 {
		n.stepWorker(worker.CacheChanged{Keys: fresh, Cache: n.usage()})
	}
	if len(lost) > 0 {
		w.note("%s cannot read %s", n.id, lost[0].LFN.Local())
		n.stepWorker(worker.StageFailed{Attempt: a.Attempt, Failure: task.InputMissing, Reason: "an input cannot be read", Lost: lost})
		return
	}
	n.stepWorker(worker.StagedIn{Attempt: a.Attempt, Reads: reads})
}

func (n *node) find(f task.File) (task.Source, bool) {
	if n.cache[f.Key()] {
		return task.SourceLocal, true
	}
	for _, other := range n.w.live() {
		if other != n && other.cache[f.Key()] && !n.w.broken[link(n, other)] {
			return task.SourcePeer, true
		}
	}
	return task.SourceSE, len(f.Replicas) > 0
}

// start runs a payload and watches over the promises of the site.
func (n *node) start(a worker.StartPayload) {
	w, t := n.w, a.Assignment.Task
	p := &payload{assignment: a.Assignment}
	n.payloads[a.Attempt] = p
	n.slots--
	n.free = n.free.Sub(t.Resources)
	if n.slots < 0 || n.free.Cores < 0 || n.free.Memory < 0 || n.free.Disk < 0 {
		w.failed("%s starts %s without room for it: %d slots and %v are left", n.id, t.ID.Name(), n.slots, n.free)
	}
	of := generationOf(a.Attempt)
	if w.running[of] == nil {
		w.running[of] = make(map[*node]bool)
	}
	if w.running[of][n] {
		w.failed("%s runs %s twice itself", n.id, t.ID.Name())
	}
	w.running[of][n] = true
	if len(w.running[of]) > 1 && !w.excused[t.ID] {
		w.failed("%s runs %s, which runs elsewhere too", n.id, t.ID.Name())
	}
	w.started[t.ID]++
	w.note("%s starts %s (%s)", n.id, t.ID.Name(), attemptName(a.Attempt))
	run, chosen := w.runs[t.ID.Name()]
	if !chosen {
		run = time.Second
	}
	at := w.now
	w.after(time.Millisecond, func() { n.stepWorker(worker.PayloadStarted{Attempt: a.Attempt, At: at}) })
	w.after(run, func() { n.ended(a.Attempt, p, at) })
}

// generation is a task as often as it is made anew: an attempt of an earlier one
// may still run, for late work is still work.
type generation struct {
	task   task.ID
	number uint32
}

func generationOf(id task.AttemptID) generation { return generation{id.Task, id.Generation} }

func (w *world) stopped(n *node, id task.AttemptID) { delete(w.running[generationOf(id)], n) }

func (n *node) killed(id task.AttemptID) {
	if p := n.payloads[id]; p != nil && !p.over {
		p.killed = true
		n.ended(id, p, n.w.now)
	}
}

func (n *node) ended(id task.AttemptID, p *payload, started time.Time) {
	w := n.w
	if !n.alive || p.over {
		return
	}
	p.over = true
	n.slots++
	n.free = n.free.Add(p.assignment.Task.Resources)
	w.stopped(n, id)
	outcome := task.Outcome{OK: true, Run: w.now.Sub(started), Started: started, Ended: w.now, Delay: -1}
	switch name := id.Task.Name(); {
	case p.killed:
		outcome.OK, outcome.Failure, outcome.Signal, outcome.ExitCode = false, task.PayloadFailed, "SIGKILL", -1
	case w.failures[name] > 0:
		w.failures[name]--
		outcome.OK, outcome.Failure, outcome.ExitCode = false, task.PayloadFailed, 1
	}
	w.note("%s ends %s: %s", n.id, id.Task.Name(), describe(&outcome))
	n.stepWorker(worker.PayloadEnded{Attempt: id, Outcome: outcome})
}

// published puts outputs into the cache; every attempt makes other bytes.
func (n *node) published(a worker.Publish) {
	if !n.alive {
		return
	}
	delete(n.payloads, a.Attempt)
	published := worker.Published{Attempt: a.Attempt, Outcome: a.Outcome}
	var keys []task.FileKey
	for _, output := range a.Assignment.Task.Outputs {
		made := task.Produced{LFN: output.LFN, Size: task.MiB, Digest: digestOf(string(output.LFN), a.Attempt.String())}
		published.Outputs = append(published.Outputs, made)
		n.sole[task.OutputID{Attempt: a.Attempt, LFN: made.LFN}] = true
		keys = append(keys, n.keep(task.File{LFN: made.LFN, Digest: made.Digest})...)
	}
	if len(keys) > 0 {
		n.stepWorker(worker.CacheChanged{Keys: keys, Cache: n.usage()})
	}
	n.stepWorker(published)
}

// takeOver reads a file that this pilot is to keep.
func (n *node) takeOver(file task.File) {
	if !n.alive {
		return
	}
	if _, found := n.find(file); !found || n.full {
		n.stepWorker(worker.Kept{File: file, Failure: "there is no room, or nobody gives it"})
		return
	}
	n.w.note("%s keeps %s", n.id, file.LFN.Local())
	n.sole[task.OutputID{Attempt: file.Producer, LFN: file.LFN}] = true
	n.stepWorker(worker.CacheChanged{Keys: n.keep(file), Cache: n.usage()})
	n.stepWorker(worker.Kept{File: file})
}

// copyIn makes a replica of a file.
func (n *node) copyIn(file task.File) {
	if !n.alive {
		return
	}
	n.making--
	done := worker.CopiedIn{File: file}
	switch source, found := n.find(file); {
	case !found || n.full:
		done.Failure = "there is no room, or nobody gives it"
		n.w.note("%s cannot copy %s", n.id, file.LFN.Local())
	case source != task.SourceLocal:
		n.w.note("%s copies %s from %s", n.id, file.LFN.Local(), source)
		n.copied = append(n.copied, file.LFN)
		done.Copied, done.Bytes = true, file.Size
		n.stepWorker(worker.CacheChanged{Keys: n.keep(file), Cache: n.usage()})
	}
	n.stepWorker(done)
}

// keeps tells whether the file is an output that no storage element has.
func (n *node) keeps(file task.File) bool {
	return n.sole[task.OutputID{Attempt: file.Producer, LFN: file.LFN}]
}

// usage is what the pilot says of its cache.
func (n *node) usage() message.CacheReport { return message.CacheReport{Capacity: n.capacity} }

// upload tries until it works, the file is gone, or nobody wants it stored.
func (n *node) upload(output message.Output) {
	w, attempt := n.w, output.Attempt
	if w.queue.settings.SE == "" {
		return
	}
	w.after(w.upload, func() {
		if !n.alive || !n.sole[output.ID()] {
			return
		}
		if !n.cache[task.KeyOf("", output.Digest)] {
			delete(n.sole, output.ID())
			n.stepWorker(worker.NotUploaded{Output: output.ID()})
			return
		}
		if w.storageDown || w.noUploads && attempt.Pilot == n.id {
			n.stepWorker(worker.UploadFailed{Output: output.ID()})
			w.after(time.Second, func() { n.upload(output) })
			return
		}
		url := "file:///se/" + attempt.Suffix() + "/" + output.LFN.Local()
		w.storage[task.LFN(url)] = true
		n.stepWorker(worker.Uploaded{Stored: []task.Stored{{
			LFN: output.LFN, Attempt: attempt, URL: url, Size: output.Size, Digest: output.Digest,
		}}})
	})
}

func (n *node) deliverToQueue(a worker.DeliverToQueue) {
	w := n.w
	w.after(w.syncTime, func() {
		if !n.alive || w.queue.away {
			return
		}
		delivered := worker.DeliveredToQueue{Acks: w.queue.outcomes(a.Outcomes)}
		w.queue.stored(a.Stored)
		w.queue.review()
		w.queue.wake()
		for _, s := range a.Stored {
			delivered.Stored = append(delivered.Stored, s.Output())
		}
		w.after(w.syncTime, func() { n.stepWorker(delivered) })
	})
}

// noteTold writes down what the messages mean that change who does what.
func (w *world) noteTold(from *node, a message.Tell) {
	to := w.byPeer(a.To)
	if to == nil {
		return
	}
	switch m := a.Message.(type) {
	case message.Assign:
		for _, given := range m.Tasks {
			how := "a slot"
			if given.Prefill {
				how = "prefill"
			}
			w.note("%s assigns %s to %s for %s", from.id, given.Task.ID.Name(), to.id, how)
		}
	case message.Retract:
		w.note("%s asks %s for %s back", from.id, to.id, m.Task.Name())
	case message.Kill:
		w.note("%s has %s end %s: %s", from.id, to.id, m.Task.Name(), m.Reason)
	case message.StoreOrder:
		w.note("%s has %s store %s", from.id, to.id, m.File.LFN.Local())
	case message.DrainOrder:
		w.note("%s has %s drain", from.id, to.id)
	case message.Want:
		w.detail("%s wants of %s state=%v row=%v", from.id, to.id, m.State, m.Row)
	case message.Snapshot:
		w.detail("%s sends %s list %d with %d tasks", from.id, to.id, m.List.Version.N, len(m.List.Entries))
	case message.State:
		w.detail("%s tells %s its state %d: list %d, %d in hand, %d outcomes", from.id, to.id, m.Number, m.List.N, len(m.InHand), len(m.Outcomes))
	case message.KeepCopy:
		w.detail("%s has %s keep %d leases, drop %d, forget %d tasks", from.id, to.id, len(m.Leases), len(m.Drop), len(m.Gone))
	case message.Report:
		w.detail("%s reports %s", from.id, reportNews(m))
		for _, back := range m.Returned {
			w.note("%s hands %s back: %s", from.id, back.Task.Name(), back.Reason)
		}
		for _, file := range m.Leaves {
			w.note("%s wants another keeper for %s", from.id, file.LFN.Local())
		}
		for _, file := range m.Gone {
			w.note("%s has %s no more, which it was to keep", from.id, file.LFN.Local())
		}
		for _, answer := range m.Retracts {
			w.note("%s answers for %s: retracted=%v", from.id, answer.Task.Name(), answer.Retracted)
		}
	}
}

// drainNow ends a pilot in an orderly way.
func (n *node) drainNow(reason string, within time.Duration) {
	n.w.note("%s drains", n.id)
	n.stepWorker(worker.Drain{Reason: reason, Within: within})
}

// leave takes a drained pilot off the roster.
func (n *node) leave() {
	n.alive = false
	office := n.w.office
	office.stepMaster(master.PilotDown{Pilot: n.id, Peer: n.peer, Left: true, Reason: "drained"})
}

func (w *world) idle() bool {
	return !slices.ContainsFunc(w.live(), func(n *node) bool { return !n.worker.Idle() })
}

// reportNews says what a report is about.
func reportNews(r message.Report) string {
	news := fmt.Sprintf("%d:", r.Number)
	add := func(n int, what string) {
		if n > 0 {
			news += fmt.Sprintf(" %d %s", n, what)
		}
	}
	add(len(r.Starts), "starts")
	add(len(r.Ended), "ends")
	add(len(r.Outcomes), "outcomes")
	add(len(r.Stored), "stored")
	add(len(r.Updates), "row changes")
	if r.Row != nil {
		news += fmt.Sprintf(" row of list %d, %d classes, %d exceptions", r.Row.Version.N, len(r.Row.Classes), len(r.Row.Exceptions))
	}
	if r.WantList {
		news += " wants the list"
	}
	if r.Draining {
		news += " draining"
	}
	return news
}
