package bench

import (
	"context"
	"fmt"
	osexec "os/exec"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pilotage-grid/pilotage/pilot/exec"
	pb "github.com/pilotage-grid/pilotage/proto/pilotage/v1"
)

// Noop says how the path of short tasks is measured.
type Noop struct {
	Setup
	Pilots, Slots, Tasks int
	// TaskTime makes each payload /bin/sleep for that long; 0 is /bin/true.
	TaskTime time.Duration
	// Sandbox is --sandbox of the pilots: what their walls cost is the difference.
	Sandbox string
	// Network is --payload-network of the pilots: what payloads reach.
	Network exec.Network
	// Container is --container of the pilots: an image that has the command.
	Container string
}

// NoopResult is what `pilotage bench noop` reports. Each task is a process in
// a work folder of its own, with captured output and an attempt record.
type NoopResult struct {
	Pilots int `json:"pilots"`
	Slots  int `json:"slots"`
	Tasks  int `json:"tasks"`
	// Payload is the command of every task.
	Payload string `json:"payload"`
	// TaskSeconds is how long each sleeps.
	TaskSeconds float64 `json:"task_seconds"`
	// TasksPerSecond counts from the first submission to the last outcome
	// that is committed with fsync.
	TasksPerSecond float64 `json:"tasks_per_second"`
	// SubmitSeconds is the part of that time in which tasks were submitted.
	SubmitSeconds float64 `json:"submit_seconds"`
	// XargsTasksPerSecond is `xargs -P -n1` with as many processes at once and
	// the same command: the better of a run directly before and one directly
	// after, because the load changes; Ratio is of ours to it.
	XargsTasksPerSecond float64 `json:"xargs_tasks_per_second"`
	Ratio               float64 `json:"ratio_to_xargs"`
	// InterTaskDelay: exit of one payload to the exec of the next on its slot,
	// where that task was at the site already; Share is how many of the slot
	// changes these are.
	InterTaskDelay Distribution `json:"inter_task_delay_seconds"`
	Share          float64      `json:"inter_task_delay_share"`
	// QueueCPU is user and system time of the queue during the measurement,
	// QueueRSS its resident memory at the end.
	QueueCPU float64 `json:"queue_cpu_seconds"`
	QueueRSS int64   `json:"queue_rss_bytes"`
	// PilotCPU is of the pilots and of what starts payloads for them, without
	// payloads; SlotRSS is the resident memory of these for each slot at the end.
	PilotCPU float64 `json:"pilots_cpu_seconds"`
	SlotRSS  int64   `json:"slot_rss_bytes"`
	Sandbox  string  `json:"sandbox"`
	Network  string  `json:"payload_network"`
	// Container is the root file system of the payloads.
	Container string `json:"container,omitempty"`
	Failed    int    `json:"failed_tasks"`
	Place
}

// noopSite is the site of a bench that needs one only.
const noopSite = "bench"

// Run measures once.
func (n Noop) Run(ctx context.Context) (NoopResult, error) {
	if n.Pilots < 1 || n.Slots < 1 || n.Tasks < 1 || n.TaskTime < 0 {
		return NoopResult{}, fmt.Errorf("%d pilots, %d slots, %d tasks, %s each: at least 1 of each is needed", n.Pilots, n.Slots, n.Tasks, n.TaskTime)
	}
	queue, err := newQueue(ctx, n.Setup)
	if err != nil {
		return NoopResult{}, err
	}
	defer queue.close()
	if err := queue.addSite(ctx, &pb.SiteSettings{Name: noopSite}); err != nil {
		return NoopResult{}, err
	}
	result := NoopResult{Pilots: n.Pilots, Slots: n.Slots, Tasks: n.Tasks, Payload: strings.Join(n.command(), " "), TaskSeconds: n.TaskTime.Seconds(), Sandbox: n.Sandbox, Network: n.Network.String(), Container: n.Container}
	if result.Place, err = queue.place(); err != nil {
		return NoopResult{}, err
	}
	n.say("xargs")
	before, err := n.xargs(ctx)
	if err != nil {
		return NoopResult{}, err
	}
	pilots, err := n.startPilots(ctx, queue)
	defer func() {
		for _, p := range pilots {
			p.stop()
		}
	}()
	if err != nil {
		return NoopResult{}, err
	}
	if err := n.measure(ctx, queue, pilots, &result); err != nil {
		return NoopResult{}, err
	}
	after, err := n.xargs(ctx)
	if err != nil {
		return NoopResult{}, err
	}
	result.XargsTasksPerSecond = float64(n.Tasks) / min(before, after).Seconds()
	result.Ratio = result.TasksPerSecond / result.XargsTasksPerSecond
	result.LoadAfter = load()
	return result, nil
}

// command is the payload of every task.
func (n Noop) command() []string {
	if n.TaskTime == 0 {
		return []string{"/bin/true"}
	}
	return []string{"/bin/sleep", strconv.FormatFloat(n.TaskTime.Seconds(), 'f', -1, 64)}
}

// xargs runs the same command as often without any queue.
func (n Noop) xargs(ctx context.Context) (time.Duration, error) {
	// Without -I, xargs appends a word to the command: -n1 with sleep would
	// sleep longer by it, so that word is 0.
	words := strings.Repeat("0\n", n.Tasks)
	command := osexec.CommandContext(ctx, "xargs", append([]string{"-P" + strconv.Itoa(n.Pilots*n.Slots), "-n1"}, n.command()...)...)
	command.Stdin = strings.NewReader(words)
	began := time.Now()
	if output, err := command.CombinedOutput(); err != nil {
		return 0, fmt.Errorf("run xargs for comparison: %w: %s", err, output)
	}
	return time.Since(began), nil
}

// startPilots starts the pilots as a batch system would.
func (n Noop) startPilots(ctx context.Context, queue *queueProcess) ([]*process, error) {
	var pilots []*process
	for i := range n.Pilots {
		name := fmt.Sprintf("pilot-%d", i+1)
		pilot, err := queue.startPilot(name, noopSite, "--slots", strconv.Itoa(n.Slots), "--memory", "4GiB", "--disk", "1GiB", "--cache-size", "1GiB", "--sandbox", n.Sandbox, "--payload-network", n.Network.String(), "--container", n.Container)
		if err != nil {
			return pilots, err
		}
		pilots = append(pilots, pilot)
	}
	group, ctx := errgroup.WithContext(ctx)
	for _, pilot := range pilots {
		group.Go(func() error {
			_, err := pilot.waitReady(ctx)
			return err
		})
	}
	return pilots, group.Wait()
}

func (n Noop) measure(ctx context.Context, queue *queueProcess, pilots []*process, result *NoopResult) error {
	workflow := submission{name: "noop"}
	for i := range n.Tasks {
		workflow.tasks = append(workflow.tasks, smallTask(fmt.Sprintf("noop[%07d]", i), n.command()...))
	}
	n.say("%d tasks", n.Tasks)
	queueBefore, _, err := queue.usage()
	if err != nil {
		return err
	}
	pilotsBefore, _, err := usageOf(pilots)
	if err != nil {
		return err
	}
	began := time.Now()
	id, err := queue.submit(ctx, workflow)
	if err != nil {
		return err
	}
	result.SubmitSeconds = time.Since(began).Seconds()
	ended, err := queue.waitEnded(ctx, id, nil)
	if err != nil {
		return err
	}
	result.TasksPerSecond = float64(n.Tasks) / time.Since(began).Seconds()
	result.Failed = int(ended.GetFailed() + ended.GetCancelled() + ended.GetQuarantined())
	queueAfter, resident, err := queue.usage()
	if err != nil {
		return err
	}
	pilotsAfter, memory, err := usageOf(pilots)
	if err != nil {
		return err
	}
	result.QueueCPU, result.QueueRSS = (queueAfter - queueBefore).Seconds(), resident
	result.PilotCPU, result.SlotRSS = (pilotsAfter - pilotsBefore).Seconds(), memory/int64(n.Pilots*n.Slots)
	var delays []time.Duration
	err = queue.each(ctx, id, func(info *pb.TaskInfo) {
		for _, attempt := range info.GetAttempts() {
			if outcome := attempt.GetOutcome(); outcome.GetOk() && outcome.Delay != nil {
				delays = append(delays, outcome.GetDelay().AsDuration())
			}
		}
	})
	// The first task of each slot has nothing before it.
	result.Share = float64(len(delays)) / float64(max(1, n.Tasks-n.Pilots*n.Slots))
	result.InterTaskDelay = Distribute(delays)
	return err
}

// usageOf sums what pilots and their spawners have used and occupy.
func usageOf(pilots []*process) (cpu time.Duration, resident int64, err error) {
	for _, p := range pilots {
		used, memory, err := p.usage()
		if err != nil {
			return 0, 0, err
		}
		cpu, resident = cpu+used, resident+memory
		for _, pid := range spawnersOf(p.PID()) {
			if used, memory, err := processUsage(pid); err == nil { // else it has just ended
				cpu, resident = cpu+used, resident+memory
			}
		}
	}
	return cpu, resident, nil
}
