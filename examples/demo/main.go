// Command demo runs a real workflow over two sites with four pilots each, all
// of them processes of their own on this machine, and checks what came out
// against the same computation done without Pilotage.
//
//	make demo
//	DEMO_KEEP=1 make demo       leave the folder with everything in place
//	DEMO_CORRUPT=1 make demo    spoil a byte of the result: the demo must fail
//
// It uses the product as its users do: through the binary's command line.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/pilotage-grid/pilotage/internal/daemon"
)

const (
	demoFolder    = "examples/demo"
	pilotsPerSite = 4
	// The whole takes about half a minute on two cores.
	workflowTimeout = 3 * time.Minute
	readyTimeout    = 30 * time.Second
	leaveTimeout    = 10 * time.Second
)

var siteNames = []string{"siteA", "siteB"}

func main() {
	// Linux kills a child when the thread that started it ends (Pdeathsig), so
	// everything starts from this one, which lasts as long as the program.
	runtime.LockOSThread()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	code := run(ctx)
	stop()
	os.Exit(code)
}

// run returns the exit code: 0 when everything is as it should be.
func run(ctx context.Context) int {
	folder, err := os.MkdirTemp("", "pilotage-demo-")
	if err == nil {
		err = (&demo{folder: folder}).run(ctx)
		if os.Getenv("DEMO_KEEP") == "1" {
			fmt.Printf("Everything is kept in %s\n", folder)
		} else {
			err = errors.Join(err, os.RemoveAll(folder))
		}
	}
	switch {
	case ctx.Err() != nil:
		fmt.Fprintln(os.Stderr, "demo: interrupted")
		return 130
	case err != nil:
		fmt.Fprintln(os.Stderr, "demo: FAILED:", err)
		return 1
	}
	return 0
}

// demo is one run. It is used by one goroutine.
type demo struct {
	folder string
	binary string
	queue  *daemon.Process
	pilots []*daemon.Process
}

func (d *demo) run(ctx context.Context) (err error) {
	if d.binary, err = filepath.Abs("bin/pilotage"); err != nil {
		return err
	}
	if _, err := os.Stat(d.binary); err != nil {
		return fmt.Errorf("%w: build it with `make build`", err)
	}
	defer func() { err = errors.Join(err, d.stop()) }()
	begin := time.Now()
	fmt.Printf("Starting a task queue and %d sites with %d pilots each, in %s\n", len(siteNames), pilotsPerSite, d.folder)
	if err := d.start(ctx); err != nil {
		return err
	}
	fmt.Printf("%d processes are ready after %.1f s; submitting %s/workflow.yaml\n", 1+len(d.pilots), time.Since(begin).Seconds(), demoFolder)
	found, err := d.work(ctx)
	if err != nil {
		return err
	}
	if err := d.stop(); err != nil {
		return err
	}
	fmt.Println("\nComputing the same without Pilotage, to compare")
	took, err := d.compute(ctx)
	if err != nil {
		return err
	}
	same, err := compare(filepath.Join(d.folder, "result"), filepath.Join(d.folder, "direct"))
	if err != nil {
		return err
	}
	fmt.Printf("\nThe result is byte for byte that of the plain loop of %s/direct.sh, which took %.1f s on one core:\n%s", demoFolder, took.Seconds(), same)
	if problems := found.problems(); len(problems) > 0 {
		return errors.New("\n  " + strings.Join(problems, "\n  "))
	}
	fmt.Printf("\nEverything is as it should be. %.0f s in all.\n", time.Since(begin).Seconds())
	return nil
}

// start brings up the queue, the sites and the pilots.
func (d *demo) start(ctx context.Context) (err error) {
	logs := filepath.Join(d.folder, "logs")
	if err := os.MkdirAll(logs, 0o700); err != nil {
		return err
	}
	d.queue, err = daemon.Start("the task queue", filepath.Join(logs, "queue.log"), d.binary, "taskqueue",
		"--data", filepath.Join(d.folder, "queue"), "--listen", "127.0.0.1:0", "--listen-http", "127.0.0.1:0")
	if err != nil {
		return err
	}
	if _, err := d.queue.Ready(ctx, readyTimeout); err != nil {
		return err
	}
	for _, site := range siteNames {
		storage := filepath.Join(d.folder, "storage", site)
		if err := os.MkdirAll(storage, 0o700); err != nil {
			return err
		}
		if _, err := d.call(ctx, "site", "add", site, "--se", "file://"+storage); err != nil {
			return err
		}
	}
	for n := range pilotsPerSite {
		for _, site := range siteNames {
			name := fmt.Sprintf("%s-%d", site, n+1)
			pilot, err := daemon.Start("pilot "+name, filepath.Join(logs, name+".log"), d.binary, "pilot",
				"--access", filepath.Join(d.folder, "queue", "access", "pilot-"+site+".json"),
				"--cache", filepath.Join(d.folder, "pilots", name), "--slots", "1", "--memory", "1GiB", "--disk", "1GiB",
				"--cache-size", "200MiB", "--advertise", "127.0.0.1", "--lifetime", "1h", "--grace", "1s")
			if err != nil {
				return err
			}
			d.pilots = append(d.pilots, pilot)
		}
	}
	for _, pilot := range d.pilots {
		if _, err := pilot.Ready(ctx, readyTimeout); err != nil {
			return err
		}
	}
	return nil
}

// work runs the workflow, fetches its outputs and collects what is known of it.
func (d *demo) work(ctx context.Context) (*findings, error) {
	submitted, err := d.call(ctx, "submit", "-f", filepath.Join(demoFolder, "workflow.yaml"), "--upload", "--parsable")
	if err != nil {
		return nil, err
	}
	id, result := strings.TrimSpace(string(submitted)), filepath.Join(d.folder, "result")
	for _, args := range [][]string{
		{"workflow", "wait", id, "--timeout", workflowTimeout.String()},
		{"workflow", "outputs", id, "--to", result},
	} {
		if out, err := d.call(ctx, args...); err != nil {
			return nil, fmt.Errorf("%w\n%s", err, out) // which tells what has failed
		}
	}
	if os.Getenv("DEMO_CORRUPT") == "1" {
		if err := flipByte(filepath.Join(result, outputs[0])); err != nil {
			return nil, err
		}
	}
	for _, args := range [][]string{{"workflow", "show", id}, {"pilot", "list"}, {"site", "show", siteNames[0]}, {"site", "show", siteNames[1]}} {
		text, err := d.call(ctx, args...)
		if err != nil {
			return nil, err
		}
		fmt.Printf("\n$ pilotage %s\n%s", strings.Join(args, " "), text)
	}
	return d.find(ctx, id)
}

// call runs a command as a user would, and returns what it prints.
func (d *demo) call(ctx context.Context, args ...string) ([]byte, error) {
	command := exec.CommandContext(ctx, d.binary, args...)
	command.Env = append(daemon.Environment(), "PILOTAGE_ACCESS="+filepath.Join(d.folder, "queue", "access", "admin.json"))
	command.SysProcAttr = daemon.Attributes()
	var messages strings.Builder
	command.Stderr = &messages
	out, err := command.Output()
	if err != nil {
		err = fmt.Errorf("pilotage %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(messages.String()))
	}
	return out, err
}

// compute does the same without Pilotage and tells how long it took.
func (d *demo) compute(ctx context.Context) (time.Duration, error) {
	folder := filepath.Join(d.folder, "direct")
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return 0, err
	}
	begin := time.Now()
	command := exec.CommandContext(ctx, filepath.Join(demoFolder, "direct.sh"), folder)
	command.SysProcAttr = daemon.Attributes()
	command.Cancel = func() error { return syscall.Kill(-command.Process.Pid, syscall.SIGKILL) }
	if messages, err := command.CombinedOutput(); err != nil {
		return 0, fmt.Errorf("%s/direct.sh: %w: %s", demoFolder, err, messages)
	}
	return time.Since(begin), nil
}

// stop lets the pilots leave, then ends the queue. Whatever does not go when asked to,
// or does not end well, is a failure. It does nothing the second time.
func (d *demo) stop() error {
	pilots, queue := d.pilots, d.queue
	d.pilots, d.queue = nil, nil
	for _, p := range pilots {
		p.Signal(syscall.SIGTERM) // all at once
	}
	if queue != nil {
		pilots = append(pilots, queue)
	}
	var failures []error
	for _, p := range pilots {
		p.Stop(leaveTimeout)
		if err := p.Err(); err != nil {
			failures = append(failures, fmt.Errorf("%s did not end well: %w", p.Name, err))
		}
	}
	return errors.Join(failures...)
}
