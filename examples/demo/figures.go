package main

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"slices"
	"time"
)

// What the binary prints with --output json, as far as it is used here. The
// names are those of the protos; 64-bit numbers are texts, as in all JSON that
// is made from protos.

type workflowJSON struct {
	State   string    `json:"state"`
	Created time.Time `json:"created"`
	Ended   time.Time `json:"ended"`
}

type taskJSON struct {
	Task struct {
		ID string `json:"id"`
	} `json:"task"`
	State    string        `json:"state"`
	Attempts []attemptJSON `json:"attempts"`
}

type attemptJSON struct {
	State   string `json:"state"`
	Outcome struct {
		Attempt struct {
			Pilot string `json:"pilot"`
		} `json:"attempt"`
		Site    string     `json:"site"`
		Reads   []readJSON `json:"reads"`
		Outputs []struct {
			Digest []byte `json:"digest"`
		} `json:"outputs"`
	} `json:"outcome"`
}

type readJSON struct {
	LFN    string `json:"lfn"`
	Size   int64  `json:"size_bytes"`
	Source string `json:"source"`
}

type pilotJSON struct {
	Contact struct {
		Pilot string `json:"pilot"`
	} `json:"contact"`
	Site string `json:"site"`
}

type siteJSON struct {
	Settings struct {
		Name string `json:"name"`
	} `json:"settings"`
	Transfers     uint64            `json:"se_transfers"` // from its storage element, to whichever site
	TransferBytes uint64            `json:"se_transfer_bytes"`
	Requests      uint64            `json:"queue_requests"`
	ByMethod      map[string]uint64 `json:"requests_by_method"`
	Delays        uint64            `json:"delay_count"`
	DelayP50      float64           `json:"delay_p50_seconds"`
	DelayP95      float64           `json:"delay_p95_seconds"`
	Master        string            `json:"master"`
	Term          string            `json:"term"`
}

const (
	taskDone         = "DONE"
	attemptSucceeded = "SUCCEEDED"
	sourceLocal      = "LOCAL"
	sourcePeer       = "PEER"
	sourceSE         = "SE"
	sourceRemote     = "REMOTE"
)

// figures are what a run gave, as the binary reports it.
type figures struct {
	workflow workflowJSON
	tasks    []taskJSON
	pilots   []pilotJSON
	sites    []siteJSON

	// cached are the digests of the files in the caches of a site's pilots, in
	// hexadecimal, by site.
	cached map[string]map[string]bool

	// unasked are the messages of pilots that read a storage element without the
	// consent of the file's home, because nobody answered for long.
	unasked []string
}

// reads counts inputs of attempts, and their bytes.
type reads struct {
	count int
	bytes int64
}

// fileAtSite is a file as the pilots of one site read it.
type fileAtSite struct{ site, lfn string }

// tally is what the checks look at.
type tally struct {
	attempts int
	bySite   map[string]int               // tasks done there
	byPilot  map[string]int               // tasks done by it
	bySource map[string]map[string]*reads // site, then source
	// fromSE names the pilots that read a file from a storage element, of
	// whichever site. Two tasks of one pilot that wait for it share one read.
	fromSE map[fileAtSite]map[string]bool
	other  map[string]int // attempts that did not succeed, by how they ended
}

func (f *figures) tally() tally {
	t := tally{
		bySite: map[string]int{}, byPilot: map[string]int{}, bySource: map[string]map[string]*reads{},
		fromSE: map[fileAtSite]map[string]bool{}, other: map[string]int{},
	}
	for _, s := range f.sites {
		t.bySource[s.Settings.Name] = map[string]*reads{sourceLocal: {}, sourcePeer: {}, sourceSE: {}, sourceRemote: {}}
	}
	for _, task := range f.tasks {
		for _, attempt := range task.Attempts {
			t.attempts++
			site := attempt.Outcome.Site
			if attempt.State == attemptSucceeded {
				t.bySite[site]++
				t.byPilot[attempt.Outcome.Attempt.Pilot]++
			} else {
				t.other[attempt.State]++
			}
			for _, read := range attempt.Outcome.Reads {
				t.add(site, attempt.Outcome.Attempt.Pilot, read)
			}
		}
	}
	return t
}

func (t *tally) add(site, pilot string, read readJSON) {
	sources, known := t.bySource[site]
	if !known {
		return // problems names attempts of other sites by the missing tasks
	}
	if sources[read.Source] == nil {
		sources[read.Source] = &reads{}
	}
	sources[read.Source].count++
	sources[read.Source].bytes += read.Size
	if read.Source == sourceSE || read.Source == sourceRemote {
		file := fileAtSite{site, read.LFN}
		if t.fromSE[file] == nil {
			t.fromSE[file] = map[string]bool{}
		}
		t.fromSE[file][pilot] = true
	}
}

// What the demo asks for.
const (
	leastTasks = 150
	leastShare = 0.25 // of the tasks, at each site
)

// problems lists what is not as it should be.
func (f *figures) problems() []string {
	var found []string
	say := func(format string, args ...any) { found = append(found, fmt.Sprintf(format, args...)) }
	t := f.tally()
	done := 0
	for _, task := range f.tasks {
		if task.State == taskDone {
			done++
		}
	}
	if f.workflow.State != "DONE" || done != len(f.tasks) {
		say("the workflow is %s with %d of %d tasks done", f.workflow.State, done, len(f.tasks))
	}
	if len(f.tasks) < leastTasks {
		say("the workflow has %d tasks, fewer than %d", len(f.tasks), leastTasks)
	}
	for _, s := range f.sites {
		name := s.Settings.Name
		if share := float64(t.bySite[name]) / float64(max(1, len(f.tasks))); share < leastShare {
			say("%s ran %d of %d tasks, less than %.0f %%", name, t.bySite[name], len(f.tasks), 100*leastShare)
		}
		if t.bySource[name][sourcePeer].count == 0 {
			say("at %s nothing was read from a peer's cache", name)
		}
		if s.Master == "" {
			say("%s has no master", name)
		}
	}
	if want := len(f.sites) * pilotsPerSite; len(f.pilots) != want {
		say("%d pilots are registered, not %d", len(f.pilots), want)
	}
	for _, p := range f.pilots {
		if t.byPilot[p.Contact.Pilot] == 0 {
			say("pilot %s of %s ran no task", p.Contact.Pilot, p.Site)
		}
	}
	for _, file := range sortedFiles(t.fromSE) {
		if n := len(t.fromSE[file]); n > 1 {
			say("%d pilots of %s read %s from a storage element", n, file.site, file.lfn)
		}
	}
	transfers, imported := uint64(0), f.imported()
	for _, s := range f.sites {
		transfers += s.Transfers
	}
	if transfers > uint64(imported) {
		say("the storage elements served %d files, of which %d are different ones for a site: some were read more than once", transfers, imported)
	}
	if len(found) > 0 {
		for _, message := range f.unasked {
			say("this may be why: %s", message)
		}
	}
	return found
}

// imported counts the files, once for each site, that are in the caches of a
// site without having been made there: each came from a storage element at
// least once. What was made at two sites counts, since it may have come, too.
func (f *figures) imported() int {
	makers := map[string]map[string]bool{}
	for _, task := range f.tasks {
		for _, attempt := range task.Attempts {
			for _, output := range attempt.Outcome.Outputs {
				digest := hex.EncodeToString(output.Digest)
				if makers[digest] == nil {
					makers[digest] = map[string]bool{}
				}
				makers[digest][attempt.Outcome.Site] = true
			}
		}
	}
	count := 0
	for site, digests := range f.cached {
		for digest := range digests {
			if !makers[digest][site] || len(makers[digest]) > 1 {
				count++
			}
		}
	}
	return count
}

func sortedFiles(counts map[fileAtSite]map[string]bool) []fileAtSite {
	files := make([]fileAtSite, 0, len(counts))
	for file := range counts {
		files = append(files, file)
	}
	slices.SortFunc(files, func(a, b fileAtSite) int { return cmp.Or(cmp.Compare(a.site, b.site), cmp.Compare(a.lfn, b.lfn)) })
	return files
}
