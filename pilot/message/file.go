package message

import (
	"github.com/pilotage-grid/pilotage/matcher"
	"github.com/pilotage-grid/pilotage/task"
)

// Output is something that an attempt has made, in a pilot's cache.
type Output struct {
	Attempt task.AttemptID
	task.Produced
}

// File describes the output as its site knows it.
func (o Output) File(site task.Site) task.File {
	file := task.File{
		LFN: o.LFN, Size: o.Size, Digest: o.Digest, Exec: o.Exec,
		Producer: o.Attempt, Announced: []task.Site{site},
	}
	if o.URL != "" {
		file.Replicas = []task.Replica{{Site: site, URL: o.URL}}
	}
	return file
}

// ID names the output.
func (o Output) ID() task.OutputID { return task.OutputID{Attempt: o.Attempt, LFN: o.LFN} }

// ListFiles describes inputs for ranking: by digest where the file came from
// outside, by name where a task makes it, so that a task can be ranked before
// its inputs exist.
func ListFiles(files []task.File) []matcher.FileInfo {
	infos := make([]matcher.FileInfo, len(files))
	for i, file := range files {
		infos[i] = matcher.FileInfo{Key: ListKey(file), LFN: file.LFN, Size: file.Size, Source: task.SourceSE}
		if !file.Producer.IsZero() || len(file.Announced) > 0 {
			infos[i].Source = task.SourcePeer
		}
	}
	return infos
}

// ListKey is the key by which the task list knows a file.
func ListKey(file task.File) task.FileKey {
	if file.Producer.IsZero() && !file.Digest.IsZero() {
		return file.Key()
	}
	return task.KeyOf(file.LFN, task.Digest{})
}
