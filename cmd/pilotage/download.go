package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"

	"github.com/pilotage-grid/pilotage/cache/storage"
	pb "github.com/pilotage-grid/pilotage/proto/pilotage/v1"
	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/task/taskpb"
)

// fetchFile reads a file from the first replica that gives the right bytes; what
// none gives comes through the queue from a pilot whose cache has it.
func (a *app) fetchFile(ctx context.Context, c *clients, file *pb.File, target string) error {
	described, err := taskpb.FromFile(file)
	if err != nil {
		return err
	}
	if unmade(file) {
		return coded(exitConflict, "%s was not made: `pilotage workflow wait` says what failed and why", described.LFN.Local())
	}
	if len(described.Replicas)+len(described.Announced) == 0 {
		return coded(exitConflict, "%s is nowhere: it is to be made again", described.LFN.Local())
	}
	var elements []string
	for _, replica := range described.Replicas {
		if !described.Producer.IsZero() { // others are where somebody says
			elements = append(elements, replica.URL)
		}
	}
	client := a.ownStorage(elements)
	defer client.Close()
	var failures []error
	try := func(place, name string, copyTo func(io.Writer) error) (over bool) {
		err = fetchFrom(described, name, copyTo, target)
		if err != nil && ctx.Err() == nil {
			failures = append(failures, fmt.Errorf("from %s: %w", place, err))
		}
		return err == nil || ctx.Err() != nil
	}
	for _, replica := range described.Replicas {
		if try(string(replica.Site), replica.URL, func(w io.Writer) error { return copyReplica(ctx, client, replica.URL, w) }) {
			return err
		}
	}
	if len(described.Announced) > 0 {
		caches := fmt.Sprintf("caches of %s", described.Announced[0])
		if try(caches, caches, func(w io.Writer) error { return copyCached(ctx, c, described.LFN, w) }) {
			return err
		}
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
		if found, err := sumsOf(content); err != nil || found.digest() == described.Digest {
			return err == nil, err
		}
	}
	if force {
		return false, nil
	}
	return false, coded(exitConflict, "%s is there with other content: give another place with --to, or --force to replace it", target)
}

// copyReplica reads one copy. A folder becomes a place to read file:// copies
// from because the catalogue names it: the queue has checked that it is a
// site's storage, and who runs this tool can read nothing more by it.
func copyReplica(ctx context.Context, client *storage.Client, rawURL string, into io.Writer) error {
	parsed, err := url.Parse(rawURL)
	if err != nil {
		return err
	}
	if parsed.Scheme == "file" {
		if _, err := client.Element(storage.FileURL(path.Dir(parsed.Path))); err != nil {
			return err
		}
	}
	content, _, err := client.OpenReplica(ctx, rawURL, 0)
	if err != nil {
		return err
	}
	_, err = io.Copy(into, content)
	return errors.Join(err, content.Close())
}

// copyCached reads a file that a pilot's cache has, through the queue.
func copyCached(ctx context.Context, c *clients, name task.LFN, into io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := c.files.FetchFile(ctx, &pb.FetchFileRequest{Lfn: string(name)})
	for err == nil {
		var part *pb.FetchFileResponse
		if part, err = stream.Recv(); err == nil {
			_, err = into.Write(part.GetData())
		}
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return errors.New(explain(err))
}

// fetchFrom writes a copy to its target, whole or not at all.
func fetchFrom(file task.File, from string, copyTo func(io.Writer) error, target string) error {
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		return err
	}
	partial, err := os.CreateTemp(filepath.Dir(target), ".pilotage-*")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(partial.Name()) }()
	sums := newSums()
	err = copyTo(io.MultiWriter(partial, sums))
	if err = errors.Join(err, partial.Close()); err != nil {
		return err
	}
	if sums.differ(file.Digest, file.Adler32) {
		return fmt.Errorf("%s has other bytes than the catalogue says", from)
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
