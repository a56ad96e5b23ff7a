package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
)

// print writes the summary for people.
func (f *figures) print(w io.Writer) {
	t := f.tally()
	makespan := f.workflow.Ended.Sub(f.workflow.Created).Seconds()
	fmt.Fprintf(w, "\n%d tasks, %d attempts%s, makespan %.1f s\n\n", len(f.tasks), t.attempts, othersText(t.other), makespan)
	table := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	row := func(name string, cell func(siteJSON) string) {
		cells := []string{"  " + name}
		for _, s := range f.sites {
			cells = append(cells, cell(s))
		}
		fmt.Fprintln(table, strings.Join(cells, "\t"))
	}
	row("", func(s siteJSON) string { return s.Settings.Name })
	row("tasks", func(s siteJSON) string { return fmt.Sprint(t.bySite[s.Settings.Name]) })
	row("tasks by pilot", func(s siteJSON) string { return f.byPilot(t, s.Settings.Name) })
	for _, source := range []struct{ name, source string }{
		{"reads: own cache", sourceLocal}, {"reads: peers' caches", sourcePeer},
		{"reads: storage element", sourceSE}, {"reads: other site's storage", sourceRemote},
	} {
		row(source.name, func(s siteJSON) string {
			of := t.bySource[s.Settings.Name][source.source]
			return fmt.Sprintf("%d (%s)", of.count, size(of.bytes))
		})
	}
	row("kept off the storage element", func(s siteJSON) string {
		of := t.bySource[s.Settings.Name]
		return size(of[sourceLocal].bytes + of[sourcePeer].bytes)
	})
	row("its storage element served", func(s siteJSON) string {
		return fmt.Sprintf("%d files (%s)", s.Transfers, size(int64(s.TransferBytes)))
	})
	row("inter-task delay", func(s siteJSON) string {
		if s.Delays == 0 {
			return "not measured"
		}
		return fmt.Sprintf("p50 %.0f ms, p95 %.0f ms", 1000*s.DelayP50, 1000*s.DelayP95)
	})
	row("queue requests per task", func(s siteJSON) string {
		return fmt.Sprintf("%.2f", float64(s.Requests)/float64(max(1, t.bySite[s.Settings.Name])))
	})
	row("master", func(s siteJSON) string { return s.Master })
	row("term", func(s siteJSON) string { return s.Term })
	_ = table.Flush()
}

// othersText tells of attempts that did not succeed, e.g. " (2 failed)".
func othersText(counts map[string]int) string {
	var parts []string
	for state, n := range counts {
		parts = append(parts, fmt.Sprintf("%d %s", n, strings.ToLower(state)))
	}
	if len(parts) == 0 {
		return ""
	}
	slices.Sort(parts)
	return " (" + strings.Join(parts, ", ") + ")"
}

func (f *figures) byPilot(t tally, site string) string {
	var counts []string
	for _, p := range f.pilots {
		if p.Site == site {
			counts = append(counts, fmt.Sprint(t.byPilot[p.Contact.Pilot]))
		}
	}
	return strings.Join(counts, " + ")
}

func size(bytes int64) string {
	switch {
	case bytes < 1000:
		return fmt.Sprintf("%d B", bytes)
	case bytes < 1e6:
		return fmt.Sprintf("%.1f kB", float64(bytes)/1e3)
	}
	return fmt.Sprintf("%.1f MB", float64(bytes)/1e6)
}
