package exec

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pilotage-grid/pilotage/task"
)

// containerOf is the root file system of a task, "" for the node's: the folder that
// the task names, where the site lets it, else the pilot's.
func (r *Runner) containerOf(t *task.Task) (string, error) {
	if t.Container == "" {
		return r.cfg.Container, nil
	}
	allowed := func(path string) bool {
		return slices.ContainsFunc(r.cfg.Images, func(folder string) bool { return strings.HasPrefix(path, folder) })
	}
	switch {
	case r.level < Namespaces:
		return "", fmt.Errorf("container %s takes level %s, and this node has %s: %s", t.Container, Namespaces, r.level, r.because)
	case !allowed(t.Container):
		return "", fmt.Errorf("container %s: this pilot lets images lie in %s only (--images)", t.Container, strings.Join(r.cfg.Images, ", "))
	}
	folder, err := filepath.EvalSymlinks(t.Container) // those of CVMFS lead to folders named by digest
	if err != nil {
		return "", fmt.Errorf("container %s is not at this node: %w", t.Container, err)
	}
	within := slices.ContainsFunc(r.cfg.Images, func(images string) bool {
		real, err := filepath.EvalSymlinks(images)
		return err == nil && strings.HasPrefix(folder, real+"/")
	})
	if info, err := os.Stat(folder); !within || err != nil || !info.IsDir() {
		return "", payloadErrorf("container %s leads to %s, which is no folder in one of images", t.Container, folder)
	}
	return folder, nil
}
