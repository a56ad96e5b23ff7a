package workernode

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"

	"github.com/pilotage-grid/pilotage/cache/disk"
	"github.com/pilotage-grid/pilotage/pilot/exec"
)

// baseFolder is the pilot's folder, or the one that it will lie in while the
// pilot has no id yet. It is there afterwards.
func baseFolder(folder string) (string, error) {
	if folder == "" {
		folder = filepath.Dir(DefaultFolder(os.Getenv, "x"))
		if err := ownFolder(folder); err != nil {
			return "", err
		}
		return folder, nil
	}
	// Payloads of another account pass through what lies above.
	err := os.MkdirAll(filepath.Dir(folder), 0o711)
	if err == nil {
		err = os.MkdirAll(folder, 0o700)
	}
	if err != nil {
		return "", fmt.Errorf("the pilot's folder: %w", err)
	}
	return folder, nil
}

// ownFolder makes a folder under a name that anybody can foretell, in a place where
// anybody may make one, and refuses one that is not this user's alone: who
// made it could exchange payloads and cached files.
func ownFolder(folder string) error {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return fmt.Errorf("the pilot's folder: %w", err)
	}
	info, err := os.Lstat(folder)
	if err != nil {
		return fmt.Errorf("the pilot's folder: %w", err)
	}
	const othersWrite = 0o022
	status, ok := info.Sys().(*syscall.Stat_t)
	if !info.IsDir() || !ok || int(status.Uid) != os.Geteuid() || info.Mode().Perm()&othersWrite != 0 {
		return fmt.Errorf("the pilot's folder %s is not a folder that only user %d can write to: remove it, or choose another with --cache", folder, os.Geteuid())
	}
	return nil
}

// removeDeadFolders removes the folders of pilots that were killed: they are named
// after pilots that will not come again. Base is where pilots without --cache have
// their folders.
func removeDeadFolders(base string, log *slog.Logger) {
	folders, err := filepath.Glob(filepath.Join(base, "p-*"))
	if err != nil {
		panic(err) // of the pattern
	}
	for _, folder := range folders {
		abandoned, err := disk.Abandoned(folder, func() error { return exec.RemoveTree(folder) })
		switch {
		case err != nil:
			log.Warn("the folder of a pilot that was killed cannot be removed", "folder", folder, "error", err)
		case abandoned:
			log.Info("the folder of a pilot that was killed is removed", "folder", folder)
		}
	}
}
