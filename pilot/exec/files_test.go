package exec

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/pilotage-grid/pilotage/task"
)

func outputs(names ...string) []task.Output {
	var list []task.Output
	for _, name := range names {
		list = append(list, task.Output{LFN: task.LFN("w-abcdefghij:lfn/" + name), Name: name})
	}
	return list
}

func TestOutputsAreCollectedByName(t *testing.T) {
	s := newStand(t, nil)
	spec := s.shell(`mkdir -p a/b; printf 12345 > a/b/c.txt; printf '#!/bin/sh\n' > tool; chmod 755 tool
		: > empty; chmod 000 empty; echo extra > not-declared`)
	spec.Task.Outputs = outputs("a/b/c.txt", "tool", "empty")
	result := s.runOK(spec)
	want := []Collected{
		{LFN: "w-abcdefghij:lfn/a/b/c.txt", Name: "a/b/c.txt", Size: 5},
		{LFN: "w-abcdefghij:lfn/tool", Name: "tool", Size: 10, Exec: true},
		{LFN: "w-abcdefghij:lfn/empty", Name: "empty"},
	}
	if !slices.Equal(result.Outputs, want) {
		t.Errorf("outputs\n%+v\nwant\n%+v", result.Outputs, want)
	}
	for _, output := range result.Outputs {
		if content, err := os.ReadFile(filepath.Join(result.Folder, output.Name)); err != nil || task.Bytes(len(content)) != output.Size {
			t.Errorf("%s: %d bytes, %v", output.Name, len(content), err)
		}
	}
}

func TestUnfitOutputsAreNamed(t *testing.T) {
	s := newStand(t, nil)
	for name, c := range map[string]struct {
		script string
		output string
		words  []string
	}{
		"missing":           {"true", "out", []string{"out", "missing"}},
		"missing sub":       {"true", "a/out", []string{"a/out", "missing"}},
		"folder":            {"mkdir out", "out", []string{"out", "a folder"}},
		"pipe":              {"mkfifo out", "out", []string{"out", "a named pipe"}},
		"link":              {"echo x > y; ln -s y out", "out", []string{"out", "a symbolic link"}},
		"link to secret":    {"ln -s /etc/passwd out", "out", []string{"out", "a symbolic link"}},
		"dangling link":     {"ln -s nowhere out", "out", []string{"out", "a symbolic link"}},
		"folder escapes":    {"ln -s /etc a", "a/passwd", []string{"a/passwd", "escapes"}},
		"folder escapes up": {"ln -s .. a", "a/x", []string{"a/x", "escapes"}},
		"folder is a file":  {"echo > a", "a/x", []string{"a/x"}},
	} {
		t.Run(name, func(t *testing.T) {
			spec := s.shell(c.script)
			spec.Task.Outputs = outputs(c.output)
			if result := s.runBad(spec, c.words...); len(result.Outputs) != 0 || result.ExitCode != 0 {
				t.Errorf("outputs %v, exit code %d", result.Outputs, result.ExitCode)
			}
		})
	}
}

func trusted(c *Config) { c.TrustPayloads = true }

func TestInputsOfTrustedPayloadsAreLinkedReadOnly(t *testing.T) {
	s := newStand(t, trusted)
	linked := s.cached("linked", "one\n", 0o444)
	loose := s.cached("loose", "two\n", 0o644)
	tool := s.cached("tool", "#!/bin/sh\necho ran\n", 0o444)
	spec := s.shell("cat d/linked loose && ./tool && stat -c %a d/linked loose tool")
	spec.Inputs = []StagedInput{
		{Name: "d/linked", Path: linked}, {Name: "loose", Path: loose}, {Name: "tool", Path: tool, Exec: true},
	}
	result := s.runOK(spec)
	if want := "one\ntwo\nran\n444\n444\n555\n"; string(result.Stdout) != want {
		t.Errorf("stdout %q, want %q", result.Stdout, want)
	}
	for name, wantLinks := range map[string]uint64{linked: 2, loose: 1, tool: 1} {
		var status unix.Stat_t
		if err := unix.Stat(name, &status); err != nil || uint64(status.Nlink) != wantLinks {
			t.Errorf("%s has %d names, want %d (%v)", filepath.Base(name), status.Nlink, wantLinks, err)
		}
	}
}

func TestInputsOfAnotherFileSystemAreCopied(t *testing.T) {
	s := newStand(t, nil)
	far, err := os.CreateTemp("/dev/shm", "exec-test-*")
	if err != nil {
		t.Fatal(err)
	}
	defer os.Remove(far.Name())
	if _, err := far.WriteString("far\n"); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(far.Chmod(0o444), far.Close()); err != nil {
		t.Fatal(err)
	}
	spec := s.shell("cat in; stat -c %a in; chmod u+w in; echo more >> in")
	spec.Inputs = []StagedInput{{Name: "in", Path: far.Name()}}
	if result := s.runOK(spec); string(result.Stdout) != "far\n444\n" {
		t.Errorf("stdout %q", result.Stdout)
	}
}

func TestModifiedInputsAreFound(t *testing.T) {
	for name, c := range map[string]struct {
		script   string
		modified bool
	}{
		"append":        {"chmod u+w in; echo more >> in", true},
		"same size":     {"chmod u+w in; printf ABC | dd of=in conv=notrunc", true},
		"touch":         {"touch -d 2001-01-01 in", true},
		"truncate":      {"chmod u+w in; : > in; exit 3", true},
		"mode only":     {"chmod 755 in", false},
		"own copy":      {"cp in copy; mv -f copy in; chmod u+w in; echo more >> in", false},
		"removed":       {"rm -f in", false},
		"moved and new": {"mv in old; echo else > in", false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStand(t, trusted)
			path := s.cached("file", "abc\n", 0o444)
			other := s.cached("other", "abc\n", 0o444)
			spec := s.shell(c.script)
			spec.Inputs = []StagedInput{{Name: "other", Path: other}, {Name: "in", Path: path}}
			result := s.run(spec)
			if c.modified != slices.Equal(result.ModifiedInputs, []string{"in"}) || c.modified == result.OK {
				t.Fatalf("ok %v, modified inputs %v, reason %q", result.OK, result.ModifiedInputs, result.Reason)
			}
			if c.modified && result.ExitCode == 0 && !strings.Contains(result.Reason, "changed its input in") {
				t.Errorf("reason %q does not name the input", result.Reason)
			}
			if info, err := os.Stat(path); err != nil || !c.modified && info.Mode().Perm() != 0o444 {
				t.Errorf("cached file: %v, %v", info.Mode(), err)
			}
		})
	}
}

// TestCachedInputsCannotBeForged: what a payload does to its inputs, small or
// large, leaves the cached files as they are, and may end up in outputs.
func TestCachedInputsCannotBeForged(t *testing.T) {
	s := newStand(t, nil)
	small := s.cached("small", "abc\n", 0o444)
	large := s.cached("large", strings.Repeat("0123456789abcdef", 100_000), 0o444)
	forge := func(name string) string {
		return strings.ReplaceAll(`touch -r F old; chmod 644 F; printf XYZ | dd of=F conv=notrunc 2>/dev/null; touch -r old F; chmod 444 F; `, "F", name)
	}
	spec := s.shell(forge("small") + forge("large") + "mv small out")
	spec.Inputs = []StagedInput{{Name: "small", Path: small}, {Name: "large", Path: large}}
	spec.Task.Outputs = outputs("out")
	before := map[string][]byte{}
	for _, path := range []string{small, large} {
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		before[path] = content
	}
	result := s.runOK(spec)
	if content, err := os.ReadFile(filepath.Join(result.Folder, "out")); err != nil || string(content) != "XYZ\n" {
		t.Errorf("the output is %q, %v", content, err)
	}
	for path, want := range before {
		if content, err := os.ReadFile(path); err != nil || string(content) != string(want) {
			t.Errorf("%s was changed: %v", path, err)
		}
	}
}

// TestHolesOfOutputsCount: 4 TiB that take no disk are more than was asked for.
func TestHolesOfOutputsCount(t *testing.T) {
	s := newStand(t, nil)
	spec := s.shell("truncate -s 4T out")
	spec.Task.Outputs = outputs("out")
	s.runBad(spec, "4TiB", "holes included", "disk request")
}

// TestWorkFoldersAreNew: whoever kept an earlier attempt's folder open has
// nothing of a later one's.
func TestWorkFoldersAreNew(t *testing.T) {
	s := newStand(t, nil)
	first := s.runOK(s.shell("true"))
	kept, err := os.Open(first.Folder)
	if err != nil {
		t.Fatal(err)
	}
	defer kept.Close()
	if err := s.Release(first.Folder); err != nil {
		t.Fatal(err)
	}
	s.runOK(s.shell("echo secret > mine"))
	if names, err := kept.Readdirnames(-1); err == nil && len(names) > 0 {
		t.Errorf("the first attempt's folder holds %v", names)
	}
}
