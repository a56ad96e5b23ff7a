package taskqueue

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pilotage-grid/pilotage/task"
)

// sealPage is how many tasks are in memory in full while a workflow is sealed.
const sealPage = 5_000

// sealing is what sealing keeps of each task of a workflow that is not bare.
type sealing struct {
	id      task.ID
	inputs  []task.LFN // in the order of the description
	outputs int
	memo    task.Digest // first of the task by itself, then with its inputs
	known   bool        // what it computes is known from its inputs
	waits   int         // makers not in order yet
	readers []int32     // tasks that read its outputs
	final   bool        // it makes a final output
	taken   bool        // its results are those of an earlier run
}

// graph is a workflow as a whole: its tasks that read or make files, and who
// makes what.
type graph struct {
	held   bool // all tasks are in the working copy: they came with this turn
	nodes  []sealing
	makers map[task.LFN]maker
	order  []int32 // makers before readers
}

// maker says that a task makes a file as its output number.
type maker struct {
	node   int32
	output int
}

// seal closes the part's workflow, checks its graph, and makes READY what can
// run. A workflow of one part is not read back: each of its tasks is stored
// once, as it is in the end.
func (p *submission) seal() {
	w := p.workflow
	if w.Total() == 0 {
		end(invalid("workflow %s has no task", w.Name))
	}
	noteUnsealed(p.Meta(), w.ID, false)
	g := p.graph()
	p.checkInputs(g, p.AllowMissing)
	check(g.sort())
	p.markFinal(w, g)
	p.memoise(g)
	w.Sealed, w.Sent = true, nil
	p.workflows.touch(w.ID)
	if !p.Fresh {
		p.reuse(w, g)
	}
	p.enliven(g)
}

// graph returns what is to be checked as a whole, and releases the bare tasks.
func (p *submission) graph() *graph {
	g := &graph{makers: make(map[task.LFN]maker), held: p.workflow.Parts == 1}
	if !g.held {
		p.endPage(g)
		p.loadGraph(g)
		return g
	}
	for i := range p.Tasks {
		s := p.tasks.held[p.Tasks[i].ID]
		if !s.Bare {
			g.add(&p.Tasks[i])
		} else {
			p.life.release(s, s.Class)
		}
	}
	return g
}

// loadGraph reads a workflow's tasks, page by page, and the descriptions of
// those that are not bare.
func (p *submission) loadGraph(g *graph) {
	id := p.workflow.ID
	for after := uint64(0); ; {
		states := read(p.records.Tasks().InWorkflow(id, after, sealPage))
		if len(states) == 0 {
			return
		}
		after = states[len(states)-1].Seq
		linked := make([]task.ID, 0, len(states))
		for i := range states {
			switch s := &states[i]; {
			case !s.Bare:
				linked = append(linked, s.ID)
			case s.State == task.Blocked:
				p.tasks.put(s.ID, s)
				p.life.release(s, p.classes.classOf(s))
			}
		}
		specs := read(p.records.Tasks().Describe(linked...))
		for i := range specs {
			g.add(&specs[i])
		}
		p.endPage(g)
	}
}

// endPage carries over what was done to a page of tasks. Those that came from
// the store go back there, so that a large workflow is not in memory at once.
func (p *submission) endPage(g *graph) {
	if g.held {
		p.settle()
		return
	}
	p.turnPage()
}

func (g *graph) add(spec *task.Task) {
	n := sealing{id: spec.ID, outputs: len(spec.Outputs), memo: memoOf(spec)}
	for _, in := range spec.Inputs {
		n.inputs = append(n.inputs, in.LFN)
	}
	for k, out := range spec.Outputs {
		g.makers[out.LFN] = maker{int32(len(g.nodes)), k}
	}
	g.nodes = append(g.nodes, n)
}

// checkInputs refuses inputs that nothing makes, declares or registers.
func (p *submission) checkInputs(g *graph, allowMissing bool) {
	p.loadExternal(g)
	if allowMissing {
		return
	}
	var unknown []string
	for i := range g.nodes {
		for _, name := range g.nodes[i].inputs {
			if _, made := g.makers[name]; made || len(p.files.held[name].Replicas) > 0 {
				continue
			}
			asked := name.Local()
			if strings.HasPrefix(string(name), task.SharedPrefix) {
				asked = string(name)
			}
			unknown = append(unknown, fmt.Sprintf("%s (read by task %s)", asked, g.nodes[i].id.Name()))
			if len(unknown) == 5 {
				break
			}
		}
	}
	if len(unknown) == 0 {
		return
	}
	end(invalid("nothing makes, declares or registers the input %s: correct the name, declare the file, or submit with --allow-missing",
		strings.Join(unknown, ", ")))
}

// loadExternal loads the entries of all inputs that no task makes.
func (p *submission) loadExternal(g *graph) {
	var names []task.LFN
	seen := make(map[task.LFN]struct{})
	for i := range g.nodes {
		for _, name := range g.nodes[i].inputs {
			if _, made := g.makers[name]; made {
				continue
			}
			if _, again := seen[name]; !again {
				seen[name] = struct{}{}
				names = append(names, name)
			}
		}
	}
	p.files.load(names...)
}

// sort puts makers before readers, or names a cycle.
func (g *graph) sort() error {
	for i := range g.nodes {
		for _, name := range g.nodes[i].inputs {
			if m, made := g.makers[name]; made {
				g.nodes[i].waits++
				g.nodes[m.node].readers = append(g.nodes[m.node].readers, int32(i))
			}
		}
	}
	for i := range g.nodes {
		if g.nodes[i].waits == 0 {
			g.order = append(g.order, int32(i))
		}
	}
	for next := 0; next < len(g.order); next++ {
		for _, reader := range g.nodes[g.order[next]].readers {
			if g.nodes[reader].waits--; g.nodes[reader].waits == 0 {
				g.order = append(g.order, reader)
			}
		}
	}
	if len(g.order) == len(g.nodes) {
		return nil
	}
	return invalid("the tasks wait for each other in a cycle: %s", g.cycle())
}

// cycle walks from a task that could not be ordered towards its makers until
// it comes to one again.
func (g *graph) cycle() string {
	at := int32(slices.IndexFunc(g.nodes, func(n sealing) bool { return n.waits > 0 }))
	var path []int32
	for walked := make(map[int32]bool); !walked[at]; {
		walked[at] = true
		path = append(path, at)
		for _, name := range g.nodes[at].inputs {
			if m, made := g.makers[name]; made && g.nodes[m.node].waits > 0 {
				at = m.node
				break
			}
		}
	}
	path = append(path[slices.Index(path, at):], at)
	slices.Reverse(path)
	names := make([]string, len(path))
	for i, n := range path {
		names[i] = g.nodes[n].id.Name()
	}
	if len(names) > 12 {
		names = append(append(names[:6:6], "..."), names[len(names)-5:]...)
	}
	return strings.Join(names, " -> ")
}

// markFinal marks the workflow's final outputs, their makers, and all that make what
// those read: where a chain has begun its end may have to run.
func (p *submission) markFinal(w *Workflow, g *graph) {
	p.files.load(w.Outputs...)
	for _, name := range w.Outputs {
		m, made := g.makers[name]
		if !made {
			end(invalid("no task makes the workflow's output %s", name.Local()))
		}
		g.nodes[m.node].final = true
		p.files.held[name].Final = true
		p.files.touch(name)
	}
	w.Unstored = len(w.Outputs)
	for _, i := range slices.Backward(g.order) {
		g.nodes[i].final = g.nodes[i].final || slices.ContainsFunc(g.nodes[i].readers, func(reader int32) bool { return g.nodes[reader].final })
	}
}

// enliven gives the tasks of a sealed workflow what they compute, and makes
// READY those whose inputs exist, page by page.
func (p *submission) enliven(g *graph) {
	for nodes := range slices.Chunk(g.nodes, sealPage) {
		ids := keysOf(nodes, func(n *sealing) task.ID { return n.id })
		p.tasks.load(ids...)
		for i := range nodes {
			s := p.tasks.held[ids[i]]
			if nodes[i].known {
				s.MemoKey = nodes[i].memo
			}
			s.Final = nodes[i].final
			p.tasks.touch(s.ID)
			if s.State == task.Blocked && s.Missing == 0 {
				p.life.review(s.ID)
			}
		}
		p.endPage(g)
	}
}

// metaUnsealed names the list of workflows whose last part has not come.
const metaUnsealed = "unsealed"

func unsealed(meta MetaTable) (ids []task.WorkflowID) {
	recall(meta, metaUnsealed, &ids)
	return ids
}

// noteUnsealed adds a workflow to that list, or takes it off.
func noteUnsealed(meta MetaTable, id task.WorkflowID, open bool) {
	before := unsealed(meta)
	ids := slices.DeleteFunc(slices.Clone(before), func(other task.WorkflowID) bool { return other == id })
	if open {
		ids = append(ids, id)
	}
	if len(ids) != len(before) {
		rememberList(meta, metaUnsealed, ids)
	}
}
