package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pilotage-grid/pilotage/pilot/factory"
	"github.com/pilotage-grid/pilotage/pilot/factory/batch"
	"github.com/pilotage-grid/pilotage/pilot/factory/service"
)

// check sends one pilot that only checks its node.
func (a factoryCommands) check(f *factorySettings) *cobra.Command {
	var wait time.Duration
	command := &cobra.Command{
		Use: "check --batch SYSTEM [-- ARGUMENTS of its submit command]", Short: "Have one batch job check its node as pilots do, and print what it finds",
		RunE: func(c *cobra.Command, args []string) error { return a.checkFactory(c.Context(), f, args, wait) },
	}
	flags := command.Flags()
	flags.StringVar(&f.flags.from, "config", "", "file with the settings of the factory")
	flags.StringVar(&f.Batch, "batch", "", "batch system, or a file that defines one")
	flags.StringVar(&f.SSH, "ssh", "", "machine on which the batch system's commands run, by ssh")
	flags.StringVar(&f.Binary, "binary", "", "path of pilotage where pilots run (default: this program's)")
	flags.StringSliceVar(&f.Pilot, "pilot", nil, "further argument of the pilots, as of the factory, e.g. --pilot=--payload-user=nobody (repeatable)")
	flags.DurationVar(&wait, "timeout", 10*time.Minute, "how long to wait for the job")
	return command
}

func (a factoryCommands) checkFactory(ctx context.Context, f *factorySettings, arguments []string, wait time.Duration) error {
	access, err := a.readAccess()
	if err != nil {
		return err
	}
	f.Max, f.Backlog, f.Idle, f.Every, f.Places = max(1, f.Max), max(1, f.Backlog), time.Minute, 15*time.Second, max(1, f.Places)
	config, err := f.complete(a.app, access, arguments)
	if err != nil {
		return usage(err)
	}
	folder, err := os.MkdirTemp("", "pilotage-check-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(folder) }()
	f.flags.folder = folder
	if err := os.Mkdir(filepath.Join(folder, "jobs"), 0o700); err != nil {
		return err
	}
	system, err := f.system()
	if err != nil {
		return usage(err)
	}
	return a.withQueue(func(c *clients) error {
		name := "pcheck" + fmt.Sprintf("%06d", time.Now().UnixNano()%1_000_000)
		file, err := service.Client{Sites: c.sites}.Access(ctx, config.Site, name, time.Hour)
		if err != nil {
			return err
		}
		job := &batch.Job{
			Name: name, Script: filepath.Join(folder, "jobs", name), Log: filepath.Join(folder, "jobs", name+".log"), Arguments: config.Shapes[0].Arguments,
			Command: f.command(&config.Shapes[0]) + " --check", Access: string(file), User: currentUser(),
		}
		id, err := system.Submit(ctx, job)
		if errors.Is(err, batch.ErrRefused) {
			return usage(fmt.Errorf("%w: what stands behind -- goes to its submit command", err))
		}
		if err != nil {
			return err
		}
		a.out.say("job %s (%s) is submitted\n", name, id)
		report, err := waitForJob(ctx, system, id, job.Log, wait)
		if err != nil {
			return err
		}
		_, err = a.out.stdout.Write(report)
		if err == nil {
			err = judgeReport(string(report))
		}
		return err
	})
}

// judgeReport tells whether what a job has printed is a report of a check that found
// nothing wrong.
func judgeReport(report string) error {
	switch {
	case !strings.Contains(report, "RESULT"):
		return coded(exitUnfit, "the job ended without a report: what it printed says why")
	case strings.Contains(report, "FAILED"):
		return coded(exitUnfit, "pilots of this shape would take no work where the job ran")
	}
	return nil
}

// waitForJob waits until a job is no more, and returns what it has printed.
func waitForJob(ctx context.Context, system batch.System, id, log string, wait time.Duration) ([]byte, error) {
	ctx, stop := context.WithTimeout(ctx, wait)
	defer stop()
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	last := "the batch system has not shown it"
	for {
		listed, err := system.List(ctx)
		there := err != nil
		for _, job := range listed {
			if job.ID == id && job.State != factory.Ended {
				there, last = true, fmt.Sprintf("it was %s at the end", job.State)
				if job.State == factory.Pending && job.Why != "" {
					last += fmt.Sprintf(", and the batch system says why: %s", job.Why)
				}
			}
		}
		if !there {
			if report, err := os.ReadFile(log); err == nil {
				return report, nil
			}
		}
		select {
		case <-ctx.Done():
			_ = system.Cancel(context.WithoutCancel(ctx), id)
			return nil, coded(exitTimeout, "job %s has printed no report in %s: %s. It is cancelled; ask for less, or wait longer with --timeout", id, wait, last)
		case <-ticker.C:
		}
	}
}
