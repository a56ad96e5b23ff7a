package cache

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/task"
)

var rewrite = flag.Bool("rewrite", false, "write the golden scenarios anew")

// TestScenarios plays testdata/*.txt. A line is an event; the indented lines
// after it are the actions that it brought, by a planner of pilot "me" at
// siteA or, in grants-*.txt, by the home. "+SPAN" lets time pass, ticking at
// each deadline.
func TestScenarios(t *testing.T) {
	paths, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no scenarios: %v", err)
	}
	for _, path := range paths {
		t.Run(filepath.Base(path), func(t *testing.T) {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			s := &scenario{t: t, now: time.Unix(0, 0)}
			if strings.HasPrefix(filepath.Base(path), "grants-") {
				s.grants = NewGrants(GrantsConfig{})
			} else {
				s.planner = NewPlanner(PlannerConfig{Self: "me", Site: "siteA", PlannerLimits: PlannerLimits{MaxPerSE: 2}}, rand.New(rand.NewPCG(1, 2)))
			}
			for _, line := range strings.Split(strings.TrimRight(string(text), "\n"), "\n") {
				if strings.HasPrefix(line, "  ") {
					continue // made anew
				}
				s.print(line)
				if line != "" && line[0] != '#' {
					s.play(line)
				}
			}
			got := s.out.String()
			if *rewrite {
				if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
					t.Fatal(err)
				}
			} else if got != string(text) {
				t.Errorf("%s: run with -rewrite and look at the difference; now:\n%s", path, got)
			}
		})
	}
}

type scenario struct {
	t       *testing.T
	out     strings.Builder
	now     time.Time
	planner *Planner
	grants  *Grants
	words   []string
	named   map[string]string
}

func (s *scenario) print(line string) { s.out.WriteString(line + "\n") }

func (s *scenario) play(line string) {
	s.words, s.named = nil, map[string]string{}
	for _, word := range strings.Fields(line) {
		if name, value, found := strings.Cut(word, "="); found {
			s.named[name] = value
		} else {
			s.words = append(s.words, word)
		}
	}
	if strings.HasPrefix(line, "+") {
		s.pass(s.duration(line[1:]))
		return
	}
	if s.grants != nil {
		s.stepGrants(s.grantEvent())
	} else {
		s.stepPlanner(s.planEvent())
	}
}

func (s *scenario) duration(text string) time.Duration {
	span, err := time.ParseDuration(text)
	if err != nil {
		s.t.Fatal(err)
	}
	return span
}

func (s *scenario) pass(span time.Duration) {
	end := s.now.Add(span)
	for {
		var deadline time.Time
		if s.grants != nil {
			deadline = s.grants.Deadline()
		} else {
			deadline = s.planner.Deadline()
		}
		if deadline.IsZero() || deadline.After(end) {
			s.now = end
			return
		}
		if deadline.After(s.now) {
			s.now = deadline
		}
		if s.grants != nil {
			s.stepGrants(Tick{})
		} else {
			s.stepPlanner(Tick{})
		}
	}
}

func (s *scenario) word(i int) string {
	if i >= len(s.words) {
		s.t.Fatalf("%v: word %d is missing", s.words, i)
	}
	return s.words[i]
}

func (s *scenario) number(i int) uint64 {
	n, err := strconv.ParseUint(s.word(i), 10, 64)
	if err != nil {
		s.t.Fatal(err)
	}
	return n
}

func list(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(text, ",")
}

func peersOf(text string) []task.PeerID {
	var peers []task.PeerID
	for _, name := range list(text) {
		peers = append(peers, task.PeerID(name))
	}
	return peers
}

func holdersOf(text string) []Holder {
	var holders []Holder
	for _, peer := range peersOf(text) {
		holders = append(holders, holder(peer))
	}
	return holders
}

// file: NAME size=BYTES at=SITE,SITE
func (s *scenario) file(name string) task.File {
	file := task.File{LFN: task.LFN(name), Size: 100}
	if text := s.named["size"]; text != "" {
		size, err := task.ParseBytes(text)
		if err != nil {
			s.t.Fatal(err)
		}
		file.Size = size
	}
	for _, site := range list(s.named["at"]) {
		file.Replicas = append(file.Replicas, task.Replica{Site: task.Site(site), URL: "file:///" + site + "/" + name})
	}
	return file
}

func key(name string) task.FileKey { return task.KeyOf(task.LFN(name), task.Digest{}) }

func verdict(t *testing.T, name string) Verdict {
	for v, known := range verdictNames {
		if strings.ReplaceAll(known, " ", "-") == name {
			return Verdict(v)
		}
	}
	t.Fatalf("unknown verdict %q", name)
	return 0
}

var faultWords = map[string]Fault{"unreachable": Unreachable, "busy": Busy, "gone": Gone, "corrupt": Corrupt}

func (s *scenario) planEvent() PlanEvent {
	switch s.word(0) {
	case "want": // WAITER FILE size= at= cached=yes remote=yes
		return Want{Waiter: s.number(1), File: s.file(s.word(2)), Cached: s.named["cached"] != "", Remote: s.named["remote"] != ""}
	case "cancel": // WAITER
		return Cancelled{Waiter: s.number(1)}
	case "located": // FILE=PEER,PEER ... nobody=FILE
		e := Located{Holders: map[task.FileKey][]Holder{}}
		for _, name := range list(s.named["nobody"]) {
			e.Keys = append(e.Keys, key(name))
		}
		delete(s.named, "nobody")
		for name, peers := range s.named {
			e.Keys = append(e.Keys, key(name))
			e.Holders[key(name)] = holdersOf(peers)
		}
		return e
	case "home": // ASK VERDICT holders=PEER,PEER
		return HomeAnswered{Ask: s.number(1), Verdict: verdict(s.t, s.word(2)), Holders: holdersOf(s.named["holders"])}
	case "progress": // TRANSFER
		return Progress{Transfer: s.number(1)}
	case "arrived": // TRANSFER from=PEER
		return TransferDone{Transfer: s.number(1), Arrived: true, From: task.PeerID(s.named["from"])}
	case "broke": // TRANSFER PEER=FAULT ... se=FAULT retry=SPAN others=PEER
		e := TransferDone{Transfer: s.number(1)}
		for _, word := range s.words[2:] {
			peer, name, _ := strings.Cut(word, ":")
			fault := SourceFault{Peer: task.PeerID(strings.TrimPrefix(peer, "se")), Fault: faultWords[name], Others: holdersOf(s.named["others"])}
			if fault.Fault == Busy {
				fault.RetryAfter = s.duration(s.named["retry"])
			}
			e.Faults = append(e.Faults, fault)
		}
		return e
	case "full": // TRANSFER
		return TransferDone{Transfer: s.number(1), Local: &NoSpaceError{Need: 2, Capacity: 1}}
	}
	s.t.Fatalf("unknown event %q", s.words)
	return nil
}

func (s *scenario) stepPlanner(event PlanEvent) {
	for _, action := range s.planner.Step(s.now, event) {
		text := ""
		switch a := action.(type) {
		case TransferFromPeers:
			var names []string
			for _, h := range a.Holders {
				names = append(names, string(h.Peer))
			}
			text = fmt.Sprintf("transfer %d: %s from %s", a.Transfer, a.File.LFN, strings.Join(names, " "))
		case TransferFromSE:
			text = fmt.Sprintf("transfer %d: %s from %s", a.Transfer, a.File.LFN, a.Replica.URL)
		case Ready:
			text = fmt.Sprintf("ready: waiter %d has %s from %s %s", a.Waiter, a.Key, a.Source, a.From)
		case BadCopy:
			text = fmt.Sprintf("bad copy: %s: %s", a.Replica.URL, a.Reason)
		case Failed:
			text = fmt.Sprintf("failed: waiter %d, lost %t: %v", a.Waiter, a.Err.Lost, a.Err)
		case AskHome:
			text = fmt.Sprintf("ask %d: %s tried %v", a.Ask, a.Key, a.Tried)
		case Locate:
			if text = fmt.Sprintf("Locate {%v}", a.Keys); len(a.Doubted) > 0 {
				text += fmt.Sprintf(" and not from %v", a.Doubted)
			}
		default:
			text = fmt.Sprintf("%T %v", action, action)
		}
		s.print(strings.TrimRight(fmt.Sprintf("  %6s %s", s.now.Sub(time.Unix(0, 0)).Round(time.Millisecond), strings.TrimPrefix(text, "cache.")), " "))
	}
}

func (s *scenario) grantEvent() GrantEvent {
	switch s.word(0) {
	case "ask": // PEER FILE tried=PEER,PEER
		return Ask{From: task.PeerID(s.word(1)), Key: key(s.word(2)), Tried: peersOf(s.named["tried"])}
	case "renew": // PEER FILE
		return Renew{From: task.PeerID(s.word(1)), Key: key(s.word(2))}
	case "done", "failed", "withdraw": // PEER FILE
		end := map[string]Ending{"done": Arrived, "failed": ReadFailed, "withdraw": GivenBack}[s.word(0)]
		return Finish{From: holder(task.PeerID(s.word(1))), Key: key(s.word(2)), End: end}
	case "gone": // PEER
		return PeerGone{Peer: task.PeerID(s.word(1))}
	}
	s.t.Fatalf("unknown event %q", s.words)
	return nil
}

func (s *scenario) stepGrants(event GrantEvent) {
	for _, action := range s.grants.Step(s.now, event) {
		a := action.(Answer)
		text := fmt.Sprintf("  %6s to %s: %s %s", s.now.Sub(time.Unix(0, 0)), a.To, a.Key, a.Verdict)
		for _, h := range a.Holders {
			text += " " + string(h.Peer)
		}
		s.print(text)
	}
}
