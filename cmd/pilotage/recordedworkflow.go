package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pilotage-grid/pilotage/task/workflow"
	"github.com/pilotage-grid/pilotage/task/workflow/dax"
	"github.com/pilotage-grid/pilotage/task/workflow/recording"
	"github.com/pilotage-grid/pilotage/task/workflow/trace"
	"github.com/pilotage-grid/pilotage/task/workflow/wfformat"
)

// recordedFlags replay a recorded workflow: real files of scaled size, payloads
// that sleep for the scaled time.
type recordedFlags struct {
	wfformat, dax string
	scale         trace.Scale
	dir           string // of the made files, removed by close
	contents      []trace.ExternalContent
}

func (f *recordedFlags) register(command *cobra.Command) {
	flags := command.Flags()
	flags.StringVar(&f.wfformat, "wfformat", "", "replay a workflow recorded in WfFormat 1.5, also gzipped")
	flags.StringVar(&f.dax, "dax", "", "replay a Pegasus workflow in DAX 2.1, also gzipped")
	flags.Float64Var(&f.scale.Time, "time-scale", 1, "factor on the run times of a replay")
	flags.Float64Var(&f.scale.Size, "size-scale", 1, "factor on the file sizes of a replay")
}

func (f *recordedFlags) given() bool { return f.wfformat != "" || f.dax != "" }

// read reads the recording.
func (f *recordedFlags) read() (*trace.Workload, error) {
	if f.wfformat != "" && f.dax != "" {
		return nil, errors.New("give --wfformat or --dax, not both")
	}
	path, parse := f.wfformat, wfformat.Read
	if path == "" {
		path, parse = f.dax, dax.Read
	}
	data, err := readInput(path, recording.MaxBytes)
	if err != nil {
		return nil, err
	}
	return parse(path, data)
}

// readInput reads a file, or standard input for "-", unpacked if it is gzipped, of
// so many bytes at most.
func readInput(path string, most int64) ([]byte, error) {
	file := os.Stdin
	if path != "-" {
		opened, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		defer func() { _ = opened.Close() }()
		file = opened
	}
	data, err := recording.Unpack(file, most)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return data, nil
}

// plan turns the recording into real tasks. Their sources are made later, by
// make, in a temporary folder.
func (f *recordedFlags) plan() (*workflow.Plan, error) {
	workload, err := f.read()
	if err != nil {
		return nil, err
	}
	if workload.Name == "" {
		workload.Name, _, _ = strings.Cut(filepath.Base(f.wfformat+f.dax), ".")
	}
	plan, contents, err := workload.Plan(f.scale)
	if err != nil {
		return nil, err
	}
	if f.dir, err = os.MkdirTemp("", "pilotage-replay-"); err != nil {
		return nil, err
	}
	f.contents = contents
	for i := range plan.Files {
		plan.Files[i].Source = filepath.Join(f.dir, fmt.Sprint(i))
	}
	return plan, nil
}

// make writes the external files.
func (f *recordedFlags) make() error {
	for i, content := range f.contents {
		file, err := os.Create(filepath.Join(f.dir, fmt.Sprint(i)))
		if err != nil {
			return err
		}
		err = trace.WriteContent(file, content.Name, content.Size)
		if err = errors.Join(err, file.Close()); err != nil {
			return fmt.Errorf("make %s: %w", content.Name, err)
		}
	}
	return nil
}

// close removes the files that make wrote.
func (f *recordedFlags) close() {
	if f.dir != "" {
		_ = os.RemoveAll(f.dir)
	}
}
