package taskqueue_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

var rewrite = flag.Bool("rewrite", false, "write what the scenarios in testdata print into them")

// TestScenarios runs testdata/*.txt. A line that begins with "> " is a
// command; the lines up to the next empty one are what it prints. Commands:
//
//	site NAME [no-se] [no-remote-read]
//	pilot SITE PEER SLOTS
//	submit NAME TASK:IN,IN->OUT,OUT ... [file=NAME@SITE,SITE ...] [final=NAME,NAME]
//	start SITE TASK...          the master assigns tasks
//	done|fail|fault SITE TASK... their outcomes wait for the next sync
//	upload|lose SITE FILE...    the next sync reports it
//	refuse SITE TASK CLAUSE=N   no live pilot can run it
//	dead SITE PEER              a pilot died
//	sync SITE                   prints what the queue answers
//	leave SITE PEER [last] [resigns]
//	claim SITE PEER             against the term in office
//	cancel|retry|explain TASK   of the newest workflow
//	tick DURATION
//	show                        the tasks of the newest workflow
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
			p := &play{grid: newGrid(t)}
			got := p.run(string(text))
			if *rewrite {
				if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if got != string(text) {
				t.Errorf("%s went otherwise (-rewrite to accept):\n%s", path, diff(string(text), got))
			}
		})
	}
}

// diff shows the first lines that differ.
func diff(want, got string) string {
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range min(len(w), len(g)) {
		if w[i] != g[i] {
			return fmt.Sprintf("line %d\n want %s\n got  %s", i+1, w[i], g[i])
		}
	}
	return fmt.Sprintf("%d lines, got %d", len(w), len(g))
}

type play struct {
	*grid
	workflow task.WorkflowID
}

// run returns the script with what its commands print now.
func (p *play) run(script string) string {
	var out []string
	printing := false
	for line := range strings.SplitSeq(script, "\n") {
		command, isCommand := strings.CutPrefix(line, "> ")
		switch {
		case isCommand:
			out = append(out, line)
			if text := p.command(strings.Fields(command)); text != "" {
				out = append(out, strings.Split(strings.TrimRight(p.shorten(text), "\n"), "\n")...)
			}
			p.check()
			printing = true
		case line == "":
			printing = false
			out = append(out, line)
		case !printing:
			out = append(out, line)
		}
	}
	return strings.Join(out, "\n")
}

// shorten replaces what differs from one seed to the next.
func (p *play) shorten(text string) string {
	for _, c := range p.crews {
		for _, m := range c.members {
			text = strings.ReplaceAll(text, string(m.id), string(m.peer))
		}
	}
	if p.workflow == "" {
		return text
	}
	return strings.ReplaceAll(strings.ReplaceAll(text, string(p.workflow)+"/", ""), string(p.workflow), "W")
}

func (p *play) command(words []string) string {
	name, arguments := words[0], words[1:]
	switch name {
	case "site":
		p.addSite(task.Site(arguments[0]), func(s *taskqueue.SiteRecord) {
			if slices.Contains(arguments, "no-se") {
				s.SE = ""
			}
			s.RemoteRead = !slices.Contains(arguments, "no-remote-read")
		})
		return ""
	case "submit":
		return p.submitText(arguments)
	case "tick":
		d, err := time.ParseDuration(arguments[0])
		if err != nil {
			p.t.Fatalf("%v", err)
		}
		p.tick(d)
		return ""
	case "show":
		return p.show()
	case "cancel", "retry", "explain":
		return p.ask(name, task.NewID(p.workflow, arguments[0]))
	}
	c := p.crews[task.Site(arguments[0])]
	if c == nil {
		p.t.Fatalf("no site %s for %s", arguments[0], name)
	}
	return p.atSite(name, c, arguments[1:])
}

func (p *play) submitText(words []string) string {
	s := taskqueue.Submission{Name: words[0]}
	for _, word := range words[1:] {
		if file, found := strings.CutPrefix(word, "file="); found {
			name, sites, _ := strings.Cut(file, "@")
			f := at(name, 1000)
			for site := range strings.SplitSeq(sites, ",") {
				f.Replicas = append(f.Replicas, at(name, 0, task.Site(site)).Replicas...)
			}
			s.Files = append(s.Files, f)
			continue
		}
		if final, found := strings.CutPrefix(word, "final="); found {
			s.Outputs = strings.Split(final, ",")
			continue
		}
		name, files, _ := strings.Cut(word, ":")
		in, out, _ := strings.Cut(files, "->")
		s.Tasks = append(s.Tasks, job(name, list(in), list(out)))
	}
	out, err := p.submit(s)
	if err != nil {
		return err.Error()
	}
	p.workflow = out.Workflow
	return fmt.Sprintf("%d tasks, %d taken over", out.Tasks, out.Reused)
}

func list(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(text, ",")
}

func (p *play) atSite(name string, c *crew, words []string) string {
	member := func(peer string) *member {
		for _, m := range c.members {
			if string(m.peer) == peer {
				return m
			}
		}
		p.t.Fatalf("no pilot %s at %s", peer, c.site)
		return nil
	}
	switch name {
	case "pilot":
		slots, err := strconv.Atoi(words[1])
		if err != nil {
			p.t.Fatalf("%v", err)
		}
		m := c.join(task.PeerID(words[0]), slots)
		return fmt.Sprintf("master %s, term %s", c.master.id, c.term) + map[bool]string{true: ", itself", false: ""}[c.master == m]
	case "sync":
		return p.syncText(c)
	case "dead":
		m := member(words[0])
		c.next.Departed = append(c.next.Departed, task.Departure{Pilot: m.id, Dead: true, Reason: "no answer"})
	case "leave":
		m := member(words[0])
		p.must(func(t *taskqueue.Turn) error {
			return p.rules.Leave(t, taskqueue.Leaving{
				Site: c.site, Pilot: m.id, Reason: "end of wall time",
				Resigns: slices.Contains(words, "resigns"), Term: c.term,
			})
		})
	case "claim":
		m := member(words[0])
		r := c.tryClaim(m.id, c.term, false)
		if !r.Granted {
			return "refused: " + r.Why
		}
		c.forget()
		c.master, c.term = m, r.Term
		c.hold(r.Leases)
		return fmt.Sprintf("granted, term %s, holds %v", r.Term, c.held())
	default:
		for _, word := range words {
			p.report(name, c, word)
			if name == "refuse" {
				break
			}
		}
		if name == "refuse" {
			p.refuse(c, words)
		}
	}
	return ""
}

// report prepares what the next Sync tells of a task or a file.
func (p *play) report(name string, c *crew, word string) {
	id, lfn := task.NewID(p.workflow, word), task.Qualify(p.workflow, word)
	switch name {
	case "start":
		c.start(id, c.members[len(c.members)-1])
	case "done":
		c.end(id, c.succeed(c.running[id]))
	case "fail":
		c.end(id, c.fail(c.running[id], task.PayloadFailed))
	case "fault":
		c.end(id, c.fail(c.running[id], task.PilotFailed))
	case "upload":
		c.upload(lfn)
	case "lose":
		c.loseFile(lfn)
	case "refuse":
	default:
		p.t.Fatalf("no command %q", name)
	}
}

func (p *play) refuse(c *crew, words []string) {
	at := strings.LastIndex(words[1], "=")
	clause := words[1][:at]
	pilots, err := strconv.Atoi(words[1][at+1:])
	if err != nil {
		p.t.Fatalf("%v", err)
	}
	id := task.NewID(p.workflow, words[0])
	for lease, tasks := range c.leases {
		if lt, held := tasks[id]; held {
			delete(tasks, id)
			c.next.Returns = append(c.next.Returns, task.Returned{Task: id, Generation: lt.Generation, Lease: lease, Reason: "no pilot can run it"})
			c.next.Refused = append(c.next.Refused, task.Refusal{
				Class: lt.Task.Class(), Pilots: len(c.members), Clauses: []task.ClauseCount{{Clause: clause, Pilots: pilots}},
			})
		}
	}
}

func (p *play) syncText(c *crew) string {
	reply, err := c.trySync()
	if err != nil {
		return err.Error()
	}
	var out strings.Builder
	for _, lease := range reply.Leases {
		var names []string
		for _, lt := range lease.Tasks {
			name := lt.Task.ID.Name()
			if lt.Generation > 1 {
				name += fmt.Sprintf("(g%d)", lt.Generation)
			}
			if lt.Blocked {
				name += "(blocked)"
			}
			names = append(names, name)
		}
		fmt.Fprintf(&out, "lease %d: %s\n", lease.ID, strings.Join(names, " "))
		for _, f := range lease.Files {
			var where []string
			for _, site := range f.Announced {
				where = append(where, "cached at "+string(site))
			}
			for _, r := range f.Replicas {
				where = append(where, "stored at "+string(r.Site))
			}
			if where == nil {
				where = []string{"to be made"}
			}
			fmt.Fprintf(&out, "  reads %s: %s\n", f.LFN.Local(), strings.Join(where, ", "))
		}
	}
	for _, id := range reply.Unknown {
		fmt.Fprintf(&out, "lease %d is over\n", id)
	}
	for _, r := range reply.Revoked {
		fmt.Fprintf(&out, "revoked %s of lease %d%s\n", r.Task.Name(), r.Lease, map[bool]string{true: ", kill it"}[r.Cancel])
	}
	verdicts := map[task.AckVerdict]string{
		task.AckAccepted: "accepted", task.AckDuplicate: "duplicate", task.AckStale: "stale", task.AckUnknown: "unknown",
	}
	for _, ack := range reply.Acks {
		fmt.Fprintf(&out, "%s %s\n", ack.Attempt.Task.Name(), verdicts[ack.Verdict])
	}
	for _, f := range reply.Check {
		fmt.Fprintf(&out, "check %s\n", f.LFN.Local())
	}
	if out.Len() == 0 {
		return "nothing new"
	}
	return out.String()
}

func (p *play) ask(name string, id task.ID) string {
	if name == "explain" {
		return p.explainText(id)
	}
	n := 0
	err := p.update(func(t *taskqueue.Turn) (err error) {
		if name == "cancel" {
			n, err = p.rules.CancelTask(t, id)
		} else {
			n, err = p.rules.RetryTask(t, id)
		}
		return err
	})
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%d tasks", n)
}

func (p *play) explainText(id task.ID) string {
	var e taskqueue.Explanation
	p.view(func(t *taskqueue.Turn) (err error) {
		e, err = p.rules.Explain(t, id)
		return err
	})
	var out strings.Builder
	fmt.Fprintf(&out, "%s %s\n", e.State.State, e.State.Reason)
	for _, m := range e.Missing {
		fmt.Fprintf(&out, "  %s: %s %v\n", m.LFN.Local(), m.Why, m.Where)
	}
	for _, s := range e.Sites {
		fmt.Fprintf(&out, "  %s: %s\n", s.Site, s.Why)
	}
	for _, a := range e.Attempts {
		fmt.Fprintf(&out, "  a%d on %s: state %d %s\n", a.Outcome.Number, a.Outcome.Attempt.Pilot, a.State, a.Outcome.Reason)
	}
	return out.String()
}

func (p *play) show() string {
	var out strings.Builder
	p.view(func(t *taskqueue.Turn) error {
		states, err := t.Tasks().InWorkflow(p.workflow, 0, 1000)
		for _, s := range states {
			fmt.Fprintf(&out, "%s %s", s.ID.Name(), s.State)
			if s.State == task.Leased || s.State == task.Done {
				fmt.Fprintf(&out, " at %s", s.Site)
			}
			if s.Generation > 1 {
				fmt.Fprintf(&out, " generation %d", s.Generation)
			}
			if s.Missing > 0 {
				fmt.Fprintf(&out, " missing %d", s.Missing)
			}
			if s.Reason != "" {
				fmt.Fprintf(&out, ": %s", s.Reason)
			}
			out.WriteByte('\n')
		}
		return err
	})
	return out.String()
}
