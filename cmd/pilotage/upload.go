package main

import (
	"context"
	"errors"
	"fmt"
	"hash/adler32"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
	"github.com/zeebo/blake3"

	"github.com/pilotage-grid/pilotage/cache/storage"
	pb "github.com/pilotage-grid/pilotage/proto/pilotage/v1"
	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/task/taskpb"
	"github.com/pilotage-grid/pilotage/task/workflow"
)

// uploadSources puts local files to the storage elements and describes them.
// A file's place on a storage element is named by its content, so the same
// bytes are put once.
func (a *app) uploadSources(ctx context.Context, c *clients, sources []workflow.ExternalFile, sites []string) ([]*pb.File, error) {
	plan, err := c.files.PlanUpload(ctx, &pb.PlanUploadRequest{Sites: sites})
	if err != nil {
		return nil, err
	}
	if len(plan.GetTargets()) == 0 {
		return nil, coded(exitConflict, "no site has a storage element to upload to: add one with `pilotage site add NAME --se URL`")
	}
	progress := a.progress()
	bar := progress.AddBar(int64(len(sources)*len(plan.GetTargets())),
		mpb.PrependDecorators(decor.Name("upload ")), mpb.AppendDecorators(decor.CountersNoUnit("%d / %d")))
	client := storage.NewClient(storage.Options{})
	defer client.Close()
	files := make([]*pb.File, 0, len(sources))
	for _, source := range sources {
		file, err := putEverywhere(ctx, client, source, plan.GetTargets(), bar.Increment)
		if err != nil {
			bar.Abort(false)
			progress.Wait()
			return nil, err
		}
		files = append(files, taskpb.File(file))
	}
	progress.Wait()
	return files, nil
}

// progress shows bars on a terminal and nothing elsewhere.
func (a *app) progress() *mpb.Progress {
	if a.output == "table" && isTerminal(a.stderr) {
		return mpb.New(mpb.WithOutput(a.stderr), mpb.WithWidth(40))
	}
	return mpb.New(mpb.WithOutput(nil))
}

func putEverywhere(ctx context.Context, client *storage.Client, source workflow.ExternalFile, targets []*pb.UploadTarget, done func()) (task.File, error) {
	content, err := os.Open(source.Source)
	if err != nil {
		return task.File{}, usage(fmt.Errorf("file %s: %w", source.Name, err))
	}
	defer func() { _ = content.Close() }()
	file, err := describe(content, source)
	if err != nil {
		return file, usage(err)
	}
	name := path.Join("files", file.Digest.String()[:2], file.Digest.String())
	for _, target := range targets {
		element, err := client.Element(target.GetStorageUrl())
		if err != nil {
			return file, fmt.Errorf("storage element of %s: %w", target.GetSite(), err)
		}
		url, err := putOnce(ctx, element, name, file, content)
		if err != nil {
			return file, coded(exitUnreachable, "upload %s to %s: %w", source.Name, target.GetSite(), err)
		}
		file.Replicas = append(file.Replicas, task.Replica{Site: task.Site(target.GetSite()), URL: url})
		done()
	}
	return file, nil
}

// putOnce uploads unless the same bytes are there already.
func putOnce(ctx context.Context, element storage.Element, name string, file task.File, content io.ReadSeeker) (string, error) {
	info, err := element.Head(ctx, name)
	if err == nil && info.Size == int64(file.Size) {
		return info.URL, nil
	}
	if err != nil && !errors.Is(err, storage.ErrNotFound) {
		return "", err
	}
	if _, err := content.Seek(0, io.SeekStart); err != nil {
		return "", err
	}
	return element.Put(ctx, name, int64(file.Size), content)
}

// describe computes a file's identity.
func describe(content *os.File, source workflow.ExternalFile) (task.File, error) {
	info, err := content.Stat()
	if err != nil {
		return task.File{}, err
	}
	if !info.Mode().IsRegular() {
		return task.File{}, fmt.Errorf("%s is not a regular file", source.Source)
	}
	digest, checksum := blake3.New(), adler32.New()
	size, err := io.Copy(io.MultiWriter(digest, checksum), content)
	if err != nil {
		return task.File{}, fmt.Errorf("read %s: %w", source.Source, err)
	}
	file := task.File{
		LFN: task.LFN(source.Name), Size: task.Bytes(size), Exec: source.Exec || info.Mode()&0o111 != 0,
		Adler32: fmt.Sprintf("%08x", checksum.Sum32()),
	}
	copy(file.Digest[:], digest.Sum(nil))
	if !source.Digest.IsZero() && source.Digest != file.Digest || source.Adler32 != "" && source.Adler32 != file.Adler32 {
		return file, fmt.Errorf("%s is not the file that the workflow describes: its checksum is %s", source.Source, file.Adler32)
	}
	return file, nil
}

func newFile(a *app) *cobra.Command {
	command := &cobra.Command{Use: "file", Short: "Put, get, register, list and locate files"}
	command.AddCommand(newFilePut(a), newFileGet(a), newFileRegister(a), newFileList(a), newFileLocate(a))
	return command
}

func newFilePut(a *app) *cobra.Command {
	var sites []string
	var name string
	command := &cobra.Command{
		Use: "put PATH [PATH ...]", Short: "Upload files and register them for every workflow as vo:NAME",
		Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if name != "" && len(args) > 1 {
				return coded(exitUsage, "--name goes with one file, not %d", len(args))
			}
			sources := make([]workflow.ExternalFile, len(args))
			for i, arg := range args {
				sources[i] = workflow.ExternalFile{Name: filepath.Base(arg), Source: arg, Size: -1}
				if name != "" {
					sources[i].Name = name
				}
				if err := task.ValidateLFN(sources[i].Name); err != nil {
					return usage(err)
				}
			}
			return a.withQueue(func(cl *clients) error {
				files, err := a.uploadSources(c.Context(), cl, sources, sites)
				if err != nil {
					return err
				}
				return a.registerFiles(c.Context(), cl, files)
			})
		},
	}
	command.Flags().StringSliceVar(&sites, "site", nil, "upload to these sites only (default: all)")
	command.Flags().StringVar(&name, "name", "", "name without vo: (default: the path's last part)")
	return command
}

func (a *app) registerFiles(ctx context.Context, c *clients, files []*pb.File) error {
	if _, err := c.files.RegisterFiles(ctx, &pb.RegisterFilesRequest{Files: files}); err != nil {
		return err
	}
	rows := make([][]string, len(files))
	for i, f := range files {
		rows[i] = []string{task.SharedPrefix + f.GetLfn(), task.Bytes(f.GetSizeBytes()).String(), fmt.Sprint(len(f.GetReplicas()))}
	}
	return a.print(files, []string{"FILE", "SIZE", "REPLICAS"}, rows)
}

func newFileRegister(a *app) *cobra.Command {
	var at []string
	var size, adler string
	command := &cobra.Command{
		Use: "register NAME --at SITE=URL", Short: "Register a file that is on a storage element already, as vo:NAME",
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			file := &pb.File{Lfn: args[0], SizeBytes: -1, Adler32: adler}
			if size != "" {
				parsed, err := task.ParseBytes(size)
				if err != nil {
					return usage(err)
				}
				file.SizeBytes = int64(parsed)
			}
			for _, place := range at {
				site, url, found := strings.Cut(place, "=")
				if !found {
					return coded(exitUsage, "--at %q: write SITE=URL", place)
				}
				file.Replicas = append(file.Replicas, &pb.Replica{Site: site, Url: url})
			}
			if len(file.GetReplicas()) == 0 {
				return coded(exitUsage, "say where the file is: --at SITE=URL")
			}
			return a.withQueue(func(cl *clients) error { return a.registerFiles(c.Context(), cl, []*pb.File{file}) })
		},
	}
	command.Flags().StringArrayVar(&at, "at", nil, "SITE=URL of a copy (repeatable)")
	command.Flags().StringVar(&size, "size", "", "size, e.g. 1234 or 5MiB")
	command.Flags().StringVar(&adler, "adler32", "", "8 hex digits, checked when the file is first read")
	return command
}

func newFileGet(a *app) *cobra.Command {
	var into string
	command := &cobra.Command{
		Use: "get LFN", Short: "Fetch a file from a storage element", Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return a.withQueue(func(cl *clients) error {
				located, err := cl.files.LocateFile(c.Context(), &pb.LocateFileRequest{Lfn: args[0]})
				if err != nil {
					return err
				}
				target := into
				if target == "" {
					target = filepath.Base(task.LFN(located.GetFile().GetLfn()).Local())
				}
				return a.fetchFile(c.Context(), located.GetFile(), target)
			})
		},
	}
	command.Flags().StringVar(&into, "to", "", "where to write it (default: its name in this folder)")
	return command
}

// fetchFile reads a file from the first replica that gives the right bytes.
func (a *app) fetchFile(ctx context.Context, file *pb.File, target string) error {
	described, err := taskpb.FromFile(file)
	if err != nil {
		return err
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
		failures = append(failures, fmt.Errorf("from %s: %w", replica.Site, err))
	}
	return coded(exitUnreachable, "fetch %s: %w", described.LFN.Local(), errors.Join(failures...))
}

func fetchReplica(ctx context.Context, client *storage.Client, file task.File, url, target string) error {
	if _, err := client.Element(path.Dir(url)); err != nil {
		return err
	}
	content, _, err := client.OpenReplica(ctx, url, 0)
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
	digest := blake3.New()
	_, err = io.Copy(io.MultiWriter(partial, digest), content)
	if closeErr := partial.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return err
	}
	var got task.Digest
	copy(got[:], digest.Sum(nil))
	if !file.Digest.IsZero() && got != file.Digest {
		return fmt.Errorf("%s has other bytes than the catalogue says", url)
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

func newFileList(a *app) *cobra.Command {
	var prefix string
	command := &cobra.Command{
		Use: "list", Short: "List files of the catalogue", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return a.withQueue(func(cl *clients) error {
				var files []*pb.File
				err := pages(func(token string) (string, error) {
					reply, err := cl.files.ListFiles(c.Context(), &pb.ListFilesRequest{Prefix: prefix, PageSize: pageSize, PageToken: token})
					files = append(files, reply.GetFiles()...)
					return reply.GetNextPageToken(), err
				})
				if err != nil {
					return err
				}
				rows := make([][]string, len(files))
				for i, f := range files {
					rows[i] = []string{f.GetLfn(), task.Bytes(f.GetSizeBytes()).String(), fmt.Sprint(len(f.GetReplicas())), fmt.Sprint(len(f.GetAnnounced()))}
				}
				return a.print(files, []string{"FILE", "SIZE", "REPLICAS", "SITES CACHING"}, rows)
			})
		},
	}
	command.Flags().StringVar(&prefix, "prefix", "", "only names that begin so, e.g. vo: or w-abcdefghij:")
	return command
}

func newFileLocate(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "locate LFN", Short: "Show where a file is", Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return a.withQueue(func(cl *clients) error {
				located, err := cl.files.LocateFile(c.Context(), &pb.LocateFileRequest{Lfn: args[0]})
				if err != nil {
					return err
				}
				var rows [][]string
				for _, r := range located.GetFile().GetReplicas() {
					rows = append(rows, []string{r.GetSite(), "storage element", r.GetUrl()})
				}
				for _, site := range located.GetFile().GetAnnounced() {
					rows = append(rows, []string{site, "pilots' caches", "-"})
				}
				return a.print(located, []string{"SITE", "WHERE", "URL"}, rows)
			})
		},
	}
}
