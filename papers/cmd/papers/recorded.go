package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/pilotage-grid/pilotage/papers/experiment"
	"github.com/pilotage-grid/pilotage/task/workflow/recording"
	"github.com/pilotage-grid/pilotage/task/workflow/trace"
)

func (p *printer) recorded() *cobra.Command {
	var out string
	var drawn bool
	options := experiment.Options{}
	command := &cobra.Command{
		Use: "recorded [FILE...]", Short: "Recorded workflows (WfFormat, DAX) with our default policy beside others",
		RunE: func(_ *cobra.Command, files []string) error {
			if len(files) == 0 && !drawn {
				return errors.New("give files of recorded workflows, or --drawn for six common shapes")
			}
			if options.Seeds < 1 || options.Seeds > 1000 {
				return errors.New("give --seeds 1 to 1000")
			}
			var workloads []*trace.Workload
			for _, file := range files {
				workload, err := readRecorded(file)
				if err != nil {
					return err
				}
				workloads = append(workloads, workload)
			}
			if drawn {
				workloads = append(workloads, experiment.Shapes()...)
			}
			options.Effort = p.effort()
			return p.report(out, func() (*experiment.Report, error) { return experiment.RunRecorded(options, workloads) })
		},
	}
	command.Flags().StringVar(&out, "out", "", "folder for figures and report (default: print the claims only)")
	command.Flags().BoolVar(&drawn, "drawn", false, "also workloads of six common shapes of workflows, drawn from a fixed seed")
	command.Flags().IntVar(&options.Seeds, "seeds", 3, "runs of which the median is taken")
	return command
}

// readRecorded reads a workflow in WfFormat (.json) or DAX (.xml, .dax), gzipped or not.
func readRecorded(path string) (*trace.Workload, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	data, err := recording.Unpack(file, recording.MaxBytes)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return recording.Parse(path, data)
}
