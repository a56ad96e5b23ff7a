package taskqueue

import (
	"crypto/sha256"
	"encoding/binary"
	"maps"
	"slices"

	"github.com/pilotage-grid/pilotage/task"
)

// A memo key says what a task computes: its command, its environment, its
// names in the work folder, its outputs, and for each input the file's
// identity: of an external file the digest that was given for it, else size,
// checksum and places; of a produced one the maker's memo key and the number
// of the output. Equal keys give equal results as far as payloads depend on
// nothing else. Resources, rank, priority and retries are not part of it.

// memoWriter hashes texts so that no two different lists of texts collide.
type memoWriter struct{ sum []byte }

func (m *memoWriter) text(text string) {
	m.sum = binary.AppendUvarint(m.sum, uint64(len(text)))
	m.sum = append(m.sum, text...)
}

func (m *memoWriter) number(n int64) { m.sum = binary.AppendVarint(m.sum, n) }

func (m *memoWriter) digest() task.Digest { return sha256.Sum256(m.sum) }

// memoOf is the part of the key that a description alone gives.
func memoOf(spec *task.Task) task.Digest {
	var m memoWriter
	m.text("task 1")
	m.number(int64(len(spec.Argv)))
	for _, word := range spec.Argv {
		m.text(word)
	}
	m.text(spec.Shell)
	m.number(int64(len(spec.Env)))
	for _, name := range slices.Sorted(maps.Keys(spec.Env)) {
		m.text(name)
		m.text(spec.Env[name])
	}
	m.number(int64(len(spec.Inputs)))
	for _, in := range spec.Inputs {
		m.text(in.Name)
	}
	m.number(int64(len(spec.Outputs)))
	for _, out := range spec.Outputs {
		m.text(out.LFN.Local())
		m.text(out.Name)
	}
	return m.digest()
}

// identity is the part of the key that an external file gives; ok is false
// for one that is nowhere yet.
func (f *FileRecord) identity() (id task.Digest, ok bool) {
	if f == nil || len(f.Replicas) == 0 {
		return task.Digest{}, false
	}
	var m memoWriter
	if !f.Digest.IsZero() && !f.Learned {
		m.text("content")
		m.text(string(f.Digest[:]))
	} else {
		m.text("place")
		m.number(int64(f.Size))
		m.text(f.Adler32)
		urls := make([]string, 0, len(f.Replicas))
		for _, replica := range f.Replicas {
			urls = append(urls, replica.URL)
		}
		slices.Sort(urls)
		for _, url := range urls {
			m.text(url)
		}
	}
	if f.Exec {
		m.text("executable")
	}
	return m.digest(), true
}

// memoise completes the memo keys, makers before readers.
func (p *submission) memoise(g *graph) {
	for _, i := range g.order {
		n := &g.nodes[i]
		var m memoWriter
		m.text(string(n.memo[:]))
		n.known = true
		for _, name := range n.inputs {
			if made, found := g.makers[name]; found {
				m.text("made")
				m.text(string(g.nodes[made.node].memo[:]))
				m.number(int64(made.output))
				n.known = n.known && g.nodes[made.node].known
				continue
			}
			id, ok := p.files.held[name].identity()
			m.text("external")
			m.text(string(id[:]))
			n.known = n.known && ok
		}
		n.memo = m.digest()
	}
}

// reuse takes over, from an earlier run of the same name, the results of tasks
// that would compute the same. Final outputs of these are on a storage element still;
// another output may have gone if nothing that runs needs it, so readers are decided on
// before makers.
func (p *submission) reuse(w *Workflow, g *graph) {
	earlier := p.earlierRun(w)
	if earlier == "" {
		return
	}
	for end := len(g.order); end > 0; end -= sealPage {
		p.reusePage(w, g, g.order[max(0, end-sealPage):end], earlier)
		p.endPage(g)
	}
}

// earlierRun returns the newest earlier sealed workflow of the same name of the same
// owner; if there is none, of those whom the owner may look into.
func (p *submission) earlierRun(w *Workflow) task.WorkflowID {
	for _, owner := range []string{w.Owner, ""} {
		var earlier task.WorkflowID
		err := eachNamed(p.Turn, owner, w.Name, func(run *Workflow) bool {
			if run.ID != w.ID && run.Sealed && p.By.Sees(run) {
				earlier = run.ID
			}
			return earlier == ""
		})
		check(err)
		if earlier != "" {
			return earlier
		}
	}
	return ""
}

func (p *submission) reusePage(w *Workflow, g *graph, page []int32, earlier task.WorkflowID) {
	keys := make([]task.Digest, 0, len(page))
	for _, i := range page {
		if g.nodes[i].known && g.nodes[i].outputs > 0 {
			keys = append(keys, g.nodes[i].memo)
		}
	}
	if len(keys) == 0 {
		return
	}
	done := read(p.records.Tasks().DoneByMemo(earlier, keys...))
	if len(done) == 0 {
		return
	}
	results := make(map[task.Digest]*TaskState, len(done))
	var ids []task.ID
	for i := range done {
		if results[done[i].MemoKey] == nil {
			results[done[i].MemoKey] = &done[i]
			ids = append(ids, done[i].ID)
		}
	}
	for _, i := range page {
		if results[g.nodes[i].memo] != nil {
			ids = append(ids, g.nodes[i].id)
		}
	}
	p.tasks.load(ids...)
	p.loadOutputs(ids)
	var again []*TaskState
	for _, i := range slices.Backward(page) {
		if old := results[g.nodes[i].memo]; old != nil && g.nodes[i].known {
			if g.nodes[i].taken = p.takeOver(w, g, i, old); !g.nodes[i].taken {
				again = append(again, old)
			}
		}
	}
	p.countAgain(again)
}

// countAgain adds up what is run again although it was done, because files have gone.
func (p *submission) countAgain(done []*TaskState) {
	winners := keysOf(done, func(s **TaskState) task.AttemptID { return (*s).Winner })
	p.attempts.load(winners...)
	for _, id := range winners {
		p.again++
		if a := p.attempts.held[id]; a != nil {
			p.againCPU += a.Outcome.Usage.UserCPU + a.Outcome.Usage.SystemCPU
		}
	}
}

// goneUnneeded tells whether nothing that runs needs an output of a task that was made
// and has gone.
func (g *graph) goneUnneeded(node int32, output task.LFN, result *FileRecord) bool {
	return result != nil && !result.Producer.IsZero() && !slices.ContainsFunc(g.nodes[node].readers, func(reader int32) bool {
		return !g.nodes[reader].taken && slices.Contains(g.nodes[reader].inputs, output)
	})
}

// takeOver makes a new task DONE with the outputs of an earlier one, if it can.
func (p *submission) takeOver(w *Workflow, g *graph, node int32, old *TaskState) bool {
	s := p.tasks.held[g.nodes[node].id]
	spec, before := p.specs.held[s.ID], p.specs.held[old.ID]
	if spec == nil || before == nil || len(spec.Outputs) != len(before.Outputs) {
		return false
	}
	for i := range spec.Outputs {
		f, result := p.files.held[spec.Outputs[i].LFN], p.files.held[before.Outputs[i].LFN]
		switch here := exists(result) && result.Going == Stays; {
		case f == nil, f.Final && (!here || len(result.Replicas) == 0), !here && !g.goneUnneeded(node, f.LFN, result):
			return false
		}
	}
	for i := range spec.Outputs {
		f, result := p.files.held[spec.Outputs[i].LFN], p.files.held[before.Outputs[i].LFN]
		f.Size, f.Digest, f.Exec, f.Producer = result.Size, result.Digest, result.Exec, result.Producer
		p.files.touch(f.LFN)
		if result.Going != Stays || !exists(result) {
			f.Lost = true
			continue
		}
		result.Shared = true
		p.files.touch(result.LFN)
		for _, name := range result.Announced {
			p.catalogue.announce(f, name)
			if len(result.Replicas) > 0 {
				continue
			}
			site := p.sites.need(name)
			p.sites.look(site)
		}
		for _, replica := range result.Replicas {
			p.catalogue.replicate(f, replica)
		}
	}
	p.life.move(s, task.Succeed, "taken over from "+string(old.ID))
	s.Winner, s.Site = old.Winner, old.Site
	w.Reused++
	return true
}
