package workflow

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/pilotage-grid/pilotage/task"
)

// validName checks a file name that a workflow uses: a bare one or, where it
// only reads, "vo:" and the name of a shared file.
func validName(name string, reads bool) error {
	bare, shared := strings.CutPrefix(name, task.SharedPrefix)
	if err := task.ValidateLFN(bare); err != nil {
		return err
	}
	if shared && !reads {
		return fmt.Errorf("file name %q: names with %q belong to shared files, which a workflow only reads", name, task.SharedPrefix)
	}
	if owner, _, qualified := strings.Cut(bare, ":"); qualified {
		if _, err := task.ParseWorkflowID(owner); err == nil {
			return fmt.Errorf("file name %q begins with the id of a workflow: use files of this workflow, or shared ones", name)
		}
	}
	return nil
}

// externalFiles expands and checks the files section.
func (e *expansion) externalFiles() {
	e.external = make(map[string]Position)
	c := &compiler{faults: e.faults, limits: e.limits}
	for _, entry := range e.file.Files.Entries {
		where := "file " + shorten(entry.Key.Value)
		names, ok := c.inStep(where, entry.Key, uint64(len(e.plan.Files)), nil)
		if !ok {
			continue
		}
		files := make([]ExternalFile, len(names))
		for i, name := range names {
			if err := validName(name, false); err != nil {
				e.faults.add(entry.Key.At, "", "files: %v", err)
				ok = false
				break
			}
			if first, double := e.external[name]; double {
				e.faults.add(entry.Key.At, "remove one of the two", "%s: %q is already listed%s", where, name, atLine(first))
				ok = false
				break
			}
			e.external[name] = entry.Key.At
			files[i] = ExternalFile{Name: name, Size: -1, Exec: entry.Value.Executable.Value}
		}
		if ok && e.locate(c, where, entry, files) && e.checksums(where, entry, files) {
			e.plan.Files = append(e.plan.Files, files...)
		}
	}
}

// inStep expands a text that must give as many values as names, or, where
// names is nil, at most as many as the workflow may still have files.
func (c *compiler) inStep(where string, text Text, taken uint64, names []ExternalFile) ([]string, bool) {
	p, ok := c.pattern(where, text, nil, inNames)
	if !ok {
		return nil, false
	}
	count := p.count()
	if names != nil && count != uint64(len(names)) {
		c.faults.add(text.At, "write the same range on both sides", "%s: %q gives %d of them for %d files", where, shorten(text.Value), count, len(names))
		return nil, false
	}
	if count > c.limits.tasks-min(taken, c.limits.tasks) || multiply(count, p.longest(nil)) > c.limits.text {
		c.faults.add(text.At, "pack files together", "%s: brings the list to more than %d files or %s of text",
			where, c.limits.tasks, task.Bytes(c.limits.text))
		return nil, false
	}
	return p.expand(nil), true
}

// locate fills in where files come from.
func (e *expansion) locate(c *compiler, where string, entry Entry[Source], files []ExternalFile) bool {
	source, at := entry.Value.Source, entry.Value.At
	if (source.Value != "") == (len(at.Entries) > 0) {
		e.faults.add(entry.Key.At, "write source: PATH for a file to upload, or at: {SITE: URL} for one that is already there",
			"%s needs exactly one of source and at", where)
		return false
	}
	if source.Value != "" {
		paths, ok := c.inStep(where+": source", source, 0, files)
		for i, path := range paths {
			if strings.ContainsFunc(path, func(r rune) bool { return r < ' ' || r == 0x7f }) {
				e.faults.add(source.At, "rename the file", "%s: source %q holds a control character", where, shorten(path))
				return false
			}
			if !filepath.IsAbs(path) {
				path = filepath.Join(e.opts.Dir, path)
			}
			files[i].Source = path
		}
		return ok
	}
	for _, copies := range at.Entries {
		site, err := task.ParseSite(copies.Key.Value)
		if err != nil {
			e.faults.add(copies.Key.At, "", "%s: at: %v", where, err)
			return false
		}
		urls, ok := c.inStep(where+": at "+string(site), copies.Value, 0, files)
		if !ok {
			return false
		}
		for i, text := range urls {
			if _, err := task.ParseStorageURL(text); err != nil {
				e.faults.add(copies.Value.At, "", "%s: at %s: %v", where, site, err)
				return false
			}
			if files[i].At == nil {
				files[i].At = make(map[task.Site]string, len(at.Entries))
			}
			files[i].At[site] = text
		}
	}
	return true
}

// checksums fills in what is known about the content of a file.
func (e *expansion) checksums(where string, entry Entry[Source], files []ExternalFile) bool {
	s := entry.Value
	if len(files) > 1 && (s.Size.Set || s.Adler32.Set || s.Digest.Set) {
		e.faults.add(entry.Key.At, "list the files one by one to give sizes and checksums", "%s: size, adler32 and digest describe one file, not %d", where, len(files))
		return false
	}
	if len(files) == 0 {
		return true
	}
	if s.Size.Set {
		files[0].Size = s.Size.Value
	}
	files[0].Adler32 = strings.ToLower(s.Adler32.Value)
	if s.Digest.Set {
		digest, err := task.ParseDigest(s.Digest.Value)
		if err != nil {
			e.faults.add(s.Digest.At, "", "%s: %v", where, err)
			return false
		}
		files[0].Digest = digest
	}
	return true
}
