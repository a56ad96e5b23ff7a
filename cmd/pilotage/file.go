package main

import (
	"cmp"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	pb "github.com/pilotage-grid/pilotage/proto/pilotage/v1"
	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/task/workflow"
)

func (a fileCommands) group() *cobra.Command {
	command := &cobra.Command{Use: "file", Short: "Put, get, register, list, locate and remove files"}
	command.AddCommand(a.put(), a.get(), a.register(), a.list(), a.locate(), a.remove())
	return command
}

func (a fileCommands) put() *cobra.Command {
	var sites []string
	var name, group string
	var sources []workflow.ExternalFile
	command := a.tool("put PATH [PATH ...]", "Upload files and register them for every workflow as vo:NAME", func(ctx context.Context, c *clients, _ []string) error {
		files, err := a.uploadSources(ctx, c, sources, sites)
		if err != nil {
			return err
		}
		return a.registerFiles(ctx, c, files, group)
	})
	command.PreRunE = func(_ *cobra.Command, args []string) error {
		if name != "" && len(args) > 1 {
			return coded(exitUsage, "--name goes with one file, not %d", len(args))
		}
		for _, arg := range args {
			source := workflow.ExternalFile{Name: cmp.Or(name, filepath.Base(arg)), Source: arg, Size: -1}
			if err := task.ValidateLFN(source.Name); err != nil {
				return usage(err)
			}
			sources = append(sources, source)
		}
		return nil
	}
	command.Flags().StringSliceVar(&sites, "site", nil, "upload to these sites only (default: all that are not drained)")
	groupFlag(command, &group)
	command.Flags().StringVar(&name, "name", "", "name without vo: (default: the path's last part)")
	return command
}

func groupFlag(command *cobra.Command, group *string) {
	command.Flags().StringVar(group, "group", "", "group of yours whose members may add copies of the file and remove it, too")
}

func (a fileCommands) registerFiles(ctx context.Context, c *clients, files []*pb.File, group string) error {
	if _, err := c.files.RegisterFiles(ctx, &pb.RegisterFilesRequest{Files: files, Group: group}); err != nil {
		return err
	}
	return printList(a.out, files, []string{"FILE", "SIZE", "REPLICAS"}, func(f *pb.File) []any {
		name := f.GetLfn()
		if !strings.Contains(name, ":") {
			name = task.SharedPrefix + name
		}
		return []any{name, sizeText(f.GetSizeBytes()), len(f.GetReplicas())}
	})
}

func (a fileCommands) register() *cobra.Command {
	file := &pb.File{SizeBytes: -1}
	var at []string
	var size, group string
	command := a.tool("register NAME --at SITE=URL", "Register a file that is on a storage element already, as vo:NAME", func(ctx context.Context, c *clients, args []string) error {
		file.Lfn = args[0]
		return a.registerFiles(ctx, c, []*pb.File{file}, group)
	})
	command.Long = `Registers a file that is on a storage element already, for every workflow as
vo:NAME. A file that is known, also one of a workflow (WORKFLOW:NAME, as pilotage
file list prints it), gets a further copy, if it is yours, your group's, or you are
an admin.`
	command.Example = `  pilotage file register geometry.db --at siteA=https://se.site-a.example/pilotage/geometry.db --size 5MiB
  pilotage file register w-rxujdy4egq:out.txt --at siteB=https://se.site-b.example/old/out.txt`
	command.PreRunE = func(*cobra.Command, []string) error {
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
		if len(at) == 0 {
			return coded(exitUsage, "say where the file is: --at SITE=URL")
		}
		return nil
	}
	command.Flags().StringArrayVar(&at, "at", nil, "SITE=URL of a copy (repeatable)")
	groupFlag(command, &group)
	command.Flags().StringVar(&size, "size", "", "size, e.g. 1234 or 5MiB")
	command.Flags().StringVar(&file.Adler32, "adler32", "", "8 hex digits, checked when the file is first read")
	return command
}

func (a fileCommands) get() *cobra.Command {
	var into string
	var force bool
	command := a.tool("get LFN", "Fetch a file from a storage element", func(ctx context.Context, c *clients, args []string) error {
		located, err := c.files.LocateFile(ctx, &pb.LocateFileRequest{Lfn: args[0]})
		if err != nil {
			return err
		}
		file := located.GetFile()
		target := cmp.Or(into, filepath.Base(task.LFN(file.GetLfn()).Local()))
		if info, err := os.Stat(filepath.Dir(target)); err != nil || !info.IsDir() {
			return coded(exitUsage, "--to %s: %s is no folder: make it first", target, filepath.Dir(target))
		}
		there, err := mayWrite(target, file, force)
		if err == nil && !there {
			err = a.fetchFile(ctx, c, file, target)
		}
		return a.out.done(err, map[string]any{"lfn": file.GetLfn(), "file": target, "size_bytes": file.GetSizeBytes()}, "%s written to %s", file.GetLfn(), target)
	})
	command.Flags().StringVar(&into, "to", "", "where to write it (default: its name in this folder)")
	command.Flags().BoolVar(&force, "force", false, "replace a file that is there with other content")
	return command
}

var fileHeader = []string{"FILE", "SIZE", "REPLICAS", "SITES CACHING"}

func fileRow(f *pb.File) []any {
	return []any{f.GetLfn(), sizeText(f.GetSizeBytes()), len(f.GetReplicas()), len(f.GetAnnounced())}
}

func (a fileCommands) list() *cobra.Command {
	request := &pb.ListFilesRequest{}
	var onlyAt string
	command := a.tool("list", "List files of the catalogue", func(ctx context.Context, c *clients, _ []string) error {
		files, err := everyPage(ctx, c.files.ListFiles, request, (*pb.ListFilesResponse).GetFiles)
		if err != nil {
			return err
		}
		if onlyAt != "" {
			files = slices.DeleteFunc(files, func(f *pb.File) bool { return !storedOnlyAt(f, onlyAt) })
		}
		return printList(a.out, files, fileHeader, fileRow)
	})
	command.Example = `  pilotage file list --prefix vo:
  pilotage file list --only-at siteA       # what is lost with the storage element of siteA`
	command.Flags().StringVar(&request.Prefix, "prefix", "", "only names that begin so, e.g. vo: or w-abcdefghij:")
	command.Flags().StringVar(&onlyAt, "only-at", "", "only files whose copies on storage elements are all at this site")
	a.completeFlag(command, "only-at", siteNames)
	return command
}

func storedOnlyAt(f *pb.File, site string) bool {
	elsewhere := func(r *pb.Replica) bool { return r.GetSite() != site }
	return len(f.GetReplicas()) > 0 && !slices.ContainsFunc(f.GetReplicas(), elsewhere)
}

func (a fileCommands) remove() *cobra.Command {
	request := &pb.RemoveFileRequest{}
	command := a.tool("remove LFN", "Remove a file from the catalogue, with the copies that tasks have stored", func(ctx context.Context, c *clients, args []string) error {
		request.Lfn = args[0]
		reply, err := c.files.RemoveFile(ctx, request)
		if err != nil {
			return err
		}
		verb := "goes"
		if request.DryRun {
			verb = "would go"
		}
		return a.out.done(nil, reply, "%s %s: %s", args[0], verb, removed(reply.GetRemoval()))
	})
	command.Long = `Removes a file from the catalogue. Copies that tasks have stored are deleted from the
storage elements unless another file names them; caches drop theirs. What was uploaded
or registered stays where it is. A file that a task reads which has not ended, or whose
workflow is not over, is not removed. Only who registered a file, the group that it was
registered with, and admins remove it. An output of a workflow that is over stays in the
catalogue as one that can be made again.`
	command.Flags().BoolVar(&request.DryRun, "dry-run", false, "say what would go, remove nothing")
	return command
}

func (a fileCommands) locate() *cobra.Command {
	return a.tool("locate LFN", "Show where a file is", func(ctx context.Context, c *clients, args []string) error {
		located, err := c.files.LocateFile(ctx, &pb.LocateFileRequest{Lfn: args[0]})
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
		return a.out.print(located, []string{"SITE", "WHERE", "URL"}, rows)
	})
}
