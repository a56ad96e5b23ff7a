package exec

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/pilotage-grid/pilotage/task"
)

// inspect looks at what the payload left: inputs unchanged, disk within the
// request, and every declared output there.
func (a *attempt) inspect(result *Result) {
	if names := a.modifiedInputs(); len(names) > 0 {
		result.ModifiedInputs = names
		result.fail(task.PayloadFailed, "the payload changed its input "+strings.Join(names, ", ")+
			": inputs are shared and read-only, write to a copy")
	}
	if result.Failure != task.NoFailure {
		return
	}
	if reason := a.diskExcess(0); reason != "" {
		result.fail(task.PayloadFailed, reason)
		return
	}
	outputs, err := a.collect()
	if err != nil {
		result.failWith(err)
		return
	}
	result.OK, result.Outputs = true, outputs
}

// collect finds the declared outputs. Names are opened below the work folder
// only, whatever links the payload made.
func (a *attempt) collect() ([]Collected, error) {
	declared := a.spec.Task.Outputs
	if len(declared) == 0 {
		return nil, nil
	}
	root, err := os.OpenRoot(a.folder)
	if err != nil {
		return nil, fmt.Errorf("open the work folder: %w", err)
	}
	defer root.Close()
	outputs := make([]Collected, 0, len(declared))
	var sum task.Bytes
	for _, output := range declared {
		collected, err := a.collectOne(root, output)
		if err != nil {
			return nil, err
		}
		outputs = append(outputs, collected)
		sum += collected.Size
	}
	// A file with holes takes little disk here, and its whole size at all places
	// to which it is copied.
	if limit := a.diskLimit(); limit > 0 && sum > limit {
		return nil, payloadErrorf("the outputs have %s, holes included, which exceeds %s, %g x the disk request of %s",
			sum, limit, a.runner.cfg.Watch.Excess, a.spec.Task.Resources.Disk)
	}
	return outputs, nil
}

func (a *attempt) collectOne(root *os.Root, output task.Output) (Collected, error) {
	info, err := root.Lstat(output.Name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Collected{}, payloadErrorf("output %s is missing: the payload ended well but did not make it", output.Name)
	case err != nil:
		return Collected{}, payloadErrorf("output %s cannot be collected: %v", output.Name, err)
	case !info.Mode().IsRegular():
		return Collected{}, payloadErrorf("output %s is %s: outputs must be regular files", output.Name, kindOf(info.Mode()))
	}
	if info.Mode()&0o400 == 0 {
		if err := root.Chmod(output.Name, info.Mode().Perm()|0o400); err != nil {
			return Collected{}, payloadErrorf("output %s cannot be made readable: %v", output.Name, err)
		}
	}
	return Collected{
		LFN: output.LFN, Name: output.Name,
		Size: task.Bytes(info.Size()), Exec: info.Mode()&0o111 != 0,
	}, nil
}

func kindOf(mode fs.FileMode) string {
	switch {
	case mode&fs.ModeSymlink != 0:
		return "a symbolic link"
	case mode.IsDir():
		return "a folder"
	case mode&fs.ModeNamedPipe != 0:
		return "a named pipe"
	case mode&fs.ModeSocket != 0:
		return "a socket"
	default:
		return "a device"
	}
}
