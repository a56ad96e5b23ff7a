package service_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/pilotage-grid/pilotage/pilot/factory"
	"github.com/pilotage-grid/pilotage/pilot/factory/batch"
	"github.com/pilotage-grid/pilotage/pilot/factory/service"
	pb "github.com/pilotage-grid/pilotage/proto/pilotage/v1"
	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/task/taskpb"
)

// site plays the queue and a batch system of one site.
type site struct {
	mu       sync.Mutex
	demand   *pb.GetDemandResponse
	away     bool // the queue does not answer
	jobs     map[string]string
	accesses map[string]int // made, by job
	failing  error          // of a submission
	after    func()         // once a job was taken, before the factory hears of it
	cancels  int
	report   *pb.FactoryReport // the newest
}

func (s *site) Demand(_ context.Context, _ task.Site, report *pb.FactoryReport) (*pb.GetDemandResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.report = report
	if s.away {
		return nil, errors.New("no answer")
	}
	return s.demand, nil
}

func (s *site) Access(_ context.Context, _ task.Site, job string, life time.Duration) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if life > 72*time.Hour {
		return nil, errors.New("too long")
	}
	s.accesses[job]++
	return []byte("access of " + job), nil
}

func (s *site) Submit(_ context.Context, job *batch.Job) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failing != nil {
		return "", s.failing
	}
	if _, there := s.jobs[job.Name]; there {
		return "", fmt.Errorf("job %s is submitted twice", job.Name)
	}
	s.jobs[job.Name] = job.Access + "|" + job.Command
	if s.after != nil {
		s.after()
		return "", context.Canceled
	}
	return "id-" + job.Name, nil
}

func (s *site) List(context.Context) (list []factory.Listed, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name := range s.jobs {
		list = append(list, factory.Listed{ID: "id-" + name, Name: name, State: factory.Pending})
	}
	return list, nil
}

func (s *site) Cancel(_ context.Context, ids ...string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range ids {
		delete(s.jobs, strings.TrimPrefix(id, "id-"))
		s.cancels++
	}
	return nil
}

func wants(tasks int64, require string) *pb.GetDemandResponse {
	return &pb.GetDemandResponse{Classes: []*pb.DemandClass{{
		Require: require, Resources: taskpb.Resources(task.Resources{Cores: 1, Memory: task.GiB}), Tasks: tasks, Walltime: durationpb.New(time.Hour),
	}}}
}

func newSite() *site {
	return &site{demand: &pb.GetDemandResponse{}, jobs: make(map[string]string), accesses: make(map[string]int)}
}

func config(t *testing.T, s *site, folder string) (service.Config, *bytes.Buffer) {
	t.Helper()
	log := &bytes.Buffer{}
	return service.Config{
		Factory: factory.Config{Site: "siteA", Max: 20, Backlog: 20, Shapes: []factory.Shape{
			{Name: "four", Resources: task.Resources{Cores: 4, Memory: 8 * task.GiB}, Walltime: 12 * time.Hour, Features: []string{"avx2"}},
		}},
		Folder: folder, System: s, Queue: s, User: "alice", Log: slog.New(slog.NewTextHandler(log, nil)),
		Command: func(shape *factory.Shape) string { return "run " + shape.Name },
	}, log
}

// during runs a factory for a while.
func during(t *testing.T, c service.Config, d time.Duration) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), d)
	defer stop()
	if err := service.Run(ctx, c); err != nil {
		t.Fatal(err)
	}
}

func TestAFactorySubmitsByDemandAndCancels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, folder := newSite(), t.TempDir()
		c, _ := config(t, s, folder)
		s.demand = wants(10, `"avx2" in pilot.features && pilot.cores >= 4`)
		during(t, c, time.Minute)
		if len(s.jobs) != 3 {
			t.Fatalf("%d jobs of four cores for ten tasks", len(s.jobs))
		}
		for name, got := range s.jobs {
			if got != "access of "+name+"|run four" || s.accesses[name] != 1 || len(name) != 12 {
				t.Errorf("job %q: %q, %d accesses", name, got, s.accesses[name])
			}
		}
		if s.report.GetPending() != 3 || s.report.GetLastSubmission() == nil || len(s.report.GetName()) != 5 {
			t.Errorf("the queue is told %v", s.report)
		}
		s.demand = wants(10, `"quantum" in pilot.features`)
		during(t, c, 5*time.Minute)
		if len(s.jobs) != 0 || s.cancels != 3 {
			t.Errorf("%d jobs are left, %d were cancelled: no pilot of the shape meets the requirement", len(s.jobs), s.cancels)
		}
		status, err := service.Status(folder)
		if err != nil || len(status.Unmet) != 1 || status.Unmet[0].Tasks != 10 || !strings.Contains(status.Unmet[0].Why, "quantum") {
			t.Errorf("status %+v, %v", status, err)
		}
	})
}

// Why a job died, and where, is read in its log when no listing has shown it.
func TestLogsTellOfJobsThatDieAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, folder := newSite(), t.TempDir()
		c, log := config(t, s, folder)
		s.demand = wants(4, "")
		during(t, c, 20*time.Second)
		for name := range s.jobs {
			text := "pilotage job at node n7\nsh: 7: exec: pilotage: not found\n\n"
			if err := os.WriteFile(filepath.Join(folder, "jobs", name+".log"), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			delete(s.jobs, name)
		}
		during(t, c, 20*time.Second)
		if text := log.String(); !strings.Contains(text, "at node n7 failed") || !strings.Contains(text, "exec: pilotage: not found") {
			t.Errorf("the log does not say where and why:\n%s", text)
		}
	})
}

// A factory that is killed while the batch system takes a job finds it again.
func TestAKilledFactorySubmitsNothingTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, folder := newSite(), t.TempDir()
		s.demand = wants(4, "")
		c, _ := config(t, s, folder)
		ctx, kill := context.WithCancel(t.Context())
		s.after = kill
		if err := service.Run(ctx, c); err != nil {
			t.Fatal(err)
		}
		if len(s.jobs) != 1 {
			t.Fatalf("%d jobs", len(s.jobs))
		}
		s.after = nil
		during(t, c, 10*time.Minute)
		if len(s.jobs) != 1 {
			t.Errorf("%d jobs for four tasks in jobs of four cores", len(s.jobs))
		}
		status, err := service.Status(folder)
		if err != nil || len(status.Jobs) != 1 || status.Jobs[0].State != factory.Pending {
			t.Errorf("%+v, %v", status.Jobs, err)
		}
	})
}

func TestAnAbsentQueueStopsSubmissions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite()
		c, log := config(t, s, t.TempDir())
		s.away = true
		during(t, c, 10*time.Minute)
		if len(s.jobs) != 0 || !strings.Contains(log.String(), "no demand") {
			t.Errorf("%d jobs, log %s", len(s.jobs), log)
		}
		s.away, s.demand = false, wants(1, "")
		during(t, c, time.Minute)
		if len(s.jobs) != 1 {
			t.Errorf("%d jobs once the queue is back", len(s.jobs))
		}
	})
}

func TestRefusedJobsAreToldAndNoFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite()
		c, log := config(t, s, t.TempDir())
		s.demand, s.failing = wants(10, ""), fmt.Errorf("%w: invalid account", batch.ErrRefused)
		during(t, c, 2*time.Hour)
		tries := 0
		for _, n := range s.accesses {
			tries += n
		}
		if s.report.GetPending() != 0 || !strings.Contains(s.report.GetPaused(), "invalid account") || s.report.GetLastSubmission() != nil {
			t.Errorf("the queue is told %v", s.report)
		}
		if tries > 25 || !strings.Contains(log.String(), "invalid account") {
			t.Errorf("%d tries in two hours of refusals", tries)
		}
	})
}

func TestDryRunChangesNothing(t *testing.T) {
	s, folder := newSite(), t.TempDir()
	c, log := config(t, s, folder)
	s.demand, c.DryRun = wants(10, ""), true
	if err := service.Run(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if len(s.jobs) != 0 || len(s.accesses) != 0 || strings.Count(log.String(), "would submit") != 3 {
		t.Errorf("%d jobs, %d accesses, log\n%s", len(s.jobs), len(s.accesses), log)
	}
	if _, err := os.Stat(filepath.Join(folder, "factory.json")); err == nil {
		t.Error("a dry run keeps jobs that it has not submitted")
	}
}

func TestOneFactoryPerFolderAndDamage(t *testing.T) {
	s, folder := newSite(), t.TempDir()
	c, _ := config(t, s, folder)
	c.Observe = func(factory.Status) {
		other, _ := config(t, s, folder)
		if err := service.Run(t.Context(), other); !errors.Is(err, service.ErrRunning) {
			t.Errorf("a second factory: %v", err)
		}
	}
	c.DryRun = true
	if err := service.Run(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "factory.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	c.Observe = nil
	if err := service.Run(t.Context(), c); err == nil || !strings.Contains(err.Error(), "damaged") {
		t.Errorf("a damaged file: %v", err)
	}
}

// The scripts of ended jobs hold accesses: they go at once.
func TestScriptsOfEndedJobsGo(t *testing.T) {
	s, folder := newSite(), t.TempDir()
	c, _ := config(t, s, folder)
	jobs := filepath.Join(folder, "jobs")
	if err := os.MkdirAll(jobs, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"pgone0000001", "pgone0000001.json", "pgone0000001.log"} {
		if err := os.WriteFile(filepath.Join(jobs, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	c.Observe = func(factory.Status) { stop() }
	if err := service.Run(ctx, c); err != nil {
		t.Fatal(err)
	}
	left, err := os.ReadDir(jobs)
	if err != nil || len(left) != 1 || left[0].Name() != "pgone0000001.log" {
		t.Errorf("left are %v, %v", left, err)
	}
}
