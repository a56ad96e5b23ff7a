package world

import (
	"slices"
	"strings"
	"time"

	"github.com/pilotage-grid/pilotage/pilot/message"
	"github.com/pilotage-grid/pilotage/pilot/worker"
	"github.com/pilotage-grid/pilotage/task"
)

// What stands for cache, payloads and uploads.

func (n *node) holds(key task.FileKey) bool {
	_, held := n.cache[key]
	return held
}

func (n *node) cachedSize(key task.FileKey) (size task.Bytes, has bool) {
	return task.MiB, n.holds(key)
}

// cached puts a file into the cache, under its name and its content.
func (n *node) cached(name task.LFN, digest task.Digest) {
	keys := []task.FileKey{task.KeyOf(name, task.Digest{}), task.KeyOf("", digest)}
	for _, key := range keys {
		n.cache[key] = digest
	}
	n.cacheChanged(keys)
}

func (n *node) cacheChanged(keys []task.FileKey) {
	n.stepWorker(worker.CacheChanged{Keys: keys})
	n.ownCache(keys)
}

// drop takes a file out of the cache, whatever it is kept for.
func (n *node) drop(digest task.Digest) {
	var keys []task.FileKey
	for key, held := range n.cache {
		if held == digest {
			delete(n.cache, key)
			keys = append(keys, key)
		}
	}
	slices.SortFunc(keys, func(a, b task.FileKey) int { return strings.Compare(string(a[:]), string(b[:])) })
	n.cacheChanged(keys)
}

// find looks for a file in the own cache, at peers, on storage elements.
func (n *node) find(f task.File) (task.Source, bool) {
	key := task.KeyOf("", f.Digest)
	if n.holds(key) {
		return task.SourceLocal, true
	}
	for _, other := range n.site.live() {
		if other != n && !n.alone && !n.isolated() && n.net.Part(other.member) == n.net.Part(n.member) && other.holds(key) {
			return task.SourcePeer, true
		}
	}
	for _, replica := range f.Replicas {
		if s := n.element(replica.URL); s != nil && !s.down && !n.shut && !n.misreads && s.gives(replica.URL, f.Digest) {
			return task.SourceSE, true
		}
	}
	return 0, false
}

// badCopies are those of a file of which its storage element says that they are
// not there, or gives other bytes.
func (n *node) badCopies(f task.File) (bad []task.LostFile) {
	for _, replica := range f.Replicas {
		if s := n.element(replica.URL); s != nil && !s.down && !n.shut && (n.misreads || !s.gives(replica.URL, f.Digest)) {
			bad = append(bad, task.LostFile{LFN: f.LFN, Digest: f.Digest, URL: replica.URL, Reason: "it is damaged"})
		}
	}
	return bad
}

func (n *node) stageIn(a worker.StageIn) {
	if !n.alive {
		return
	}
	n.site.begun++
	if n.full {
		n.stepWorker(worker.StageFailed{Attempt: a.Attempt, Failure: task.PilotFailed, NoRoom: true, Reason: "no space left"})
		return
	}
	var reads []task.Read
	var lost []task.File
	for _, f := range a.Files {
		source, found := n.find(f)
		if !found {
			lost = append(lost, f)
			continue
		}
		n.cached(f.LFN, f.Digest)
		reads = append(reads, task.Read{
			LFN: f.LFN, Size: f.Size, Digest: f.Digest, Source: source, Intermediate: !f.Producer.IsZero(), Producer: f.Producer,
		})
	}
	if len(lost) > 0 {
		n.unread++
		n.note("%s cannot read %s of %s: %d of %d copies are bad", n.id, lost[0].LFN, lost[0].Producer.Pilot, len(n.badCopies(lost[0])), len(lost[0].Replicas))
		failed := worker.StageFailed{Attempt: a.Attempt, Failure: task.InputMissing, Reason: "an input cannot be read"}
		for _, f := range lost {
			bad := n.badCopies(f)
			if len(bad) < len(f.Replicas) {
				failed.Failure = task.StorageFailed
			} else if !f.Producer.IsZero() {
				failed.Lost = append(failed.Lost, f)
			}
			for _, copied := range bad {
				n.stepWorker(worker.BadCopy{Copy: copied})
			}
		}
		n.stepWorker(failed)
		return
	}
	n.stepWorker(worker.StagedIn{Attempt: a.Attempt, Reads: reads})
}

func (n *node) startPayload(a worker.StartPayload) {
	id := a.Assignment.Task.ID
	p := &payload{assignment: a.Assignment, started: n.clock()}
	n.payloads[a.Attempt], n.logs[a.Attempt] = p, true
	if running := n.running(); len(running) > n.slots {
		n.judge.Errorf("%s runs %v in %d slots", n.id, running, n.slots)
	}
	n.started[id]++
	n.note("%s starts %s", n.id, a.Attempt)
	n.after(0, func() { n.stepWorker(worker.PayloadStarted{Attempt: a.Attempt, At: p.started}) })
	outcome := task.Outcome{OK: true}
	if n.fails(id, n) {
		outcome = task.Outcome{Failure: task.PayloadFailed, ExitCode: 1, Reason: "exit code 1"}
	}
	n.after(n.run1(id, n), func() {
		if n.payloads[a.Attempt] == p {
			n.payloadEnds(a.Attempt, outcome)
		}
	})
}

func (n *node) payloadEnds(id task.AttemptID, outcome task.Outcome) {
	p := n.payloads[id]
	if p == nil || p.over || !n.alive {
		return
	}
	p.over = true
	if outcome.OK {
		n.ended[id.Task]++
	}
	outcome.Started, outcome.Ended, outcome.Run, outcome.Delay = p.started, n.clock(), n.clock().Sub(p.started), -1
	outcome.Stderr = []byte(strings.Repeat("x", n.logBytes))
	n.note("%s ends %s, ok %v", n.id, id, outcome.OK)
	n.stepWorker(worker.PayloadEnded{Attempt: id, Outcome: outcome})
}

// publish puts outputs into the cache; every attempt makes other bytes.
func (n *node) publish(a worker.Publish) {
	if !n.alive {
		return
	}
	published := worker.Published{Attempt: a.Attempt, Outcome: a.Outcome}
	for _, output := range a.Assignment.Task.Outputs {
		made := task.Produced{LFN: output.LFN, Size: task.MiB, Digest: digestOf(string(output.LFN), a.Attempt.String())}
		published.Outputs = append(published.Outputs, made)
		n.sole[task.OutputID{Attempt: a.Attempt, LFN: made.LFN}] = true
		n.cached(made.LFN, made.Digest)
	}
	n.stepWorker(published)
}

// upload tries until it works, the file is gone, or nobody wants it stored.
func (n *node) upload(output message.Output) {
	if n.office.Settings().SE == "" {
		return
	}
	n.after(uploadTime+n.site.slow, func() {
		switch {
		case !n.alive || !n.sole[output.ID()]:
		case !n.holds(task.KeyOf("", output.Digest)):
			delete(n.sole, output.ID())
			n.stepWorker(worker.NotUploaded{Output: output.ID()})
		case n.site.down || n.shut:
			n.stepWorker(worker.UploadFailed{Output: output.ID()})
			n.after(time.Second, func() { n.upload(output) })
		default:
			url := storageURL(n.office.Settings().SE, output.Attempt, output.LFN)
			made := output.Produced
			made.URL = url
			if n.site.drops {
				n.site.spoilt[url] = true
			} else {
				n.site.stored[url] = made
			}
			if n.site.mute {
				n.stepWorker(worker.UploadFailed{Output: output.ID()})
				n.after(time.Second, func() { n.upload(output) })
				return
			}
			n.stepWorker(worker.Uploaded{Stored: []task.Stored{{
				LFN: output.LFN, Attempt: output.Attempt, URL: url, Size: output.Size, Digest: output.Digest,
			}}})
		}
	})
}

// gives tells whether a storage element has a file and gives its bytes.
func (s *site) gives(url string, digest task.Digest) bool {
	return !s.lies && s.stored[url].Digest == digest
}

// storageURL is where the product keeps an attempt's output.
func storageURL(element string, attempt task.AttemptID, lfn task.LFN) string {
	return element + "/" + task.StorageName(attempt, lfn)
}

// keep looks for a file on the storage element, or takes it over from another pilot.
func (n *node) keep(file task.File) {
	if !n.alive {
		return
	}
	kept := worker.Kept{File: file}
	url := storageURL(n.office.Settings().SE, file.Producer, file.LFN)
	if n.office.Settings().SE != "" && !n.site.down && n.site.gives(url, file.Digest) {
		kept.URL = url
	} else if _, found := n.find(file); found {
		n.sole[task.OutputID{Attempt: file.Producer, LFN: file.LFN}] = true
		n.cached(file.LFN, file.Digest)
	} else {
		kept.Failure, kept.Away = "nobody gives it", n.office.Settings().SE != "" && n.site.down
	}
	n.stepWorker(kept)
}

func (n *node) copyIn(file task.File) {
	if !n.alive {
		return
	}
	done := worker.CopiedIn{File: file}
	switch source, found := n.find(file); {
	case !found:
		done.Failure = "nobody gives it"
	case source != task.SourceLocal:
		done.Copied, done.Bytes = true, file.Size
		n.cached(file.LFN, file.Digest)
	}
	n.stepWorker(done)
}
