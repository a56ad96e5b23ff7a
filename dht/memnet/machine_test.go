package memnet_test

import (
	"flag"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/pilotage-grid/pilotage/dht"
	"github.com/pilotage-grid/pilotage/dht/memnet"
	"github.com/pilotage-grid/pilotage/task"
)

// machine lets whatever may happen to a site happen, in any order, and looks
// whether it finds to itself again.
type machine struct {
	net      *memnet.Net
	registry *memnet.Registry
	holds    map[task.PeerID]map[task.FileKey]bool
	files    int
	// troubled: keepers of locations were lost, hung or cut off. A location is a hint:
	// who has its record from somebody else than the holder may not hear that this died
	// or has withdrawn it, till the record expires.
	troubled bool
}

// quiet is how long a site may take to find to itself: a partition is noticed
// (5 s), a hung member is missed by a roll call (5 s), fails its pings (6 s),
// and an isolated claimant waits up to 10 s between two claims.
const quiet = 60 * time.Second

func newMachine(seed uint64) *machine {
	m := &machine{net: memnet.New(seed, dht.Config{}), holds: make(map[task.PeerID]map[task.FileKey]bool)}
	m.registry = memnet.NewRegistry(m.net, 3*time.Second, time.Second)
	return m
}

func (m *machine) join() {
	node := m.net.Join()
	node.AutoReply = func([]byte) []byte { return []byte(node.Member.Pilot) }
	m.holds[node.Member.Peer] = make(map[task.FileKey]bool)
}

// live lists the members that are there; hung ones only if wanted.
func (m *machine) live(hung bool) []*memnet.Node {
	return slices.DeleteFunc(m.net.Nodes(), func(node *memnet.Node) bool { return node.Closed || node.Hung && !hung })
}

func pick(t *rapid.T, nodes []*memnet.Node) *memnet.Node {
	if len(nodes) == 0 {
		t.Skip("nobody is there")
	}
	return nodes[rapid.IntRange(0, len(nodes)-1).Draw(t, "node")]
}

func (m *machine) actions() map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"join": func(t *rapid.T) {
			if m.registry.Reachable != nil {
				t.Skip("nobody can register")
			}
			for range rapid.IntRange(1, 8).Draw(t, "newcomers") {
				if len(m.live(true)) < 60 {
					m.join()
				}
			}
		},
		"leave": func(t *rapid.T) {
			if len(m.live(false)) < 3 {
				t.Skip("too few")
			}
			node := pick(t, m.live(false))
			m.troubled = true
			m.net.Do(node, dht.Leave{})
			m.net.Run(20*time.Millisecond, nil)
			m.net.Close(node)
		},
		"kill": func(t *rapid.T) {
			if len(m.live(false)) < 3 {
				t.Skip("too few")
			}
			m.troubled = true
			m.net.Close(pick(t, m.live(true)))
		},
		"kill the master": func(t *rapid.T) {
			if master, _ := m.registry.Office(); !master.Closed && len(m.live(false)) > 2 {
				m.troubled = true
				m.net.Close(master)
			}
		},
		"break the master's connection to the queue": func(*rapid.T) { m.registry.Break() },

		"hang": func(t *rapid.T) {
			m.troubled = true
			m.net.Hang(pick(t, m.live(false)))
		},
		"resume":  func(*rapid.T) { m.resume() },
		"heal":    func(*rapid.T) { m.net.Heal() },
		"connect": func(*rapid.T) { m.registry.Reachable = nil },
		"partition": func(t *rapid.T) {
			m.troubled = true
			parts, salt := rapid.IntRange(2, 3).Draw(t, "parts"), rapid.IntRange(0, 5).Draw(t, "salt")
			m.net.Partition(func(node *memnet.Node) int {
				return (int(dht.KeyOfPeer(node.Member.Peer).Short()%1000) + salt) % parts
			})
		},
		"cut off the queue": func(t *rapid.T) {
			part := rapid.IntRange(-1, 1).Draw(t, "reachable part")
			m.registry.Reachable = func(node *memnet.Node) bool { return m.net.Part(node) == part }
		},
		"announce": func(t *rapid.T) {
			node := pick(t, m.live(false))
			for range rapid.IntRange(1, 5).Draw(t, "files") {
				m.announce(node, task.FileKey(fmt.Sprintf("f%03d", m.files)))
				m.files++
			}
		},
		"copy": func(t *rapid.T) {
			if m.files == 0 {
				t.Skip("no files")
			}
			m.announce(pick(t, m.live(false)), task.FileKey(fmt.Sprintf("f%03d", rapid.IntRange(0, m.files-1).Draw(t, "file"))))
		},
		"withdraw": func(t *rapid.T) {
			node := pick(t, m.live(false))
			for file := range m.holds[node.Member.Peer] {
				m.net.Do(node, dht.Withdraw{Files: []task.FileKey{file}})
				delete(m.holds[node.Member.Peer], file)
			}
		},
		"wait": func(t *rapid.T) {
			m.net.Run(time.Duration(rapid.IntRange(1, 8000).Draw(t, "milliseconds"))*time.Millisecond, nil)
		},
		"": func(t *rapid.T) {
			m.net.Run(time.Millisecond, nil)
			if m.net.Spins > 0 {
				t.Fatalf("%d wake-ups led to no later deadline", m.net.Spins)
			}
		},
	}
}

func (m *machine) announce(node *memnet.Node, file task.FileKey) {
	m.net.Do(node, dht.Announce{Files: []task.FileKey{file}})
	m.holds[node.Member.Peer][file] = true
}

func (m *machine) resume() {
	for _, node := range m.net.Nodes() {
		if node.Hung && !node.Closed {
			m.net.Resume(node)
		}
	}
}

// problem says what is wrong with the site, "" if nothing is.
func (m *machine) problem() string {
	live := m.live(false)
	var master *memnet.Node
	var members []task.PeerID
	for _, node := range live {
		members = append(members, node.Member.Peer)
		if who, _ := node.Overlay.Master(); who.Peer == node.Member.Peer {
			if master != nil {
				return fmt.Sprintf("two masters, %s and %s", master.Overlay, node.Overlay)
			}
			master = node
		}
	}
	slices.SortFunc(members, func(a, b task.PeerID) int { return dht.KeyOfPeer(a).Compare(dht.KeyOfPeer(b)) })
	if master == nil {
		return "no master"
	}
	_, term := master.Overlay.Master()
	if office, inForce := m.registry.Office(); office != master || term != inForce {
		return fmt.Sprintf("master %s, the queue has %s with %s", master.Overlay, office.Member.Pilot, inForce)
	}
	for _, node := range live {
		if who, t := node.Overlay.Master(); who.Peer != master.Member.Peer || t != term {
			return fmt.Sprintf("%s does not follow %s", node.Overlay, master.Overlay)
		}
	}
	var listed []task.PeerID
	for _, member := range master.Overlay.Members() {
		listed = append(listed, member.Peer)
	}
	if !slices.Equal(listed, members) {
		return fmt.Sprintf("%s knows %v of %v", master.Overlay, listed, members)
	}
	return ""
}

func (m *machine) checkFiles(t rapid.TB) {
	var files []task.FileKey
	want := make(map[task.FileKey][]task.PeerID)
	for i := range m.files {
		file := task.FileKey(fmt.Sprintf("f%03d", i))
		files = append(files, file)
		for _, node := range m.live(false) {
			if m.holds[node.Member.Peer][file] {
				want[file] = append(want[file], node.Member.Peer)
			}
		}
	}
	for i, asker := range m.live(false) {
		if i%5 != 0 {
			continue
		}
		var located *dht.Located
		m.net.OnAction = func(at *memnet.Node, action dht.Action) {
			if l, ok := action.(dht.Located); ok && at == asker {
				located = &l
			}
		}
		m.net.Do(asker, dht.Locate{N: 1, Files: files})
		if located == nil && !m.net.Run(10*time.Second, func() bool { return located != nil }) {
			t.Fatalf("%s got no answer", asker.Overlay)
		}
		for _, file := range files {
			m.compare(t, asker, file, located.Holders[file], want[file])
		}
	}
	m.net.OnAction = nil
}

// calm ends all troubles and waits until the site has found to itself.
func (m *machine) calm(t rapid.TB) {
	m.net.Heal()
	m.resume()
	m.registry.Reachable = nil
	if len(m.live(false)) == 0 {
		m.join()
	}
	calm := m.net.Now()
	if !m.net.Run(quiet, func() bool { return m.net.Now().Sub(calm) > 10*time.Second && m.problem() == "" }) {
		t.Fatalf("after %s of quiet: %s", quiet, m.problem())
	}
	m.net.Run(90*time.Second, nil) // suspicions end, and all have renewed what they announced
	if problem := m.problem(); problem != "" {
		t.Fatalf("later: %s", problem)
	}
}

// Members come and go within milliseconds, among them the keepers of locations.
func TestLocationsOutliveTheirFirstKeepers(t *testing.T) {
	m := newMachine(1)
	m.troubled = true
	pass := func() { m.net.Run(time.Millisecond, nil) }
	leave := func(node *memnet.Node) {
		m.net.Do(node, dht.Leave{})
		m.net.Run(20*time.Millisecond, nil)
		m.net.Close(node)
		pass()
	}
	announce := func(node *memnet.Node, files ...task.FileKey) {
		for _, file := range files {
			m.announce(node, file)
			m.files++
		}
		pass()
	}
	for range 6 {
		m.join()
		pass()
	}
	pass()
	announce(m.live(false)[5], "f000", "f001")
	m.net.Close(m.live(true)[2])
	pass()
	announce(m.live(false)[0], "f002")
	pass()
	pass()
	announce(m.live(false)[0], "f003")
	announce(m.live(false)[0], "f004")
	leave(m.live(false)[3])
	if master, _ := m.registry.Office(); !master.Closed {
		m.net.Close(master)
	}
	pass()
	leave(m.live(false)[0])
	m.calm(t)
	m.checkFiles(t)
}

// Both halves of a partition have a master, one by the queue's word and one
// without, and nobody of one half knows anybody of the other: the queue's
// refusal brings them together.
func TestTheQueueJoinsHalvesThatAreStrangers(t *testing.T) {
	m := newMachine(0)
	pass := func(d time.Duration) { m.net.Run(d, nil) }
	join := func(count int) {
		for range count {
			m.join()
		}
		pass(time.Millisecond)
	}
	for range 5 {
		join(1)
	}
	pass(3 * time.Millisecond)
	join(1)
	if master, _ := m.registry.Office(); !master.Closed {
		m.net.Close(master)
	}
	pass(time.Millisecond)
	m.net.Partition(func(node *memnet.Node) int {
		return (int(dht.KeyOfPeer(node.Member.Peer).Short()%1000) + 1) % 2
	})
	pass(2 * time.Millisecond)
	join(7)
	pass(6135 * time.Millisecond)
	m.registry.Reachable = func(*memnet.Node) bool { return false }
	pass(3399 * time.Millisecond)
	m.calm(t)
}

// compare checks what an asker found: at least one of the others that hold
// the file, and without trouble nobody who does not.
func (m *machine) compare(t rapid.TB, asker *memnet.Node, file task.FileKey, found []dht.Holder, want []task.PeerID) {
	others := slices.DeleteFunc(slices.Clone(want), func(peer task.PeerID) bool { return peer == asker.Member.Peer })
	right := 0
	for _, holder := range found {
		switch {
		case slices.Contains(others, holder.Peer):
			right++
		case !m.troubled:
			t.Fatalf("%s is told that %s holds %s; it is %v", asker.Overlay, holder.Peer, file, others)
		}
	}
	if right == 0 && len(others) > 0 && (len(found) == 0 || !m.troubled) {
		t.Fatalf("%s does not find %s, held by %v", asker.Overlay, file, others)
	}
}

// drawn has a test play the same plans each time, and few of them; -rapid.checks and
// -rapid.seed have more and others. About one plan in 900 still fails: see "What is not
// tested, or not promised" of docs/reliability.md.
func drawn(t *testing.T) {
	t.Helper()
	for name, value := range map[string]string{"rapid.checks": "20", "rapid.seed": "1"} {
		asked := flag.Lookup(name)
		if asked.Value.String() != asked.DefValue {
			continue
		}
		if err := flag.Set(name, value); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = flag.Set(name, asked.DefValue) }) // was valid before
	}
}

func TestASiteFindsToItselfAgain(t *testing.T) {
	drawn(t)
	rapid.Check(t, func(t *rapid.T) {
		m := newMachine(rapid.Uint64().Draw(t, "seed"))
		for range rapid.IntRange(5, 40).Draw(t, "members") {
			m.join()
			m.net.Run(time.Millisecond, nil)
		}
		t.Repeat(m.actions())
		m.calm(t)
		m.checkFiles(t)
		if m.net.Spins > 0 {
			t.Fatalf("%d wake-ups led to no later deadline", m.net.Spins)
		}
	})
}
