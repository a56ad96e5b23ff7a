package exec

import (
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"

	"github.com/pilotage-grid/pilotage/pilot/exec/spawner"
	"github.com/pilotage-grid/pilotage/task"
)

// pilotVariable names the pilot in the environment of its payloads.
const pilotVariable = "PILOTAGE_PILOT"

// environment lists what the payload gets: the allow-list of the pilot, then
// the task's own variables, which may replace PATH, HOME, TMPDIR and LANG but
// none of the pilot's names.
func (a *attempt) environment() []string {
	t := a.spec.Task
	values := map[string]string{
		"PATH":   a.runner.cfg.Path,
		"HOME":   filepath.Join(a.inside(), privateFolder),
		"TMPDIR": filepath.Join(a.inside(), privateFolder),
		"LANG":   a.runner.cfg.Lang,
	}
	for name, value := range t.Env {
		values[name] = value
	}
	values[pilotVariable] = string(a.spec.Attempt.Pilot)
	values["PILOTAGE_TASK"] = string(t.ID)
	values["PILOTAGE_ATTEMPT"] = a.label()
	values["PILOTAGE_SITE"] = string(a.runner.cfg.Site)
	values["PILOTAGE_CORES"] = strconv.Itoa(t.Resources.Cores)
	values["PILOTAGE_MEMORY_BYTES"] = strconv.FormatInt(int64(t.Resources.Memory), 10)
	a.gpuEnvironment(values)
	list := make([]string, 0, len(values))
	for name, value := range values {
		list = append(list, name+"="+value)
	}
	sort.Strings(list)
	return list
}

// inside is the work folder as the payload sees it.
func (a *attempt) inside() string {
	if a.container != "" {
		return spawner.ContainerWork
	}
	return a.folder
}

// label is the attempt as people know it, e.g. "w-abcdefghij/index[07]/a2".
func (a *attempt) label() string {
	return string(a.spec.Task.ID) + "/a" + strconv.Itoa(a.spec.Number)
}

// command returns the program file and the argument list. A name without a
// slash is looked up in the payload's PATH, one with a slash is taken from the
// work folder. In a container the spawner looks, in the folders of search.
func (a *attempt) command(environment []string) (program string, arguments, search []string, err error) {
	t := a.spec.Task
	switch {
	case t.Shell != "" && len(t.Argv) == 0:
		return "/bin/sh", []string{"/bin/sh", "-c", t.Shell}, nil, nil
	case len(t.Argv) == 0 || t.Argv[0] == "":
		return "", nil, nil, payloadErrorf("the task has no command")
	case strings.Contains(t.Argv[0], "/"):
		return t.Argv[0], t.Argv, nil, nil
	}
	path := ""
	for _, variable := range environment {
		if value, found := strings.CutPrefix(variable, "PATH="); found {
			path = value
		}
	}
	if a.container != "" {
		return t.Argv[0], t.Argv, filepath.SplitList(path), nil
	}
	for _, folder := range filepath.SplitList(path) {
		if !filepath.IsAbs(folder) {
			folder = filepath.Join(a.folder, folder)
		}
		program := filepath.Join(folder, t.Argv[0])
		if info, err := os.Stat(program); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return program, t.Argv, nil, nil
		}
	}
	return "", nil, nil, payloadErrorf("command %q is not in the PATH of this site's worker nodes: give a path such as ./%s for a program in the work folder",
		t.Argv[0], t.Argv[0])
}

// memoryLimit and diskLimit are the request with the allowed excess; 0 means
// that the task states none.
func (a *attempt) memoryLimit() task.Bytes { return a.limit(a.spec.Task.Resources.Memory) }

func (a *attempt) diskLimit() task.Bytes { return a.limit(a.spec.Task.Resources.Disk) }

func (a *attempt) limit(request task.Bytes) task.Bytes {
	return task.Bytes(float64(request) * a.runner.cfg.Watch.Excess)
}
