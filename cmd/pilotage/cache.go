package main

import (
	"errors"
	"io/fs"

	"github.com/spf13/cobra"

	"github.com/pilotage-grid/pilotage/cache/disk"
	"github.com/pilotage-grid/pilotage/task"
)

func newCache(a *app) *cobra.Command {
	command := &cobra.Command{Use: "cache", Short: "Look after a pilot's cache folder"}
	command.AddCommand(newCacheVerify(a))
	return command
}

// cachedFile is a line of cache verify for programs.
type cachedFile struct {
	Path    string     `json:"path"`
	Bytes   task.Bytes `json:"bytes"`
	Outputs int        `json:"outputs"` // that no storage element has
	OK      bool       `json:"ok"`
	Damage  string     `json:"damage"`
}

func newCacheVerify(a *app) *cobra.Command {
	var every bool
	command := &cobra.Command{
		Use:   "verify FOLDER",
		Short: "Compare all files in a pilot's folder with their digests",
		Long: `Reads every file in the cache of a pilot that does not run, compares it with its
digest, and lists what is damaged. Nothing is changed: the next pilot with this
--cache removes what is damaged before a payload gets it.

A running pilot does the same by itself: it compares a file at its first use,
again after a day, and all files slowly in the background. How many were damaged
is in site show and in the queue's metrics.

Exit codes: 0 all files are whole, 6 files are damaged, 5 there is no cache, 8 a
pilot runs on the folder.`,
		Args: asUsed,
		RunE: func(c *cobra.Command, args []string) error {
			found, err := disk.Examine(c.Context(), args[0])
			switch {
			case errors.Is(err, fs.ErrNotExist):
				return coded(exitNotFound, "%s is no pilot's folder: give what its --cache names (%w)", args[0], err)
			case errors.Is(err, disk.ErrInUse):
				return coded(exitConflict, "a pilot runs on %s: it verifies its files by itself", args[0])
			case err != nil:
				return err
			}
			return a.out.printExamined(found, every)
		},
	}
	command.Flags().BoolVar(&every, "all", false, "list files that are whole, too")
	return command
}

func (o *console) printExamined(found []disk.Examined, every bool) error {
	listed, rows := []cachedFile{}, [][]string{}
	damaged := 0
	for _, f := range found {
		one := cachedFile{Path: f.Path, Bytes: f.Size, Outputs: f.Outputs, OK: f.Damage == "", Damage: f.Damage}
		verdict := "ok"
		if !one.OK {
			verdict = "DAMAGED"
			damaged++
		}
		if one.OK && !every {
			continue
		}
		listed = append(listed, one)
		rows = append(rows, []string{verdict, f.Size.String(), orDash(f.Damage), f.Path})
	}
	if len(rows) > 0 || o.output != "table" {
		if err := o.print(listed, []string{"RESULT", "SIZE", "DAMAGE", "FILE"}, rows); err != nil {
			return err
		}
	}
	o.say("%s of %s damaged\n", task.Counted(damaged, "file"), task.Counted(len(found), "file"))
	if damaged > 0 {
		return &silentError{exitFailed}
	}
	return nil
}
