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
	"os/signal"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"github.com/pilotage-grid/pilotage/internal/daemon"
)

const (
	demoFolder    = "examples/demo"
	pilotsPerSite = 4
	// The whole takes about half a minute on two cores.
	workflowTimeout = 3 * time.Minute
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
	if err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		return 1
	}
	d := &demo{folder: folder, keep: os.Getenv("DEMO_KEEP") == "1", corrupt: os.Getenv("DEMO_CORRUPT") == "1"}
	err = d.run(ctx)
	if err != nil && ctx.Err() == nil && !d.checked {
		d.showLogs(os.Stderr)
	}
	if cleanupErr := d.cleanUp(); cleanupErr != nil {
		err = errors.Join(err, cleanupErr)
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
	folder        string
	keep, corrupt bool

	queue   *daemon.Process
	pilots  []*daemon.Process
	tool    *tool
	checked bool // the run is over, and what it gave is being judged
}

func (d *demo) run(ctx context.Context) error {
	binary, err := filepath.Abs("bin/pilotage")
	if err != nil {
		return err
	}
	if _, err := os.Stat(binary); err != nil {
		return fmt.Errorf("%w: build it with `make build`", err)
	}
	d.tool = &tool{binary: binary, access: filepath.Join(d.folder, "queue", "access", "admin.json"), kept: d.folder}

	begin := time.Now()
	fmt.Printf("Starting a task queue and %d sites with %d pilots each, in %s\n", len(siteNames), pilotsPerSite, d.folder)
	if err := d.start(ctx, binary); err != nil {
		return err
	}
	startUp := time.Since(begin)
	fmt.Printf("%d processes are ready after %.1f s; submitting %s/workflow.yaml\n", 1+len(d.pilots), startUp.Seconds(), demoFolder)
	figures, err := d.work(ctx)
	if err != nil {
		return err
	}
	if err := d.stop(); err != nil {
		return err
	}
	if figures.cached, err = d.cachedFiles(); err != nil {
		return err
	}
	if figures.unasked, err = unasked(d.pilots); err != nil {
		return err
	}

	fmt.Println("Computing the same without Pilotage, to compare")
	direct, took, err := d.compute(ctx)
	if err != nil {
		return err
	}
	d.checked = true
	figures.print(os.Stdout)
	problems := figures.problems()
	same, err := compare(filepath.Join(d.folder, "result"), direct)
	if err != nil {
		problems = append(problems, err.Error())
	} else {
		fmt.Printf("\nThe result is byte for byte that of the plain loop of %s/direct.sh, which took %.1f s on one core:\n%s", demoFolder, took.Seconds(), same)
	}
	if len(problems) > 0 {
		return &problemsError{problems}
	}
	fmt.Printf("\nEverything is as it should be. %.0f s in all.\n", time.Since(begin).Seconds())
	return nil
}

// work runs the workflow, fetches its outputs and collects the figures.
func (d *demo) work(ctx context.Context) (*figures, error) {
	id, err := d.tool.submit(ctx, filepath.Join(demoFolder, "workflow.yaml"))
	if err != nil {
		return nil, err
	}
	if err := d.tool.wait(ctx, id, workflowTimeout); err != nil {
		return nil, fmt.Errorf("workflow %s: %w", id, err)
	}
	result := filepath.Join(d.folder, "result")
	if err := d.tool.outputs(ctx, id, result); err != nil {
		return nil, err
	}
	if d.corrupt {
		if err := flipByte(filepath.Join(result, outputs[0])); err != nil {
			return nil, err
		}
	}
	return d.tool.figures(ctx, id)
}

// problemsError lists what is not as it should be.
type problemsError struct{ problems []string }

func (e *problemsError) Error() string {
	text := ""
	for _, problem := range e.problems {
		text += "\n  " + problem
	}
	return text
}
