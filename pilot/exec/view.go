package exec

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/pilotage-grid/pilotage/pilot/exec/spawner"
)

// socketFolders hold the sockets of the node's services: munge, the bus of a
// login, container engines.
var socketFolders = []string{"/run"}

// view is what the policy leaves of the node, or shows of it in a container.
func (p policy) view(container string) spawner.View {
	if container != "" {
		return p.containerView(container)
	}
	v := spawner.View{Write: p.writable}
	if p.sharedMemory {
		v.Write = slices.Concat(p.writable, []string{"/dev/shm"})
	}
	hidden := slices.Concat(p.hidden, socketFolders, []string{"/dev/shm"})
	for _, path := range hidden {
		if path != "/dev" && !under(path, hidden) && !slices.Contains(v.Hidden, path) {
			v.Hidden = append(v.Hidden, path)
		}
	}
	read := p.readable
	if names, err := filepath.EvalSymlinks("/etc/resolv.conf"); err == nil {
		read = slices.Concat(read, []string{filepath.Dir(names)}) // often below /run
	}
	for _, path := range read {
		if slices.Contains(v.Hidden, path) || under(path, v.Hidden) {
			v.Read = append(v.Read, path)
		}
	}
	for _, path := range hidden {
		if under(path, v.Read) || under(path, v.Write) {
			v.HiddenInside = append(v.HiddenInside, path)
		}
	}
	return v
}

// containerView shows in a container what was asked for, and /cvmfs.
func (p policy) containerView(root string) spawner.View {
	v := spawner.View{Root: root, Read: slices.Concat([]string{"/cvmfs"}, p.readable), Write: p.writable}
	if p.sharedMemory {
		v.Write = slices.Concat(p.writable, []string{"/dev/shm"})
	} else {
		v.Hidden = []string{"/dev/shm"}
	}
	for _, path := range p.hidden {
		if under(path, v.Read) || under(path, v.Write) {
			v.HiddenInside = append(v.HiddenInside, path)
		}
	}
	return v
}

// under tells whether a path lies below one of the folders.
func under(path string, folders []string) bool {
	return slices.ContainsFunc(folders, func(folder string) bool {
		return path != folder && strings.HasPrefix(path, strings.TrimSuffix(folder, "/")+"/")
	})
}
