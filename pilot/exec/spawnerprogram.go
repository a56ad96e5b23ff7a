package exec

import (
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// spawnerProgram is what is started as a spawner: the small program that
// `make build` puts into this one (embeddedSpawner), held by a file in memory that
// all spawners of this pilot share; else, this program.
type spawnerProgram struct{ file *os.File }

// openSpawnerProgram takes the small program if there is one and the node lets
// files in memory be run.
func openSpawnerProgram() spawnerProgram {
	if len(embeddedSpawner) == 0 {
		return spawnerProgram{}
	}
	const executable = 0x10 // MFD_EXEC, since Linux 6.3
	fd, err := unix.MemfdCreate("pilotage-spawner", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING|executable)
	if err != nil {
		if fd, err = unix.MemfdCreate("pilotage-spawner", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING); err != nil {
			return spawnerProgram{}
		}
	}
	file := os.NewFile(uintptr(fd), "pilotage-spawner")
	_, err = file.Write(embeddedSpawner)
	if err == nil {
		_, err = unix.FcntlInt(file.Fd(), unix.F_ADD_SEALS, unix.F_SEAL_WRITE|unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_SEAL)
	}
	var status unix.Stat_t
	if err == nil {
		err = unix.Fstat(fd, &status)
	}
	if err != nil || status.Mode&0o111 == 0 { // vm.memfd_noexec
		_ = file.Close()
		return spawnerProgram{}
	}
	return spawnerProgram{file}
}

// path is where a child of this process finds the program.
func (p spawnerProgram) path() string {
	if p.file == nil {
		return "/proc/self/exe"
	}
	return "/proc/self/fd/" + strconv.Itoa(int(p.file.Fd()))
}

func (p spawnerProgram) close() {
	if p.file != nil {
		_ = p.file.Close()
	}
}
