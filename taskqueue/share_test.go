package taskqueue_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/taskqueue"
)

// search is a workflow in the shape of the demo: one splits, 20 index, 120
// search every part with every chunk, 6 merge, one concludes.
func search() taskqueue.Submission {
	s := taskqueue.Submission{Name: "search", Files: []task.File{at("db", 1000, "A", "B"), at("queries", 10, "A", "B")}, Outputs: []string{"best"}}
	const parts, chunks = 20, 6
	var partNames, chunkNames, all []string
	for i := range parts {
		partNames = append(partNames, fmt.Sprintf("part.%02d", i))
	}
	for k := range chunks {
		chunkNames = append(chunkNames, fmt.Sprintf("chunk.%d", k))
	}
	s.Tasks = append(s.Tasks, job("split", []string{"db"}, partNames), job("chunks", []string{"queries"}, chunkNames))
	for i := range parts {
		s.Tasks = append(s.Tasks, job(fmt.Sprintf("index[%02d]", i), partNames[i:i+1], []string{fmt.Sprintf("idx.%02d", i)}))
	}
	for k := range chunks {
		var hits []string
		for i := range parts {
			hit := fmt.Sprintf("hit.%02d.%d", i, k)
			hits = append(hits, hit)
			s.Tasks = append(s.Tasks, job(fmt.Sprintf("search[%02d.%d]", i, k), []string{fmt.Sprintf("idx.%02d", i), chunkNames[k]}, []string{hit}))
		}
		s.Tasks = append(s.Tasks, job(fmt.Sprintf("merge[%d]", k), hits, []string{fmt.Sprintf("merged.%d", k)}))
		all = append(all, fmt.Sprintf("merged.%d", k))
	}
	s.Tasks = append(s.Tasks, job("conclude", all, []string{"best"}))
	return s
}

// paced plays a site in steps of time: payloads take a while, uploads too.
type paced struct {
	*crew
	ends    map[task.ID]taskqueue.Instant
	uploads map[task.LFN]taskqueue.Instant
	synced  taskqueue.Instant
	ran     int
	idle    time.Duration
}

func (p *paced) step(every, takes, upload time.Duration) {
	var over []task.ID
	for id, end := range p.ends {
		if end <= p.clock {
			over = append(over, id)
		}
	}
	slices.Sort(over)
	for _, id := range over {
		o := p.succeed(p.running[id])
		o.Run = takes
		for _, out := range o.Outputs {
			p.uploads[out.LFN] = p.clock.Add(upload)
		}
		p.end(id, o)
		delete(p.ends, id)
		p.ran++
	}
	stored := false
	for name, due := range p.uploads {
		if due <= p.clock {
			p.upload(name)
			delete(p.uploads, name)
			stored = true
		}
	}
	started := false
	for _, lt := range p.waiting() {
		if len(p.running) < p.slots() && p.startable(lt) {
			p.start(lt.Task.ID, p.members[0])
			p.ends[lt.Task.ID] = p.clock.Add(takes)
			started = true
		}
	}
	p.idle += every * time.Duration(p.slots()-len(p.running))
	_, woken := p.effects.Wake[string(p.site)]
	if len(over) > 0 || stored || started || woken || p.effects.WakeAll || p.clock.Sub(p.synced) >= 2*time.Second {
		p.synced = p.clock
		p.sync()
	}
}

// Two equal sites each run at least a quarter of the demo,
// whichever of them hears of the work first.
func TestTwoSitesShareAGraph(t *testing.T) {
	for _, takes := range []time.Duration{100 * time.Millisecond, time.Second, time.Minute} {
		for _, upload := range []time.Duration{50 * time.Millisecond, 2 * time.Second} {
			t.Run(fmt.Sprintf("tasks of %s, uploads of %s", takes, upload), func(t *testing.T) {
				g := newGrid(t)
				var sites []*paced
				for _, name := range []task.Site{"A", "B"} {
					p := &paced{crew: g.addSite(name), ends: make(map[task.ID]taskqueue.Instant), uploads: make(map[task.LFN]taskqueue.Instant)}
					for i := range 4 {
						p.join(task.PeerID(fmt.Sprint(name, i)), 1)
					}
					sites = append(sites, p)
				}
				w := g.mustSubmit(search())
				start := g.clock
				every := max(50*time.Millisecond, takes/60)
				for g.clock.Sub(start) < time.Hour && !g.workflow(w).Finished() {
					g.clock = g.clock.Add(every)
					for _, p := range sites {
						p.step(every, takes, upload)
					}
				}
				g.check()
				total := g.workflow(w).Total()
				t.Logf("%d tasks in %s: A %d, B %d; idle slots A %s, B %s", total, g.clock.Sub(start), sites[0].ran, sites[1].ran, sites[0].idle, sites[1].idle)
				if !g.workflow(w).Finished() {
					t.Fatalf("not finished: %v", g.workflow(w).Counts)
				}
				for _, p := range sites {
					if 4*p.ran < total {
						t.Errorf("site %s ran %d of %d tasks, less than a quarter", p.site, p.ran, total)
					}
				}
				// Perfect packing on 8 slots, the narrow steps alone apart.
				ideal := time.Duration(total/8+6) * takes
				if took := g.clock.Sub(start); took > 2*ideal+10*time.Second+6*upload {
					t.Errorf("it took %s, ideal is %s", took, ideal)
				}
			})
		}
	}
}
