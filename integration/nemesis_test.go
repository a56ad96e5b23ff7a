package integration

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	pb "github.com/pilotage-grid/pilotage/proto/pilotage/v1"
)

// nemesisVariable is how long faults are injected, such as 60m.
const nemesisVariable = "PILOTAGE_TEST_NEMESIS"

// nemesisTime is how long without that variable: briefly, and longer in
// `make test-long`.
func nemesisTime(t *testing.T) time.Duration {
	t.Helper()
	switch text := os.Getenv(nemesisVariable); {
	case text != "":
		d, err := time.ParseDuration(text)
		if err != nil {
			t.Fatalf("%s: %v", nemesisVariable, err)
		}
		return d
	case os.Getenv("PILOTAGE_TEST_LONG") != "":
		return 5 * time.Minute
	}
	return 20 * time.Second
}

// Faults of all kinds, drawn from a seed and several at once, against two sites
// with real processes, while workflows come one after the other. When the
// faults are over, everything that was acknowledged must end as it should: a
// ledger that the payloads write, what submit said, and the bytes of all files,
// which are known beforehand, are held against the queue and the storage
// elements.
//
// The test runs in namespaces of its own, for partitions and full disks. Where
// they are not allowed it says so and injects the other faults.
func TestNemesis(t *testing.T) {
	seed, length := seeds(t)[0], nemesisTime(t)
	if os.Getenv(namespaceVariable) != "" {
		runNemesis(t, seed, length, true)
		return
	}
	dir, err := os.MkdirTemp("", "pilotage-nemesis-")
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("seed %d, %s of faults; the story is told in %s. Repeat it with %s=%d %s=%s", seed, length, filepath.Join(dir, "story"), seedVariable, seed, nemesisVariable, length)
	t.Setenv(nemesisFolder, dir)
	command := exec.Command(os.Args[0], "-test.run=^TestNemesis$", "-test.v", "-test.count=1", "-test.timeout=0")
	command.Env = append(os.Environ(), namespaceVariable+"=1", binaryVariable+"="+binary, seedVariable+fmt.Sprintf("=%d", seed))
	command.SysProcAttr = inNamespace(syscall.CLONE_NEWNET | syscall.CLONE_NEWNS)
	out, err := command.CombinedOutput()
	switch {
	case command.ProcessState == nil:
		t.Logf("no partitions and no full disks: cannot make namespaces: %v; %s", err, namespaceHint)
		runNemesis(t, seed, length, false)
	case err != nil || !strings.Contains(string(out), "--- PASS: TestNemesis"):
		t.Errorf("in the namespaces: %v\n%s", err, out)
	default:
		t.Logf("in the namespaces:\n%s", out)
	}
	if !t.Failed() {
		_ = os.RemoveAll(dir)
	}
}

// nemesisFolder names the run's folder to the process in the namespaces.
const nemesisFolder = "PILOTAGE_TEST_NEMESIS_FOLDER"

// nemesis is a grid and what is done to it.
type nemesis struct {
	*grid
	seed      uint64
	began     time.Time
	tellTo    io.Writer
	telling   sync.Mutex
	network   *network      // nil without namespaces
	smallDisk bool          // the queue and the pilots have file systems of their own
	patient   bool          // the judge waits for what takes minutes
	garbage   time.Duration // how long it lets copies of losers stay
	queueRoom int           // of the file system of the queue, in MiB
	queueAt   *station
	sites     []*nemesisSite
	work      *work
	faults    []*faultKind
	findings  *findings
}

type nemesisSite struct {
	name     string
	storage  *element
	stations []*station
}

// station is a worker node, or the queue's node: where a process runs, dies and
// is started again.
type station struct {
	name  string
	site  *nemesisSite // nil: the queue's
	host  *host
	disk  string // its folder
	count int    // starts

	mu       sync.Mutex
	process  *process
	id       string    // of its pilot, "" until it is ready
	troubled bool      // by a fault that has not ended
	stopping bool      // its end was asked for, or is to be expected
	next     time.Time // when it is started again
}

func (s *station) pilot() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.id
}

func (n *nemesis) tell(format string, args ...any) {
	n.telling.Lock()
	defer n.telling.Unlock()
	_, _ = fmt.Fprintf(n.tellTo, "%8.2fs %s\n", time.Since(n.began).Seconds(), fmt.Sprintf(format, args...))
}

func runNemesis(t *testing.T, seed uint64, length time.Duration, namespaces bool) {
	noteSources(t)
	n := &nemesis{grid: &grid{t: t, dir: os.Getenv(nemesisFolder), binary: binary}, seed: seed, began: time.Now(), findings: &findings{}}
	story, err := os.Create(filepath.Join(n.dir, "story"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = story.Close() }()
	n.tellTo = story
	perSite, width, abreast := 3, 4, 2
	if length > time.Minute {
		perSite, width, abreast = 4, 8, 3
	}
	n.patient, n.garbage = length > time.Minute, garbageTime
	if length >= 30*time.Minute {
		n.garbage = untoldTime
	}
	// The queue keeps every workflow: about 3 MiB a minute.
	n.queueRoom = 96 + 6*int(length.Minutes())
	n.build(namespaces, perSite)
	n.work = &work{n: n, random: rand.New(rand.NewPCG(seed, 3)), abreast: abreast, width: width, said: make(map[string]int)}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	over := make(chan struct{})
	var submitting sync.WaitGroup
	submitting.Go(func() { n.work.run(ctx, over) })
	n.torment(length)
	close(over)
	n.tell("the faults are over")
	n.settle(ctx, &submitting)
	n.judge(ctx)
	t.Logf("seed %d, %s\n%s", seed, length, n.report())
	if t.Failed() {
		n.keep()
	}
}

// build starts the queue and the sites.
func (n *nemesis) build(namespaces bool, perSite int) {
	t := n.t
	if namespaces {
		w, err := newNetwork()
		if err != nil {
			t.Logf("no partitions: %v", err)
		} else {
			n.network = w
		}
		n.smallDisk = true
	}
	n.queueAt = &station{name: "queue", host: n.host("10.77.0.2"), disk: filepath.Join(n.dir, "queue")}
	n.mount(n.queueAt, n.queueRoom)
	n.revive(n.queueAt)
	n.queue = n.queueAt.process
	n.queue.await(t, "ready queue=")
	for i, name := range []string{"siteA", "siteB"} {
		storage, err := newElement(name, filepath.Join(n.dir, "storage", name))
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 || n.seed%2 == 0 { // now and then one of the elements is a folder
			stop, err := storage.serve(n.host(fmt.Sprintf("10.77.%d.1", i+1)))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(stop)
		}
		n.must("site", "add", name, "--se", storage.url)
		site := &nemesisSite{name: name, storage: storage}
		n.sites = append(n.sites, site)
		for number := range perSite {
			s := &station{name: fmt.Sprintf("%s-%d", name, number), site: site, host: n.host(fmt.Sprintf("10.77.%d.%d", i+1, number+2))}
			s.disk = filepath.Join(n.dir, "pilots", s.name)
			n.mount(s, 256)
			site.stations = append(site.stations, s)
			n.revive(s)
		}
	}
	t.Cleanup(n.end)
	for _, s := range n.pilotStations() {
		observe(n.grid, s.name+" being ready", func() (string, bool) {
			if !s.process.running() {
				t.Fatalf("%s ended: %v\n%s", s.name, s.process.err, tail(s.process.log.String(), 3000))
			}
			return s.pilot(), s.pilot() != ""
		})
	}
	n.tell("two sites with %d pilots each; siteA has %s, siteB %s", perSite, n.sites[0].storage.url, n.sites[1].storage.url)
}

func (n *nemesis) host(address string) *host {
	if n.network == nil {
		return &host{address: "127.0.0.1"}
	}
	h, err := n.network.add(address)
	if err != nil {
		n.t.Fatal(err)
	}
	return h
}

// mount gives a station a file system of so many MiB.
func (n *nemesis) mount(s *station, size int) {
	if err := os.MkdirAll(s.disk, 0o755); err != nil {
		n.t.Fatal(err)
	}
	if !n.smallDisk {
		return
	}
	if err := syscall.Mount("tmpfs", s.disk, "tmpfs", 0, fmt.Sprintf("size=%dm", size)); err != nil {
		n.t.Logf("no full disks: mount a small file system: %v", err)
		n.smallDisk = false
	}
}

func (n *nemesis) pilotStations() (all []*station) {
	for _, site := range n.sites {
		all = append(all, site.stations...)
	}
	return all
}

// revive starts what runs at a station.
func (n *nemesis) revive(s *station) {
	var args []string
	if s.site == nil {
		listen := n.queueAddress()
		if n.network != nil {
			listen = s.host.address + ":7420"
		}
		args = []string{"taskqueue", "--data", s.disk, "--listen", listen, "--listen-http", "127.0.0.1:0", "--advertise", s.host.address}
	} else {
		args = []string{
			"pilot", "--access", n.access("pilot-" + s.site.name), "--cache", filepath.Join(s.disk, "pilot"), "--slots", "1", "--advertise", s.host.address,
			"--grace", "2s", "--writable", n.outside(), "--memory", "1GiB", "--cache-size", "64MiB",
		}
	}
	s.count++
	p := &process{name: fmt.Sprintf("%s.%d", s.name, s.count), cmd: exec.Command(binary, args...)}
	log, err := os.Create(filepath.Join(n.dir, p.name+".log"))
	if err != nil {
		n.t.Fatal(err)
	}
	p.log, p.cmd.Stderr = &syncBuffer{path: log.Name()}, log
	p.cmd.Env = append(os.Environ(), "PILOTAGE_LOG=debug")
	if err := s.host.in(func() error { n.launch(p); return nil }); err != nil {
		n.t.Fatal(err)
	}
	_ = log.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.process, s.id, s.stopping, s.next = p, "", false, time.Time{}
	if s.site == nil {
		n.queue = p
		return
	}
	go func() {
		for {
			select {
			case line := <-p.lines:
				if rest, found := strings.CutPrefix(line, "ready pilot="); found {
					s.mu.Lock()
					s.id, _, _ = strings.Cut(rest, " ")
					s.mu.Unlock()
					n.tell("%s is ready as %s", p.name, s.pilot())
				}
			case <-p.exited:
				return
			}
		}
	}()
}

// tend starts again what has ended, in its time. What ends unasked is a
// finding, unless it is a pilot that never worked.
func (n *nemesis) tend(now time.Time) {
	for _, s := range append(n.pilotStations(), n.queueAt) {
		s.mu.Lock()
		ended, stopping, next := !s.process.running(), s.stopping, s.next
		s.mu.Unlock()
		switch {
		case !ended:
		case next.IsZero():
			n.tell("%s has ended: %v", s.process.name, s.process.err)
			if said := lastLine(s.process.log.String()); !stopping && (s.site == nil || s.pilot() != "") {
				n.findings.add("processes that ended unasked", "%s: %v: %s", s.process.name, s.process.err, said)
			} else if !stopping { // its node's check, or the queue, did not let it in
				n.tell("  %s", said)
			}
			s.mu.Lock()
			s.next = now.Add(time.Second)
			s.mu.Unlock()
		case now.After(next):
			n.tell("start %s again", s.name)
			n.revive(s)
		}
	}
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}

// end kills what still runs.
func (n *nemesis) end() {
	for _, s := range append(n.pilotStations(), n.queueAt) {
		if s.process.running() {
			s.process.kill()
		}
	}
}

// keep copies what lies on file systems that end with this process.
func (n *nemesis) keep() {
	if !n.smallDisk {
		return
	}
	for _, s := range append(n.pilotStations(), n.queueAt) {
		if err := os.CopyFS(filepath.Join(n.dir, "kept", s.name), os.DirFS(s.disk)); err != nil {
			n.t.Logf("keep %s: %v", s.disk, err)
		}
	}
}

type queueClients struct {
	tasks  pb.TaskServiceClient
	files  pb.FileServiceClient
	sites  pb.SiteServiceClient
	pilots pb.PilotServiceClient
}

// ask calls the queue, which may be away: then for a moment only.
func (n *nemesis) ask(ctx context.Context, call func(context.Context, queueClients) error) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	conn, err := n.connect()
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	return call(ctx, queueClients{pb.NewTaskServiceClient(conn), pb.NewFileServiceClient(conn), pb.NewSiteServiceClient(conn), pb.NewPilotServiceClient(conn)})
}

// masterOf is the station of a site's master, in the queue's eyes.
func (n *nemesis) masterOf(site *nemesisSite) (*station, error) {
	var master string
	err := n.ask(n.t.Context(), func(ctx context.Context, c queueClients) error {
		reply, err := c.sites.GetSite(ctx, &pb.GetSiteRequest{Name: site.name})
		master = reply.GetSite().GetMaster()
		return err
	})
	if err != nil {
		return nil, err
	}
	at := slices.IndexFunc(site.stations, func(s *station) bool { return s.pilot() == master })
	if at < 0 {
		return nil, errors.New("its master " + master + " is gone")
	}
	return site.stations[at], nil
}
