package integration

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	pb "github.com/pilotage-grid/pilotage/proto/pilotage/v1"
)

// factoryStatus is what `factory status` tells.
type factoryStatus struct {
	Jobs []struct {
		Name, ID, State, Pilot string
	}
	Tasks int `json:"tasks_waiting"`
	Unmet []struct {
		Tasks int
		Why   string
	}
}

func (g *grid) factoryStatus(folder string) (s factoryStatus) {
	g.t.Helper()
	out, _, code := g.run("--output", "json", "factory", "status", "--folder", folder)
	if code == 0 {
		if err := json.Unmarshal([]byte(out), &s); err != nil {
			g.t.Fatalf("%v: %s", err, out)
		}
	}
	return s
}

// A burst of tasks brings pilots up from none and down to none, without a hand and
// with a factory that is killed in between; a leaked access of a job opens nothing.
func TestAFactoryBringsPilotsUpAndDown(t *testing.T) {
	t.Parallel()
	g := newGrid(t, "siteA")
	folder, access := filepath.Join(g.dir, "factory"), filepath.Join(g.dir, "factory.json")
	g.must("access", "create", "--role", "factory", "--site", "siteA", "--to", access)
	start := func() *process {
		return g.start("factory", "--access", access, "factory", "--folder", folder, "--batch", "local", "--places", "3", "--max", "5",
			"--cores", "2", "--memory", "2GiB", "--disk", "3GiB", "--walltime", "1h", "--idle", "4s", "--every", "1s",
			"--pilot=--advertise=127.0.0.1", "--pilot=--grace=2s", "--pilot=--writable="+g.outside(), "--pilot=--cache-size=100MiB")
	}
	factory := start()
	t.Cleanup(func() { // the jobs outlive it
		factory.kill()
		if t.Failed() {
			t.Logf("log of the factory:\n%s", factory.log)
		}
		for _, job := range g.factoryStatus(folder).Jobs {
			if content, err := os.ReadFile(filepath.Join(folder, "jobs", job.Name+".job")); err == nil {
				var script string
				var pid int
				if n, _ := fmt.Sscan(string(content), &script, &pid); n == 2 {
					if process, err := os.FindProcess(pid); err == nil {
						_ = process.Kill()
					}
				}
			}
		}
	})
	ledger := filepath.Join(g.outside(), "ledger")
	id := strings.TrimSpace(g.must("submit", "--parsable", "--array", "0-39", "--", "sh", "-c", "echo x >>"+ledger+"; sleep 0.5"))
	observe(g, "pilots of the factory", func() (bool, bool) {
		s := g.factoryStatus(folder)
		up := 0
		for _, job := range s.Jobs {
			if job.Pilot != "" {
				up++
			}
		}
		return true, up >= 2
	})
	factory.kill()
	factory = start()
	g.done(id)
	if content, err := os.ReadFile(ledger); err != nil || strings.Count(string(content), "x") != 40 {
		t.Errorf("%d executions of 40 tasks, %v", strings.Count(string(content), "x"), err)
	}
	_, _, _, service := g.client()
	var pilots []*pb.Pilot
	observe(g, "no pilot any more", func() (bool, bool) {
		reply, err := service.ListPilots(t.Context(), &pb.ListPilotsRequest{All: true})
		if err != nil {
			t.Fatal(err)
		}
		pilots = reply.GetPilots()
		for _, p := range pilots {
			if p.GetState() != "left" {
				return false, false
			}
		}
		return true, true
	})
	if len(pilots) == 0 || len(pilots) > 8 {
		t.Errorf("%d pilots came for 40 short tasks, with 5 jobs at most at a time", len(pilots))
	}
	names := make(map[string]bool)
	for _, p := range pilots {
		if p.GetJob() == "" || p.GetBatchJob() != p.GetJob() || names[p.GetJob()] || p.GetReason() != "it had nothing to do for 4s" {
			t.Errorf("pilot %v of job %q, %q: %s", p.GetContact().GetPilot(), p.GetJob(), p.GetBatchJob(), p.GetReason())
		}
		names[p.GetJob()] = true
	}
	factory.terminate(t, 30*time.Second)
	if text := factory.log.String(); strings.Contains(text, "DATA RACE") || strings.Contains(text, "panic:") {
		t.Errorf("the factory's log:\n%s", text)
	}
	// What no job can run is said, and brings none.
	g.must("submit", "--memory", "64GiB", "--", "true")
	factory = start()
	observe(g, "why nothing is submitted", func() (bool, bool) {
		s := g.factoryStatus(folder)
		return true, len(s.Unmet) == 1 && strings.Contains(s.Unmet[0].Why, "64GiB memory")
	})
}

// One pilot checks its node through the batch system.
func TestFactoryCheck(t *testing.T) {
	t.Parallel()
	g := newGrid(t, "siteA")
	access := filepath.Join(g.dir, "factory.json")
	g.must("access", "create", "--role", "factory", "--site", "siteA", "--to", access)
	out := g.must("--access", access, "factory", "check", "--batch", "local")
	for _, wanted := range []string{"CHECK", "ok", "disk"} {
		if !strings.Contains(out, wanted) {
			t.Errorf("the report lacks %q:\n%s", wanted, out)
		}
	}
	if _, stderr, code := g.run("--access", g.access("submit"), "factory", "--batch", "local"); code != 4 || !strings.Contains(stderr, "role factory") {
		t.Errorf("exit %d with another role: %s", code, stderr)
	}
	if _, stderr, code := g.run("--access", access, "factory", "--batch", "lsf"); code != 2 || !strings.Contains(stderr, "slurm") {
		t.Errorf("exit %d with an unknown batch system: %s", code, stderr)
	}
}
