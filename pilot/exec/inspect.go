package exec

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"syscall"

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
	if reason := a.diskExcess(math.MaxInt); reason != "" {
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
	for _, output := range declared {
		collected, err := a.collectOne(root, output)
		if err != nil {
			return nil, err
		}
		outputs = append(outputs, collected)
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
	// A file with another name (an input moved or linked to an output's
	// place) would tie two cache entries together.
	if status, ok := info.Sys().(*syscall.Stat_t); ok && status.Nlink > 1 {
		if err := separate(root, output.Name, info.Mode().Perm()|0o600); err != nil {
			return Collected{}, fmt.Errorf("separate output %s from its other names: %w", output.Name, err)
		}
	}
	return Collected{
		LFN: output.LFN, Name: output.Name, Path: filepath.Join(a.folder, output.Name),
		Size: task.Bytes(info.Size()), Exec: info.Mode()&0o111 != 0,
	}, nil
}

// separate replaces one name of a file by a copy.
func separate(root *os.Root, name string, mode fs.FileMode) (err error) {
	source, err := root.Open(name)
	if err != nil {
		return err
	}
	defer source.Close()
	if err := root.Remove(name); err != nil {
		return err
	}
	target, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(target, source)
	return errors.Join(err, target.Close())
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
