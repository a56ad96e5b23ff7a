package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	pb "github.com/pilotage-grid/pilotage/proto/pilotage/v1"
	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/task/workflow"
)

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
		Args: asUsed,
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
	command.Flags().StringSliceVar(&sites, "site", nil, "upload to these sites only (default: all that are not drained)")
	completeFlag(a, command, "site", siteNames)
	command.Flags().StringVar(&name, "name", "", "name without vo: (default: the path's last part)")
	return command
}

func (a *app) registerFiles(ctx context.Context, c *clients, files []*pb.File) error {
	if _, err := c.files.RegisterFiles(ctx, &pb.RegisterFilesRequest{Files: files}); err != nil {
		return err
	}
	rows := make([][]string, len(files))
	for i, f := range files {
		name := f.GetLfn()
		if !strings.Contains(name, ":") {
			name = task.SharedPrefix + name
		}
		rows[i] = []string{name, sizeText(f.GetSizeBytes()), fmt.Sprint(len(f.GetReplicas()))}
	}
	return a.print(files, []string{"FILE", "SIZE", "REPLICAS"}, rows)
}

func newFileRegister(a *app) *cobra.Command {
	var at []string
	var size, adler string
	command := &cobra.Command{
		Use: "register NAME --at SITE=URL", Short: "Register a file that is on a storage element already, as vo:NAME",
		Long: `Registers a file that is on a storage element already, for every workflow as
vo:NAME. A file that is known, also one of a workflow (WORKFLOW:NAME, as pilotage
file list prints it), gets a further copy.`,
		Example: `  pilotage file register geometry.db --at siteA=https://se.site-a.example/pilotage/geometry.db --size 5MiB
  pilotage file register w-rxujdy4egq:out.txt --at siteB=https://se.site-b.example/old/out.txt`,
		Args: asUsed,
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
	var force bool
	command := &cobra.Command{
		Use: "get LFN", Short: "Fetch a file from a storage element", Args: asUsed,
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
				if info, err := os.Stat(filepath.Dir(target)); err != nil || !info.IsDir() {
					return coded(exitUsage, "--to %s: %s is no folder: make it first", target, filepath.Dir(target))
				}
				there, err := mayWrite(target, located.GetFile(), force)
				if err != nil {
					return err
				}
				if !there {
					if err := a.fetchFile(c.Context(), cl, located.GetFile(), target); err != nil {
						return err
					}
				}
				return a.done(map[string]any{"lfn": located.GetFile().GetLfn(), "file": target, "size_bytes": located.GetFile().GetSizeBytes()}, "%s written to %s", located.GetFile().GetLfn(), target)
			})
		},
	}
	command.Flags().StringVar(&into, "to", "", "where to write it (default: its name in this folder)")
	command.Flags().BoolVar(&force, "force", false, "replace a file that is there with other content")
	return command
}

func newFileList(a *app) *cobra.Command {
	var prefix, onlyAt string
	command := &cobra.Command{
		Use: "list", Short: "List files of the catalogue", Args: asUsed,
		Example: `  pilotage file list --prefix vo:
  pilotage file list --only-at siteA       # what is lost with the storage element of siteA`,
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
				if onlyAt != "" {
					files = slices.DeleteFunc(files, func(f *pb.File) bool { return !storedOnlyAt(f, onlyAt) })
				}
				rows := make([][]string, len(files))
				for i, f := range files {
					rows[i] = []string{f.GetLfn(), sizeText(f.GetSizeBytes()), fmt.Sprint(len(f.GetReplicas())), fmt.Sprint(len(f.GetAnnounced()))}
				}
				return a.print(files, []string{"FILE", "SIZE", "REPLICAS", "SITES CACHING"}, rows)
			})
		},
	}
	command.Flags().StringVar(&prefix, "prefix", "", "only names that begin so, e.g. vo: or w-abcdefghij:")
	command.Flags().StringVar(&onlyAt, "only-at", "", "only files whose copies on storage elements are all at this site")
	completeFlag(a, command, "only-at", siteNames)
	return command
}

func storedOnlyAt(f *pb.File, site string) bool {
	elsewhere := func(r *pb.Replica) bool { return r.GetSite() != site }
	return len(f.GetReplicas()) > 0 && !slices.ContainsFunc(f.GetReplicas(), elsewhere)
}

func newFileLocate(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "locate LFN", Short: "Show where a file is", Args: asUsed,
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
