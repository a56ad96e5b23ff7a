package main

import (
	"context"
	"errors"
	"fmt"
	"hash/adler32"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"

	"github.com/zeebo/blake3"

	"github.com/pilotage-grid/pilotage/cache/storage"
	pb "github.com/pilotage-grid/pilotage/proto/pilotage/v1"
	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/task/taskpb"
)

// fetchFile reads a file from the first replica that gives the right bytes.
func (a *app) fetchFile(ctx context.Context, file *pb.File, target string) error {
	described, err := taskpb.FromFile(file)
	if err != nil {
		return err
	}
	if unmade(file) {
		return coded(exitConflict, "%s was not made: `pilotage workflow wait` says what failed and why", described.LFN.Local())
	}
	if len(described.Replicas) == 0 {
		return coded(exitConflict, "%s is on no storage element yet", described.LFN.Local())
	}
	client := storage.NewClient(storage.Options{})
	defer client.Close()
	var failures []error
	for _, replica := range described.Replicas {
		err := fetchReplica(ctx, client, described, replica.URL, target)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return err
		}
		failures = append(failures, fmt.Errorf("from %s: %w", replica.Site, err))
	}
	return coded(exitUnreachable, "fetch %s: %w", described.LFN.Local(), errors.Join(failures...))
}

// mayWrite tells whether a target has the right content already, and refuses
// to replace anything else there unless forced.
func mayWrite(target string, file *pb.File, force bool) (there bool, err error) {
	content, err := os.Open(target)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil:
		return false, usage(err)
	}
	defer func() { _ = content.Close() }()
	info, err := content.Stat()
	if err != nil {
		return false, err
	}
	if !info.Mode().IsRegular() {
		return false, coded(exitUsage, "%s is there and no regular file: give another place with --to", target)
	}
	described, err := taskpb.FromFile(file)
	if err != nil {
		return false, err
	}
	if !described.Digest.IsZero() && info.Size() == int64(described.Size) {
		digest := blake3.New()
		if _, err := io.Copy(digest, content); err != nil {
			return false, err
		}
		if sumOf(digest) == described.Digest {
			return true, nil
		}
	}
	if force {
		return false, nil
	}
	return false, coded(exitConflict, "%s is there with other content: give another place with --to, or --force to replace it", target)
}

// openReplica opens one copy. A folder becomes a place to read file:// copies
// from because the catalogue names it: the queue has checked that it is a
// site's storage, and who runs this tool can read nothing more by it.
func openReplica(ctx context.Context, client *storage.Client, rawURL string) (io.ReadCloser, error) {
	parsed, err := url.Parse(rawURL)
	if err != nil {
		return nil, err
	}
	if parsed.Scheme == "file" {
		if _, err := client.Element(storage.FileURL(path.Dir(parsed.Path))); err != nil {
			return nil, err
		}
	}
	content, _, err := client.OpenReplica(ctx, rawURL, 0)
	return content, err
}

// fetchReplica writes a copy to its target, whole or not at all.
func fetchReplica(ctx context.Context, client *storage.Client, file task.File, rawURL, target string) error {
	content, err := openReplica(ctx, client, rawURL)
	if err != nil {
		return err
	}
	defer func() { _ = content.Close() }()
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		return err
	}
	partial, err := os.CreateTemp(filepath.Dir(target), ".pilotage-*")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(partial.Name()) }()
	digest, checksum := blake3.New(), adler32.New()
	_, err = io.Copy(io.MultiWriter(partial, digest, checksum), content)
	if closeErr := partial.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return err
	}
	if !file.Digest.IsZero() && sumOf(digest) != file.Digest || file.Adler32 != "" && fmt.Sprintf("%08x", checksum.Sum32()) != file.Adler32 {
		return fmt.Errorf("%s has other bytes than the catalogue says", rawURL)
	}
	mode := os.FileMode(0o644)
	if file.Exec {
		mode = 0o755
	}
	if err := os.Chmod(partial.Name(), mode); err != nil {
		return err
	}
	return os.Rename(partial.Name(), target)
}
