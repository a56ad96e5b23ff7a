package page

import (
	"context"
	"slices"
	"strings"
	"time"
)

// sight is what one viewer may look into: persons own their work.
type sight struct {
	of    func(workflow string) bool
	after func(site string) bool // told what events of it quote
	known map[string]bool
	since time.Time
}

// A long stream remembers at most keepSight workflows, and asks again after sightTime:
// work changes hands, and people leave groups.
const (
	keepSight = 1000
	sightTime = 5 * time.Second
)

func (p *Page) sight(ctx context.Context, token string) *sight {
	return &sight{
		of:    func(workflow string) bool { return p.backend.Sees(ctx, token, workflow) },
		after: func(site string) bool { return p.backend.LooksAfter(token, site) },
		known: make(map[string]bool),
	}
}

func (s *sight) sees(workflow string) bool {
	if now := time.Now(); now.Sub(s.since) >= sightTime || len(s.known) >= keepSight {
		clear(s.known)
		s.since = now
	}
	sees, known := s.known[workflow]
	if !known {
		sees = s.of(workflow)
		s.known[workflow] = sees
	}
	return sees
}

// bars are attempts, without the names of tasks of others: slots are busy all the
// same.
func (s *sight) bars(bars []Bar) []Bar {
	for i := range bars {
		if workflow, _, _ := strings.Cut(bars[i].Task, "/"); !s.sees(workflow) {
			bars[i].Task, bars[i].Attempt = "", bars[i].hidden
		}
	}
	return bars
}

// outs leaves out those of workflows of others.
func (s *sight) outs(outs []Out) []Out {
	return slices.DeleteFunc(outs, func(o Out) bool {
		workflow, _, _ := strings.Cut(o.Attempt, "/")
		return !s.sees(workflow)
	})
}

// events leaves out those of workflows of others, and texts that quote what is others'.
func (s *sight) events(events []Event) []Event {
	return Shown(events, s.sees, s.after)
}

// Shown leaves out what a viewer is not told: events of workflows that it does not see,
// and texts that quote what is others', of sites that it does not look after.
func Shown(events []Event, sees, looksAfter func(name string) bool) []Event {
	events = slices.DeleteFunc(events, func(e Event) bool { return e.Workflow != "" && !sees(e.Workflow) })
	for i := range events {
		if events[i].Quotes && !looksAfter(events[i].Site) {
			events[i].Text = ""
		}
	}
	return events
}

// files are the first ones that the viewer may know of.
func (s *sight) files(files []FileReads) []FileReads {
	files = slices.DeleteFunc(files, func(f FileReads) bool {
		workflow, _, inside := strings.Cut(f.LFN, ":")
		return inside && strings.HasPrefix(workflow, "w-") && !s.sees(workflow)
	})
	return files[:min(hottestFiles, len(files))]
}
