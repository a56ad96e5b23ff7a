package integration

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// faultKind is one way to do harm.
type faultKind struct {
	name          string
	begin         func(n *nemesis, d draw) (trouble, error)
	count, missed int
}

// draw is what the seed says of one fault.
type draw struct {
	*rand.Rand
	lasts time.Duration
}

// trouble is a fault that has begun.
type trouble struct {
	what     string       // and to whom
	heal     func() error // nil: it is over already
	stations []*station   // to which nothing else is done meanwhile
}

var errNobody = errors.New("nobody to do it to")

// kinds are the faults that can be had here.
func (n *nemesis) kinds() []*faultKind {
	kinds := []*faultKind{
		{name: "kill -9 of the queue", begin: func(n *nemesis, d draw) (trouble, error) { return n.kill(n.queueAt, d) }},
		{name: "SIGTERM to the queue", begin: func(n *nemesis, d draw) (trouble, error) { return n.stopStation(n.queueAt) }},
		{name: "SIGSTOP of the queue", begin: func(n *nemesis, d draw) (trouble, error) { return n.freezeStation(n.queueAt) }},
		{name: "kill -9 of a pilot", begin: func(n *nemesis, d draw) (trouble, error) { return n.kill(n.anyPilot(d), d) }},
		{name: "kill -9 of a master", begin: func(n *nemesis, d draw) (trouble, error) { return n.kill(n.anyMaster(d), d) }},
		{name: "SIGTERM to a pilot", begin: func(n *nemesis, d draw) (trouble, error) { return n.stopStation(n.anyPilot(d)) }},
		{name: "SIGTERM to a master", begin: func(n *nemesis, d draw) (trouble, error) { return n.stopStation(n.anyMaster(d)) }},
		{name: "SIGSTOP of a pilot", begin: func(n *nemesis, d draw) (trouble, error) { return n.freezeStation(n.anyPilot(d)) }},
		{name: "SIGSTOP of a master", begin: func(n *nemesis, d draw) (trouble, error) { return n.freezeStation(n.anyMaster(d)) }},
		{name: "a storage element fails", begin: (*nemesis).storageFails},
		{name: "a storage element fails", begin: (*nemesis).storageFails},
	}
	if n.patient { // what is lost is made again, which takes its time
		kinds = append(kinds, &faultKind{name: "files at rest are lost or change", begin: (*nemesis).filesSpoil})
	}
	if n.network != nil {
		kinds = append(kinds, []*faultKind{
			{name: "a site cut off from the queue", begin: func(n *nemesis, d draw) (trouble, error) {
				return n.cutOff(n.hosts(n.anySite(d).stations...), n.hosts(n.queueAt))
			}},
			{name: "a pilot cut off from the queue", begin: func(n *nemesis, d draw) (trouble, error) {
				return n.cutOff(n.hosts(n.anyStation(d)), n.hosts(n.queueAt))
			}},
			{name: "a pilot cut off from its site", begin: func(n *nemesis, d draw) (trouble, error) {
				s := n.anyStation(d)
				return n.cutOff(n.hosts(s), n.hosts(others(s)...))
			}},
			{name: "a site cut in two", begin: func(n *nemesis, d draw) (trouble, error) {
				all := n.anySite(d).stations
				return n.cutOff(n.hosts(all[:len(all)/2]...), n.hosts(all[len(all)/2:]...))
			}},
			{name: "a site cut off from its storage", begin: func(n *nemesis, d draw) (trouble, error) {
				site := n.sites[0] // the one that has a web server in any case
				return n.cutOff(n.hosts(site.stations...), []*host{site.storage.host})
			}},
			{name: "the queue cut off from a storage", begin: func(n *nemesis, d draw) (trouble, error) {
				return n.cutOff(n.hosts(n.queueAt), []*host{n.sites[0].storage.host})
			}},
			{name: "a pilot cut off from all", begin: func(n *nemesis, d draw) (trouble, error) {
				s := n.anyStation(d)
				return n.cutOff(n.hosts(s), append(n.hosts(append(others(s), n.queueAt)...), n.elementHosts()...))
			}},
		}...)
	}
	if n.smallDisk {
		kinds = append(kinds, []*faultKind{
			{name: "the queue's disk full", begin: func(n *nemesis, d draw) (trouble, error) { return n.fillDisk(n.queueAt) }},
			{name: "a pilot's disk full", begin: func(n *nemesis, d draw) (trouble, error) { return n.fillDisk(n.anyPilot(d)) }},
		}...)
	}
	return kinds
}

// torment injects faults for a time: all kinds in a drawn order, again and
// again, some of them at once.
func (n *nemesis) torment(length time.Duration) {
	random := rand.New(rand.NewPCG(n.seed, 4))
	n.faults = n.kinds()
	type current struct {
		trouble
		until time.Time
	}
	var troubles []current
	over := func(now time.Time) {
		var going []current
		for _, c := range troubles {
			if now.Before(c.until) {
				going = append(going, c)
				continue
			}
			n.tell("  over: %s", c.what)
			if err := c.heal(); err != nil {
				n.t.Errorf("end the fault: %s: %v", c.what, err)
			}
			for _, s := range c.stations {
				s.setTroubled(false)
			}
		}
		troubles = going
	}
	longest, gap := 4*time.Second, 900*time.Millisecond
	if length > time.Minute {
		longest, gap = 20*time.Second, 2500*time.Millisecond
	}
	began := time.Now()
	next, round := began.Add(gap), []*faultKind(nil)
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for now := began; now.Sub(began) < length; now = <-ticker.C {
		over(now)
		n.tend(now)
		if now.Before(next) || len(troubles) >= 3 {
			continue
		}
		if len(round) == 0 {
			round = append(round, n.faults...)
			random.Shuffle(len(round), func(i, j int) { round[i], round[j] = round[j], round[i] })
		}
		kind := round[0]
		round = round[1:]
		d := draw{rand.New(rand.NewPCG(random.Uint64(), 5)), longest/20 + time.Duration(random.Int64N(int64(longest)))}
		next = now.Add(gap/2 + time.Duration(random.Int64N(int64(gap))))
		began, err := kind.begin(n, d)
		if err != nil {
			kind.missed++
			n.tell("no %s: %v", kind.name, err)
			continue
		}
		kind.count++
		n.tell("%s: %s", kind.name, began.what)
		if began.heal != nil {
			for _, s := range began.stations {
				s.setTroubled(true)
			}
			began.what = kind.name + ": " + began.what
			troubles = append(troubles, current{began, now.Add(d.lasts)})
		}
	}
	over(time.Now().Add(time.Hour))
}

func (s *station) setTroubled(is bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.troubled = is
}

// well tells whether something runs here to which nothing is done.
func (s *station) well() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.troubled && !s.stopping && s.process.running() && (s.site == nil || s.id != "")
}

func (n *nemesis) anySite(d draw) *nemesisSite { return n.sites[d.IntN(len(n.sites))] }

func (n *nemesis) anyStation(d draw) *station {
	all := n.pilotStations()
	return all[d.IntN(len(all))]
}

// anyPilot is a pilot that is well, nil if there is none.
func (n *nemesis) anyPilot(d draw) *station {
	all := n.pilotStations()
	for _, at := range d.Perm(len(all)) {
		if all[at].well() {
			return all[at]
		}
	}
	return nil
}

func (n *nemesis) anyMaster(d draw) *station {
	s, err := n.masterOf(n.anySite(d))
	if err != nil || !s.well() {
		return nil
	}
	return s
}

func others(s *station) (all []*station) {
	for _, other := range s.site.stations {
		if other != s {
			all = append(all, other)
		}
	}
	return all
}

func (n *nemesis) hosts(stations ...*station) (all []*host) {
	for _, s := range stations {
		all = append(all, s.host)
	}
	return all
}

func (n *nemesis) elementHosts() (all []*host) {
	for _, site := range n.sites {
		if site.storage.host != nil {
			all = append(all, site.storage.host)
		}
	}
	return all
}

// kill ends a process at once; it is started again after the fault's time.
func (n *nemesis) kill(s *station, d draw) (trouble, error) {
	if s == nil || !s.well() {
		return trouble{}, errNobody
	}
	s.mu.Lock()
	s.stopping, s.next = true, time.Now().Add(d.lasts)
	s.mu.Unlock()
	s.process.kill()
	return trouble{what: fmt.Sprintf("%s %s, for %s", s.process.name, s.pilot(), d.lasts.Round(time.Millisecond))}, nil
}

func (n *nemesis) stopStation(s *station) (trouble, error) {
	if s == nil || !s.well() {
		return trouble{}, errNobody
	}
	s.mu.Lock()
	s.stopping = true
	s.mu.Unlock()
	return trouble{what: s.process.name + " " + s.pilot()}, s.process.cmd.Process.Signal(syscall.SIGTERM)
}

func (n *nemesis) freezeStation(s *station) (trouble, error) {
	if s == nil || !s.well() {
		return trouble{}, errNobody
	}
	p := s.process
	return trouble{
		what:     p.name + " " + s.pilot(),
		heal:     func() error { return p.cmd.Process.Signal(syscall.SIGCONT) },
		stations: []*station{s},
	}, p.cmd.Process.Signal(syscall.SIGSTOP)
}

// filesSpoil does harm to files at rest that somebody may still read, and that
// no user asked for.
func (n *nemesis) filesSpoil(d draw) (trouble, error) {
	e := n.anySite(d).storage
	how := []string{"lost", "cut short", "garbled"}[d.IntN(3)]
	names, err := e.spoil(d.Rand, how, n.work.mayBeSpoiled)
	if err == nil && len(names) == 0 {
		err = errNobody
	}
	return trouble{what: fmt.Sprintf("%s: %s: %s", e.site, how, strings.Join(names, " "))}, err
}

// storageFails is one of the ways in which a storage element fails for a time.
func (n *nemesis) storageFails(d draw) (trouble, error) {
	e := n.anySite(d).storage
	e.mu.Lock()
	busy := e.fault != ""
	e.mu.Unlock()
	if busy {
		return trouble{}, errors.New("it fails already")
	}
	fault := folderIsAway
	if e.host != nil {
		fault = webFaults[d.IntN(len(webFaults))]
	}
	heal, err := e.fail(fault)
	return trouble{what: fmt.Sprintf("%s %s", e.site, fault), heal: heal}, err
}

func (n *nemesis) cutOff(some, others []*host) (trouble, error) {
	heal, err := n.network.cut(some, others)
	return trouble{what: addresses(some) + " from " + addresses(others), heal: heal}, err
}

// fillDisk takes all the room that a station's file system has left.
func (n *nemesis) fillDisk(s *station) (trouble, error) {
	if s == nil || !s.well() {
		return trouble{}, errNobody
	}
	path := filepath.Join(s.disk, "ballast")
	file, err := os.Create(path)
	if err != nil {
		return trouble{}, err
	}
	defer func() { _ = file.Close() }()
	heal := func() error { return os.Remove(path) }
	var disk unix.Statfs_t
	if err := unix.Statfs(s.disk, &disk); err != nil {
		return trouble{}, err
	}
	size := int64(disk.Bavail) * int64(disk.Bsize)
	if err := unix.Fallocate(int(file.Fd()), 0, 0, size); err != nil && !errors.Is(err, unix.ENOSPC) {
		return trouble{}, errors.Join(err, heal())
	}
	return trouble{what: fmt.Sprintf("%s, %d MiB", s.name, size>>20), heal: heal, stations: []*station{s}}, nil
}
