package dht_test

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/dht"
	"github.com/pilotage-grid/pilotage/dht/memnet"
	"github.com/pilotage-grid/pilotage/task"
)

var rewrite = flag.Bool("rewrite", false, "write what the scenarios in testdata print into them")

// TestScenarios runs testdata/*.txt. A line that begins with "> " is a
// command; the lines up to the next empty one are what it prints. Members are
// named by their place in the order of the Kademlia ids: m0 is first in line
// for the mastership. Commands:
//
//	site N                  N members join; one of them is master
//	kill|hang|resume|leave NAME...
//	partition NAME...       these are cut off from the others
//	heal
//	queue off|on
//	run DURATION            prints what is said about masters and members
//	broadcast NAME          prints the tree and what came back
//	members                 who lists how many and follows whom
func TestScenarios(t *testing.T) {
	paths, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no scenarios: %v", err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			got := (&play{t: t}).run(string(text))
			if *rewrite {
				if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if got != string(text) {
				t.Errorf("%s went otherwise (-rewrite to accept):\n%s", path, firstDifference(string(text), got))
			}
		})
	}
}

func firstDifference(want, got string) string {
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range min(len(w), len(g)) {
		if w[i] != g[i] {
			return fmt.Sprintf("line %d\n want %s\n got  %s", i+1, w[i], g[i])
		}
	}
	return fmt.Sprintf("%d lines, got %d", len(w), len(g))
}

type play struct {
	t        *testing.T
	net      *memnet.Net
	registry *memnet.Registry
	names    map[task.PeerID]string
	nodes    map[string]*memnet.Node
	start    time.Time
	out      strings.Builder
	tree     []string
	done     *dht.Done
}

// run returns the script with what its commands print now.
func (p *play) run(script string) string {
	skipping := false
	for line := range strings.Lines(script) {
		command, isCommand := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "> ")
		switch {
		case isCommand:
			p.out.WriteString(line)
			p.command(strings.Fields(command))
			skipping = true
		case strings.TrimSpace(line) == "":
			skipping = false
			p.out.WriteString(line)
		case !skipping:
			p.out.WriteString(line) // a remark
		}
	}
	return p.out.String()
}

func (p *play) command(words []string) {
	verb, args := words[0], words[1:]
	switch verb {
	case "site":
		p.site(p.number(args[0]))
	case "kill", "hang", "resume", "leave":
		for _, name := range args {
			p.fault(verb, p.nodes[name])
		}
	case "partition":
		p.net.Partition(func(node *memnet.Node) int {
			if slices.Contains(args, p.name(node.Member.Peer)) {
				return 1
			}
			return 0
		})
	case "heal":
		p.net.Heal()
	case "queue":
		p.registry.Reachable = nil
		if args[0] == "off" {
			p.registry.Reachable = func(*memnet.Node) bool { return false }
		}
	case "run":
		limit, err := time.ParseDuration(args[0])
		if err != nil {
			p.t.Fatal(err)
		}
		p.net.Run(limit, nil)
	case "broadcast":
		p.broadcast(p.nodes[args[0]])
	case "members":
		p.members()
	default:
		p.t.Fatalf("unknown command %q", verb)
	}
}

func (p *play) number(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		p.t.Fatal(err)
	}
	return n
}

func (p *play) site(size int) {
	p.net = memnet.New(1, dht.Config{})
	p.registry = memnet.NewRegistry(p.net, 3*time.Second, time.Second)
	for range size {
		node := p.net.Join()
		node.AutoReply = func([]byte) []byte { return []byte(node.Member.Pilot) }
	}
	sorted := p.net.Nodes()
	slices.SortFunc(sorted, func(a, b *memnet.Node) int {
		return dht.KeyOfPeer(a.Member.Peer).Compare(dht.KeyOfPeer(b.Member.Peer))
	})
	p.names, p.nodes = make(map[task.PeerID]string), make(map[string]*memnet.Node)
	for i, node := range sorted {
		name := fmt.Sprintf("m%d", i)
		p.names[node.Member.Peer], p.nodes[name] = name, node
	}
	p.net.Run(2*time.Second, nil)
	p.start = p.net.Now()
	p.net.OnAction = p.note
	master, term := p.registry.Office()
	p.printf("master %s in epoch %d", p.name(master.Member.Peer), term.Epoch)
}

func (p *play) fault(verb string, node *memnet.Node) {
	switch verb {
	case "kill":
		p.net.Close(node)
	case "hang":
		p.net.Hang(node)
	case "resume":
		p.net.Resume(node)
	case "leave":
		p.net.Do(node, dht.Leave{})
		p.net.Run(10*time.Millisecond, nil)
		p.net.Close(node)
	}
}

func (p *play) name(peer task.PeerID) string { return cmp.Or(p.names[peer], string(peer)) }

func (p *play) printf(format string, arguments ...any) {
	fmt.Fprintf(&p.out, "  "+format+"\n", arguments...)
}

func (p *play) tell(format string, arguments ...any) {
	p.printf("%7s "+format, append([]any{p.net.Now().Sub(p.start).Round(10 * time.Millisecond)}, arguments...)...)
}

// note prints what a scenario is about.
func (p *play) note(node *memnet.Node, action dht.Action) {
	who := p.name(node.Member.Peer)
	switch a := action.(type) {
	case dht.Claim:
		p.tell("%s claims against %d.%d, resigned=%v", who, a.Expected.Epoch, a.Expected.Ballot, a.Resigned)
	case dht.MasterChanged:
		p.tell("%s: master is %s, term %d.%d, provisional=%v", who, p.name(a.Master.Peer), a.Term.Epoch, a.Term.Ballot, a.Provisional)
	case dht.MemberUp:
		p.tell("%s: %s is up", who, p.name(a.Member.Peer))
	case dht.MemberDown:
		p.tell("%s: %s is down, left=%v: %s", who, p.name(a.Member.Peer), a.Left, a.Reason)
	case dht.Done:
		p.done = &a
	case dht.Left:
		p.tell("%s leaves", who)
	case dht.Send:
		p.noteMessage(who, p.name(a.To), a.Message)
	}
}

func (p *play) noteMessage(from, to string, message dht.Message) {
	switch m := message.(type) {
	case dht.MasterDead:
		p.tell("%s nudges %s", from, to)
	case dht.Office:
		p.tell("%s tells %s of master %s", from, to, p.name(m.Master.Peer))
	case dht.Bye:
		p.tell("%s says goodbye to %s", from, to)
	case dht.Cast:
		if m.Kind == dht.CastPayload {
			p.tree = append(p.tree, fmt.Sprintf("%d %s -> %s", len(m.Path), from, to))
		}
	}
}

func (p *play) broadcast(node *memnet.Node) {
	p.tree, p.done = nil, nil
	begun := p.net.Now()
	p.net.Do(node, dht.Broadcast{N: 1, Payload: []byte("list"), Reply: true})
	if !p.net.Run(time.Minute, func() bool { return p.done != nil }) {
		p.printf("no end")
		return
	}
	for _, line := range p.tree {
		p.printf("%s", line)
	}
	var missed []string
	for _, peer := range p.done.Missed {
		missed = append(missed, p.name(peer))
	}
	p.printf("reached %d, replies %d, depth %d, peers %d, missed %v, took about %s", p.done.Reached, len(p.done.Data),
		p.done.Depth, p.done.Peers, missed, p.net.Now().Sub(begun).Round(10*time.Millisecond))
}

func (p *play) members() {
	for i := range len(p.nodes) {
		name := fmt.Sprintf("m%d", i)
		node := p.nodes[name]
		if node.Closed || node.Hung {
			continue
		}
		master, term := node.Overlay.Master()
		p.printf("%s lists %d, follows %s in %d.%d", name, node.Overlay.Size(), p.name(master.Peer), term.Epoch, term.Ballot)
	}
}
