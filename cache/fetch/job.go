package fetch

import (
	"context"
	"errors"
	"io"

	"github.com/pilotage-grid/pilotage/cache"
	"github.com/pilotage-grid/pilotage/cache/disk"
	"github.com/pilotage-grid/pilotage/cache/peer"
	"github.com/pilotage-grid/pilotage/task"
)

// job is what is under way for one file: at most one transfer or question at a
// time, which then has it for itself.
type job struct {
	ctx       context.Context
	cancel    context.CancelFunc
	running   bool // a transfer has it
	abandoned bool

	download *peer.Download // parts that came from peers, or nil
	writer   *disk.Writer   // where the file is being written, or nil
	pinned   *disk.Pinned   // the whole file, until the waiters have pins
}

func (f *Fetcher) job(key task.FileKey) *job {
	j := f.jobs[key]
	if j == nil {
		j = &job{}
		j.ctx, j.cancel = context.WithCancel(f.ctx)
		f.jobs[key] = j
	}
	return j
}

// discard ends a job that no transfer has.
func (j *job) discard() {
	j.cancel()
	j.forgetParts()
	if j.pinned != nil {
		j.pinned.Release()
		j.pinned = nil
	}
}

// forgetParts throws away what was written.
func (j *job) forgetParts() {
	if j.writer != nil {
		j.writer.Abort()
	}
	j.writer, j.download = nil, nil
}

// transfer runs one transfer of a job and hands its end to the plan. The file
// stays pinned until all waiters have their pins.
func (f *Fetcher) transfer(key task.FileKey, id uint64, run func(*job) cache.TransferDone) {
	j := f.job(key)
	j.running = true
	f.spawn(func() func() {
		stop := f.keepShowing(id)
		release := f.config.Cache.Alone(j.ctx, key)
		stop()
		done := run(j)
		release()
		done.Transfer = id
		if j.ctx.Err() == nil {
			f.report(key, done)
		}
		return func() {
			j.running = false
			if done.Arrived || j.abandoned {
				delete(f.jobs, key)
				defer j.discard()
			}
			if j.abandoned && !done.Arrived {
				j.forgetParts() // before the plan begins anew
			}
			f.step(done)
		}
	})
}

func (f *Fetcher) abandon(key task.FileKey) {
	j := f.jobs[key]
	if j == nil {
		return
	}
	j.cancel()
	if j.running {
		j.abandoned = true
		return
	}
	delete(f.jobs, key)
	j.discard()
}

// report logs what went wrong with sources.
func (f *Fetcher) report(key task.FileKey, done cache.TransferDone) {
	for _, fault := range done.Faults {
		switch {
		case fault.Fault == cache.Corrupt:
			f.log.Warn("a source sent wrong bytes: another one is used", "file", key, "peer", fault.Peer, "error", fault.Err)
		case fault.Peer == "":
			f.log.Warn("a storage element did not give a file", "file", key, "error", fault.Err)
		default:
			f.log.Debug("a peer did not give a file", "file", key, "peer", fault.Peer, "fault", fault.Fault, "error", fault.Err)
		}
	}
}

// publish makes a written file visible and announces it.
func (f *Fetcher) publish(j *job, file task.File, manifest *disk.Manifest) error {
	writer := j.writer
	j.writer, j.download = nil, nil
	pinned, err := writer.PublishPinned(disk.Expect{Digest: file.Digest, Adler32: file.Adler32, Manifest: manifest, Exec: file.Exec})
	if err != nil {
		return err
	}
	j.pinned = pinned
	if f.config.Cached != nil {
		f.config.Cached(pinned.Key)
		if key := file.Key(); key != pinned.Key {
			f.config.Cached(key)
		}
	}
	return nil
}

// already tells whether the file has come into the cache by another way.
func (f *Fetcher) already(j *job, key task.FileKey) bool {
	if j.pinned != nil {
		return true
	}
	pinned, err := f.config.Cache.Pin(key)
	if err != nil {
		return false
	}
	j.forgetParts()
	j.pinned = pinned
	return true
}

// fromPeers fetches from peers into the job's parts.
func (f *Fetcher) fromPeers(j *job, a cache.TransferFromPeers) cache.TransferDone {
	key := a.File.Key()
	if f.already(j, key) {
		return cache.TransferDone{Arrived: true}
	}
	if j.download == nil {
		j.forgetParts()
		j.download = &peer.Download{Key: key, Size: a.File.Size, Create: func(size task.Bytes) (into io.WriterAt, err error) {
			if j.writer, err = f.config.Cache.Create(key, size); err != nil {
				return nil, err
			}
			return j.writer, nil
		}}
	}
	download := j.download
	failed, err := f.config.Peers.Fetch(j.ctx, download, a.Holders...)
	done := cache.TransferDone{}
	for _, one := range failed {
		done.Faults = append(done.Faults, faultOf(one))
	}
	var local *peer.WriteError
	switch {
	case errors.As(err, &local):
		return f.localFailure(j, key, done, local.Err)
	case err != nil:
		return done
	}
	manifest, from, _ := download.Manifest()
	main := download.MainSource()
	err = f.publish(j, a.File, &manifest)
	var mismatch *disk.MismatchError
	switch {
	case errors.As(err, &mismatch):
		// Each chunk was as the manifest says, so the manifest is wrong.
		done.Faults = append(done.Faults, cache.SourceFault{Peer: from, Fault: cache.Corrupt, Err: err})
	case err != nil:
		return f.localFailure(j, key, done, err)
	default:
		done.Arrived, done.From = true, main
	}
	return done
}

// localFailure ends a fetch for the pilot's own reasons, unless the file has
// come by another way.
func (f *Fetcher) localFailure(j *job, key task.FileKey, done cache.TransferDone, err error) cache.TransferDone {
	j.forgetParts()
	if errors.Is(err, disk.ErrExists) && f.already(j, key) {
		done.Arrived = true
		return done
	}
	done.Local = err
	return done
}

func faultOf(failed *peer.SourceError) cache.SourceFault {
	fault := cache.SourceFault{Peer: failed.Peer, Fault: cache.Unreachable, Err: failed.Err}
	var busy *peer.BusyError
	var corrupt *peer.CorruptError
	switch {
	case errors.As(failed.Err, &busy):
		fault.Fault, fault.RetryAfter, fault.Others = cache.Busy, busy.RetryAfter, busy.Others
	case errors.As(failed.Err, &corrupt):
		fault.Fault = cache.Corrupt
	case errors.Is(failed.Err, peer.ErrNotHeld):
		fault.Fault = cache.Gone
	}
	return fault
}
