package integration

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	pb "github.com/pilotage-grid/pilotage/proto/pilotage/v1"
)

// Paper 000: a batch script names its files and its queue, and a site whose
// solver is dad serves queues in turn, one task each, although all tasks of
// the first queue are older.
func TestQueuesInTurn(t *testing.T) {
	t.Parallel()
	g := newGrid(t, "siteA")
	g.must("site", "add", "siteA", "--solver", "dad(0.5,1)", "--rank", "dad(0.8)", "--prefill", "0")
	data, script := filepath.Join(g.dir, "words.txt"), filepath.Join(g.dir, "count.pbs")
	writeFile(t, data, "three small words\n")
	writeFile(t, script, "#!/bin/sh\n#PBS -N count\n#PBS -q late\n#PBS -l nodes=1\n#PBS -g "+data+", "+data+"\nfor f in words.txt; do test {1..3} = '{1..3}' && wc -w < \"${f}\"; done\n")

	g.rejects([]string{"entry 2", "commas or blanks"}, "submit", "-g", "a,,b", "--", "true")
	g.rejects([]string{"no tag", "Gfarm Files=f1,f2"}, "submit", "--ext", "Files=a", "--", "true")
	g.rejects([]string{"queue \"two words\""}, "submit", "-q", "two words", "--", "true")
	g.rejects([]string{"list them as inputs"}, "submit", "-g", "a", "-f", g.workflow("w", "tasks: {a: {shell: 'true'}}"))
	writeFile(t, filepath.Join(g.dir, "bad.pbs"), "#!/bin/sh\n\n#PBS -g a,\n")
	g.rejects([]string{"bad.pbs:3: #PBS -g: entry 2"}, "submit", "--script", filepath.Join(g.dir, "bad.pbs"))

	first := strings.TrimSpace(g.must("submit", "--parsable", "-q", "first", "--array", "0-1", "--name", "first", "--", "true"))
	second := strings.TrimSpace(g.must("submit", "--parsable", "-q", "second", "--name", "second", "--", "true"))
	stdout, stderr, code := g.run("submit", "--upload", "--parsable", "--script", script)
	if code != 0 || !strings.Contains(stderr, `"#PBS -l nodes=1" means nothing`) {
		t.Fatalf("exit %d: %s", code, stderr)
	}
	counted := strings.TrimSpace(stdout)
	g.addPilot("siteA")
	for _, id := range []string{first, second, counted} {
		g.done(id)
	}
	if got := g.must("task", "logs", counted+"/count"); !strings.Contains(got, "3") {
		t.Errorf("the script says %q", got)
	}
	if queue := g.task(counted + "/count").GetTask().GetQueue(); queue != "late" {
		t.Errorf("the script's task is in queue %q", queue)
	}

	tasks := []*pb.TaskInfo{g.task(first + "/first[0]"), g.task(first + "/first[1]"), g.task(second + "/second"), g.task(counted + "/count")}
	slices.SortFunc(tasks, func(a, b *pb.TaskInfo) int { return began(a).Compare(began(b)) })
	var order []string
	for _, info := range tasks {
		order = append(order, info.GetTask().GetQueue())
	}
	if want := []string{"first", "late", "second", "first"}; !slices.Equal(order, want) {
		t.Errorf("queues were served in the order %v, want %v", order, want)
	}
}

// began is when a task's only attempt was started.
func began(info *pb.TaskInfo) time.Time {
	return info.GetAttempts()[0].GetOutcome().GetStarted().AsTime()
}
