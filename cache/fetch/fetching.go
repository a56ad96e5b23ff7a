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

// fetching is what is under way for one file: at most one transfer or question at a
// time, which then has it for itself.
type fetching struct {
	ctx       context.Context
	cancel    context.CancelFunc
	running   bool // a transfer has it
	abandoned bool

	download *peer.Download // parts that came from peers, or nil
	writer   *disk.Writer   // where the file is being written, or nil
	pinned   *disk.Pinned   // the whole file, until the waiters have pins
}

func (f *Fetcher) fetching(key task.FileKey) *fetching {
	g := f.underWay[key]
	if g == nil {
		g = &fetching{}
		g.ctx, g.cancel = context.WithCancel(f.ctx)
		f.underWay[key] = g
	}
	return g
}

// discard ends what no transfer has.
func (g *fetching) discard() {
	g.cancel()
	g.forgetParts()
	if g.pinned != nil {
		g.pinned.Release()
		g.pinned = nil
	}
}

// forgetParts throws away what was written.
func (g *fetching) forgetParts() {
	if g.writer != nil {
		g.writer.Abort()
	}
	g.writer, g.download = nil, nil
}

// transfer runs one transfer of a file and hands its end to the plan. The file
// stays pinned until all waiters have their pins.
func (f *Fetcher) transfer(key task.FileKey, id uint64, run func(*fetching) cache.TransferDone) {
	g := f.fetching(key)
	g.running = true
	f.spawn(func() func() {
		stop := f.keepShowing(id)
		release := f.config.Cache.Alone(g.ctx, key)
		stop()
		done := run(g)
		release()
		done.Transfer = id
		if g.ctx.Err() == nil {
			f.report(key, done)
		}
		return func() {
			g.running = false
			if done.Arrived || g.abandoned {
				delete(f.underWay, key)
				defer g.discard()
			}
			if g.abandoned && !done.Arrived {
				g.forgetParts() // before the plan begins anew
			}
			f.step(done)
		}
	})
}

func (f *Fetcher) abandon(key task.FileKey) {
	g := f.underWay[key]
	if g == nil {
		return
	}
	g.cancel()
	if g.running {
		g.abandoned = true
		return
	}
	delete(f.underWay, key)
	g.discard()
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
func (f *Fetcher) publish(g *fetching, file task.File, manifest *disk.Manifest) error {
	writer := g.writer
	g.writer, g.download = nil, nil
	pinned, err := writer.PublishPinned(disk.Expect{Digest: file.Digest, Adler32: file.Adler32, Manifest: manifest, Exec: file.Exec})
	if err != nil {
		return err
	}
	g.pinned = pinned
	if f.config.Cached != nil {
		f.config.Cached(pinned.Key)
		if key := file.Key(); key != pinned.Key {
			f.config.Cached(key)
		}
	}
	return nil
}

// already tells whether the file has come into the cache by another way.
func (f *Fetcher) already(g *fetching, key task.FileKey) bool {
	if g.pinned != nil {
		return true
	}
	pinned, err := f.config.Cache.Pin(key)
	if err != nil {
		return false
	}
	g.forgetParts()
	g.pinned = pinned
	return true
}

// fromPeers fetches from peers into the file's parts.
func (f *Fetcher) fromPeers(g *fetching, a cache.TransferFromPeers) cache.TransferDone {
	key := a.File.Key()
	if f.already(g, key) {
		return cache.TransferDone{Arrived: true}
	}
	if g.download == nil {
		g.forgetParts()
		g.download = &peer.Download{Key: key, Size: a.File.Size, Create: func(size task.Bytes) (into io.WriterAt, err error) {
			if g.writer, err = f.config.Cache.Create(key, size); err != nil {
				return nil, err
			}
			return g.writer, nil
		}}
	}
	download := g.download
	failed, err := f.config.Peers.Fetch(g.ctx, download, a.Holders...)
	done := cache.TransferDone{}
	for _, one := range failed {
		done.Faults = append(done.Faults, faultOf(one))
	}
	var local *peer.WriteError
	switch {
	case errors.As(err, &local):
		return f.localFailure(g, key, done, local.Err)
	case err != nil:
		return done
	}
	manifest, from, _ := download.Manifest()
	main := download.MainSource()
	err = f.publish(g, a.File, &manifest)
	var mismatch *disk.MismatchError
	switch {
	case errors.As(err, &mismatch):
		// Each chunk was as the manifest says, so the manifest is wrong.
		done.Faults = append(done.Faults, cache.SourceFault{Peer: from, Fault: cache.Corrupt, Err: err})
	case err != nil:
		return f.localFailure(g, key, done, err)
	default:
		done.Arrived, done.From = true, main
	}
	return done
}

// localFailure ends a fetch for the pilot's own reasons, unless the file has
// come by another way.
func (f *Fetcher) localFailure(g *fetching, key task.FileKey, done cache.TransferDone, err error) cache.TransferDone {
	g.forgetParts()
	if errors.Is(err, disk.ErrExists) && f.already(g, key) {
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
