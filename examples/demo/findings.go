package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// findings are what the binary prints of a run with --output json, as far as it is
// checked. The names are those of the protos.
type findings struct {
	tasks  []ranTask
	pilots []struct {
		Contact struct{ Pilot string }
		Site    string
		Done    int
	}
	sites []*siteFindings
}

type ranTask struct {
	Attempts []struct {
		Outcome struct {
			Attempt struct{ Pilot string }
			Site    string
			Reads   []struct{ LFN, Source string }
		}
	}
}

type siteFindings struct {
	Settings     struct{ Name string }
	Tasks        int
	Master       string
	Intermediate peerReads // of files that tasks made
	External     peerReads
}

type peerReads struct {
	Reads int `json:"peer_reads"`
}

// find collects what is checked.
func (d *demo) find(ctx context.Context, id string) (*findings, error) {
	f := &findings{}
	asked := []struct {
		into any
		args []string
	}{{&f.tasks, []string{"task", "list", id, "--full"}}, {&f.pilots, []string{"pilot", "list"}}}
	for _, name := range siteNames {
		site := &siteFindings{}
		f.sites = append(f.sites, site)
		asked = append(asked, struct {
			into any
			args []string
		}{site, []string{"site", "show", name}})
	}
	for _, one := range asked {
		out, err := d.call(ctx, append(one.args, "--output", "json")...)
		if err != nil {
			return nil, err
		}
		if err := json.Unmarshal(out, one.into); err != nil {
			return nil, fmt.Errorf("what `pilotage %s` printed: %w", one.args, err)
		}
	}
	return f, nil
}

// What the demo asks for.
const (
	leastTasks = 150
	leastShare = 0.25 // of the tasks, at each site
)

// problems lists what is not as it should be.
func (f *findings) problems() (problems []string) {
	say := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	if len(f.tasks) < leastTasks {
		say("the workflow has %d tasks, fewer than %d", len(f.tasks), leastTasks)
	}
	for _, s := range f.sites {
		if float64(s.Tasks) < leastShare*float64(len(f.tasks)) {
			say("%s ran %d of %d tasks, less than %.0f %%", s.Settings.Name, s.Tasks, len(f.tasks), 100*leastShare)
		}
		if s.Intermediate.Reads+s.External.Reads == 0 {
			say("at %s nothing was read from a peer's cache", s.Settings.Name)
		}
		if s.Master == "" {
			say("%s has no master", s.Settings.Name)
		}
	}
	if want := len(f.sites) * pilotsPerSite; len(f.pilots) != want {
		say("%d pilots are registered, not %d", len(f.pilots), want)
	}
	for _, p := range f.pilots {
		if p.Done == 0 {
			say("pilot %s of %s ran no task", p.Contact.Pilot, p.Site)
		}
	}
	// Two tasks of one pilot that wait for a file share one read of it.
	type fileAtSite struct{ site, lfn string }
	readers := map[fileAtSite]string{}
	for i := range f.tasks {
		for _, attempt := range f.tasks[i].Attempts {
			o := &attempt.Outcome
			for _, read := range o.Reads {
				if read.Source != "SE" && read.Source != "REMOTE" {
					continue
				}
				file := fileAtSite{o.Site, read.LFN}
				if first := readers[file]; first != "" && first != o.Attempt.Pilot {
					say("%s and %s of %s both read %s from a storage element", first, o.Attempt.Pilot, o.Site, read.LFN)
				}
				readers[file] = o.Attempt.Pilot
			}
		}
	}
	return problems
}

// outputs are the workflow's final files.
var outputs = []string{"best.tsv", "report.tsv"}

// compare holds the outputs of two folders against each other, byte for byte,
// and returns a table of them.
func compare(got, want string) (table string, err error) {
	for _, name := range outputs {
		ours, err := os.ReadFile(filepath.Join(got, name))
		if err != nil {
			return "", err
		}
		theirs, err := os.ReadFile(filepath.Join(want, name))
		if err != nil {
			return "", err
		}
		if len(theirs) == 0 {
			return "", fmt.Errorf("%s is empty", name)
		}
		if !bytes.Equal(ours, theirs) {
			return "", fmt.Errorf("%s differs from that of the direct computation", name)
		}
		table += fmt.Sprintf("  %-12s %6d bytes, %4d lines\n", name, len(ours), bytes.Count(ours, []byte{'\n'}))
	}
	return table, nil
}

// flipByte spoils the middle byte of a file.
func flipByte(path string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if len(data) == 0 {
		return fmt.Errorf("%s is empty: nothing to spoil", path)
	}
	data[len(data)/2] ^= 1
	return os.WriteFile(path, data, 0o644)
}
