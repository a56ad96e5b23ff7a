package world

import (
	"errors"
	"time"

	"github.com/pilotage-grid/pilotage/cache"
	"github.com/pilotage-grid/pilotage/cache/wire"
	"github.com/pilotage-grid/pilotage/dht"
	"github.com/pilotage-grid/pilotage/pilot/master"
	"github.com/pilotage-grid/pilotage/pilot/message"
	"github.com/pilotage-grid/pilotage/pilot/worker"
	"github.com/pilotage-grid/pilotage/sim/staging"
	"github.com/pilotage-grid/pilotage/task"
)

// How files move to pilots and storage elements: each takes a fixed time, plus what a
// fault adds. What decides about it is the product's.

func newFiles(n *node, self cache.Holder) *staging.Files {
	files, err := staging.New(staging.Config{
		Self: self, Site: n.site.name, Capacity: n.world.capacity, Random: n.chances,
		Clock: nodeClock{n}, Peers: others{n}, Storage: elements{n},
		Remote:  func() bool { return n.office.Settings().RemoteRead },
		Changed: n.cacheChanged,
		BadCopy: func(copied task.LostFile) { n.stepWorker(worker.BadCopy{Copy: copied}) },
	})
	if err != nil {
		n.judge.Fatalf("%v", err)
	}
	return files
}

func newDesk(n *node) *staging.Desk {
	return staging.NewDesk(nodeClock{n}, func(a cache.Answer) { n.send(a.To, frameHome, wire.Answer(a)) })
}

// nodeClock is the clock of a node for what its pilot waits for.
type nodeClock struct{ node *node }

func (c nodeClock) Now() time.Time { return c.node.clock() }

func (c nodeClock) After(d time.Duration, do func()) (cancel func()) {
	due := true
	c.node.after(c.node.time.until(c.node.net.Now(), c.node.clock().Add(d)), func() {
		if due {
			do()
		}
	})
	return func() { due = false }
}

// cacheChanged tells the site of files that came into the cache or left it.
func (n *node) cacheChanged(keys []task.FileKey) {
	n.stepWorker(worker.CacheChanged{Keys: keys, Cache: n.files.Report()})
	var change master.OwnCache
	var came, left []task.FileKey
	for _, key := range keys {
		_, content := key.Digest()
		if _, held := n.files.Size(key); held {
			change.Added = append(change.Added, key)
			if content {
				came = append(came, key)
			}
		} else {
			change.Removed = append(change.Removed, key)
			if content {
				left = append(left, key)
			}
		}
	}
	if len(came) > 0 && !n.isolated() {
		n.net.Do(n.member, dht.Announce{Files: came})
	}
	if len(left) > 0 {
		n.net.Do(n.member, dht.Withdraw{Files: left})
	}
	n.stepMaster(change)
}

// others are the other pilots of a node's site.
type others struct{ node *node }

// Locate asks the overlay.
func (o others) Locate(a cache.Locate) {
	if o.node.isolated() {
		o.node.after(0, func() { o.node.files.Tell(cache.Located{Keys: a.Keys}) })
		return
	}
	o.node.searches++
	number := o.node.searches
	o.node.searched[number] = a.Keys
	o.node.net.Do(o.node.member, dht.Locate{N: number, Files: a.Keys, Doubted: a.Doubted})
	o.node.after(cache.LocateTime, func() {
		if o.node.searched[number] != nil {
			delete(o.node.searched, number)
			o.node.files.Tell(cache.Located{Keys: a.Keys, Err: errors.New("the overlay does not answer")})
		}
	})
}

// located takes an answer of the overlay.
func (n *node) located(a dht.Located) {
	keys := n.searched[a.N]
	if keys == nil {
		return
	}
	delete(n.searched, a.N)
	found := make(map[task.FileKey][]cache.Holder, len(a.Holders))
	for key, holders := range a.Holders {
		for _, h := range holders {
			found[key] = append(found[key], cache.Holder(h))
		}
	}
	n.files.Tell(cache.Located{Keys: keys, Holders: found})
}

// homeOf finds the home of a file: the nearest member.
func (n *node) homeOf(key task.FileKey) (task.PeerID, bool) {
	nearest := n.member.Overlay.Nearest(key, 1)
	if len(nearest) == 0 || n.isolated() {
		return "", false
	}
	return nearest[0].Peer, true
}

// TellHome has the home of a file told something.
func (o others) TellHome(event cache.GrantEvent) {
	o.node.askHomes(o.node.homes.Step(o.node.clock(), event))
}

// homeSaid takes the answer of a home.
func (n *node) homeSaid(from task.PeerID, data []byte) {
	answer, err := wire.ReadAnswer(data)
	if err != nil {
		n.judge.Fatalf("%v", err)
	}
	n.askHomes(n.homes.Heard(n.clock(), from, answer))
}

// askHomes carries out what comes of questions to homes.
func (n *node) askHomes(actions []cache.HomesAction) {
	for _, action := range actions {
		switch a := action.(type) {
		case cache.ToHome:
			n.send(a.To, frameDesk, wire.Question(a.Event))
		case cache.HomeAnswered:
			n.files.Tell(a)
		}
	}
	n.homesWake.Set(nodeClock{n}, n.homes.Deadline(), func() { n.askHomes(n.homes.Step(n.clock(), cache.Tick{})) })
}

// homeAsked takes a question to this pilot as the home of a file, unless it knows a
// nearer one.
func (n *node) homeAsked(from task.PeerID, data []byte) {
	event, err := wire.ReadQuestion(from, data)
	if err != nil {
		n.judge.Fatalf("%v", err)
	}
	if ask, ok := event.(cache.Ask); ok {
		nearest := n.member.Overlay.Nearest(ask.Key, 1)
		if len(nearest) > 0 && nearest[0].Peer != n.peer && nearest[0].Peer != from {
			n.net.Do(n.member, dht.Redirect{To: from, File: ask.Key})
			return
		}
	}
	n.desk.Tell(event)
}

// Read takes a file from the first pilot that gives it.
func (o others) Read(t *staging.Transfer, holders []cache.Holder) {
	o.node.after(stageTime, func() {
		var done cache.TransferDone
		for _, h := range holders {
			from := o.node.world.peers[h.Peer]
			switch {
			case o.node.full:
				done.Local = errFilled
			case !o.node.gets(from):
				done.Faults = append(done.Faults, cache.SourceFault{Peer: h.Peer, Fault: cache.Unreachable})
				continue
			case !from.files.Cached.Contains(t.File.Key()):
				done.Faults = append(done.Faults, cache.SourceFault{Peer: h.Peer, Fault: cache.Gone})
				continue
			default:
				done.Arrived, done.From = true, h.Peer
			}
			break
		}
		t.End(done)
	})
}

// gets tells whether another pilot gives this one files.
func (n *node) gets(from *node) bool {
	return from.alive && !from.paused && !n.alone && !n.isolated() && n.net.Part(from.member) == n.net.Part(n.member)
}

var errFilled = errors.New("no space left on the disk")

// elements are the storage elements, as a node reaches them.
type elements struct{ node *node }

func (e elements) Read(t *staging.Transfer, replica task.Replica) {
	s := e.node.world.element(replica.URL)
	e.node.after(stageTime+s.slow, func() {
		fault := cache.SourceFault{Fault: cache.Corrupt}
		switch _, there := s.stored[replica.URL]; {
		case s.down || e.node.shut:
			fault.Fault = cache.Unreachable
		case e.node.misreads:
		case !there && !s.lies:
			fault.Fault = cache.Gone
		case !s.gives(replica.URL, t.File.Digest):
		case e.node.full:
			t.End(cache.TransferDone{Local: errFilled})
			return
		default:
			t.End(cache.TransferDone{Arrived: true})
			return
		}
		t.End(cache.TransferDone{Faults: []cache.SourceFault{fault}})
	})
}

func (e elements) Put(output message.Output, done func(url string)) {
	e.node.after(uploadTime+e.node.site.slow, func() {
		s := e.node.site
		cut := !e.node.alive && e.node.chances.IntN(2) == 0 // what is under way may arrive without its pilot
		if cut || s.down || e.node.shut {
			done("")
			return
		}
		url := storageURL(e.node.office.Settings().SE, output.Attempt, output.LFN)
		made := output.Produced
		made.URL = url
		if s.drops {
			s.spoilt[url] = true
		} else {
			s.stored[url], s.storedAt[url] = made, e.node.now()
		}
		if s.mute {
			url = ""
		}
		done(url)
	})
}

// upload tries until it works, the file is gone, or nobody wants it stored. What was
// tried before is looked for then.
func (n *node) upload(output message.Output, tries int) {
	if !n.alive || n.office.Settings().SE == "" {
		n.uploads--
		return
	}
	n.files.Upload(output, func(event message.Event) {
		switch event.(type) {
		case worker.UploadFailed:
			pause := n.chances.Int64N(int64(worker.UploadPause(tries + 1)))
			n.after(time.Duration(pause), func() { n.upload(output, tries+1) })
		case worker.NotUploaded:
			n.seek(output, tries)
		default:
			n.uploads--
		}
		n.stepWorker(event)
	})
}

// seek tells of an output that an earlier try has stored whose answer was lost.
func (n *node) seek(output message.Output, tries int) {
	if tries > 0 && n.alive && (n.site.down || n.shut) {
		n.after(worker.UploadPause(tries), func() { n.seek(output, tries+1) })
		return
	}
	url := storageURL(n.office.Settings().SE, output.Attempt, output.LFN)
	if tries == 0 || !n.alive || n.misreads || !n.site.gives(url, output.Digest) {
		n.uploads--
		return
	}
	n.after(stageTime, func() {
		n.uploads--
		n.stepWorker(worker.Uploaded{Stored: []task.Stored{{
			LFN: output.LFN, Attempt: output.Attempt, URL: url, Size: output.Size, Digest: output.Digest,
		}}})
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
	element := n.office.Settings().SE
	url := storageURL(element, file.Producer, file.LFN)
	unseen := element != "" && (n.site.down || n.shut)
	if element != "" && !unseen && !n.misreads && n.site.gives(url, file.Digest) {
		kept.URL = url
		n.stepWorker(kept)
		return
	}
	n.files.TakeOver(file, func(err *cache.FetchError) {
		if err != nil {
			kept.Failure, kept.Away = err.Error(), unseen
		}
		n.stepWorker(kept)
	})
}
