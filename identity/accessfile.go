package identity

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/pilotage-grid/pilotage/internal/durable"
	"github.com/pilotage-grid/pilotage/internal/shell"
)

// ResolveAccessPath finds the access file's path: the --access flag, then
// $PILOTAGE_ACCESS, then pilotage/access.json under $XDG_CONFIG_HOME or
// $HOME/.config. Whether it exists is for ReadAccessFile to say.
func ResolveAccessPath(flag string, getenv func(string) string) (string, error) {
	if flag != "" {
		return flag, nil
	}
	if path := getenv("PILOTAGE_ACCESS"); path != "" {
		return path, nil
	}
	// The XDG specification says to ignore a relative path.
	if folder := getenv("XDG_CONFIG_HOME"); filepath.IsAbs(folder) {
		return filepath.Join(folder, "pilotage", "access.json"), nil
	}
	if home := getenv("HOME"); filepath.IsAbs(home) {
		return filepath.Join(home, ".config", "pilotage", "access.json"), nil
	}
	return "", errors.New("no access file given: use --access FILE or set PILOTAGE_ACCESS ($HOME is not set either)")
}

// ReadAccessFile reads and checks an access file by the system's clock. It
// refuses a file that group or others can read (the error has the chmod
// command to run), that is no regular file, larger than 64 KiB, of an unknown
// version or incomplete (ErrMalformed), and one that expired (*ExpiredError).
func ReadAccessFile(path string) (*AccessFile, error) {
	content, err := readPrivate(path)
	if err != nil {
		return nil, fmt.Errorf("read the access file: %w", err)
	}
	defer clear(content)
	access, err := decodeAccessFile(content, time.Now())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return access, nil
}

// readPrivate judges the mode bits of the opened file itself: the kernel lets
// root read anything, and a path may change between two looks at it.
func readPrivate(path string) ([]byte, error) {
	// O_NONBLOCK: opening a FIFO must not wait for a writer.
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is no regular file: %w", path, ErrMalformed)
	case info.Mode().Perm()&0o077 != 0:
		word := shell.Quote(path)
		if path[0] == '-' {
			word = shell.Quote("./" + path)
		}
		return nil, fmt.Errorf("%s has mode %04o: others can read the token in it: run: chmod 600 %s", path, info.Mode().Perm(), word)
	}
	content, err := io.ReadAll(io.LimitReader(file, maxAccessFile+1))
	if err != nil {
		return nil, err
	}
	if len(content) > maxAccessFile {
		clear(content)
		return nil, fmt.Errorf("%s is larger than %d bytes: %w", path, maxAccessFile, ErrMalformed)
	}
	return content, nil
}

// Write checks the access file and stores it at path with mode 0600, whole or
// not at all: a reader sees the old file or the new one, also after a power
// loss. Missing folders are made with mode 0700.
func (a *AccessFile) Write(path string) (err error) {
	if err := a.validate(); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	content, err := json.MarshalIndent(a, "", "  ")
	if err != nil {
		return fmt.Errorf("write %s: encode: %w", path, err)
	}
	content = append(content, '\n')
	defer clear(content)
	folder := filepath.Dir(path)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return fmt.Errorf("write the access file: %w", err)
	}
	if err := durable.WriteFile(path, content, 0o600); err != nil {
		return fmt.Errorf("write the access file %s: %w", path, err)
	}
	return nil
}
