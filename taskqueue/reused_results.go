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

// reuse takes over, from an earlier run of the same name, the results
// of tasks that would compute the same and whose outputs still exist: of final
// outputs on a storage element.
func (p *submission) reuse(w *Workflow, g *graph) {
	earlier := p.earlierRun(w)
	if earlier == "" {
		return
	}
	for start := 0; start < len(g.order); start += sealPage {
		page := g.order[start:min(len(g.order), start+sealPage)]
		p.reusePage(w, g, page, earlier)
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
	for _, i := range page {
		if old := results[g.nodes[i].memo]; old != nil && g.nodes[i].known {
			p.takeOver(w, p.tasks.held[g.nodes[i].id], old)
		}
	}
}

// takeOver makes a new task DONE with the outputs of an earlier one.
func (p *submission) takeOver(w *Workflow, s, old *TaskState) {
	spec, before := p.specs.held[s.ID], p.specs.held[old.ID]
	if spec == nil || before == nil || len(spec.Outputs) != len(before.Outputs) {
		return
	}
	for i := range spec.Outputs {
		f, result := p.files.held[spec.Outputs[i].LFN], p.files.held[before.Outputs[i].LFN]
		if f == nil || !exists(result) || f.Final && len(result.Replicas) == 0 {
			return
		}
	}
	for i := range spec.Outputs {
		f, result := p.files.held[spec.Outputs[i].LFN], p.files.held[before.Outputs[i].LFN]
		f.Size, f.Digest, f.Exec, f.Producer = result.Size, result.Digest, result.Exec, result.Producer
		result.Shared = true
		p.files.touch(result.LFN)
		for _, name := range result.Announced {
			p.catalogue.announce(f, name)
			if len(result.Replicas) > 0 {
				continue
			}
			site := p.site(name)
			p.look(site)
		}
		for _, replica := range result.Replicas {
			p.catalogue.replicate(f, replica)
		}
	}
	p.life.move(s, task.Succeed, "taken over from "+string(old.ID))
	s.Winner, s.Site = old.Winner, old.Site
	w.Reused++
}
