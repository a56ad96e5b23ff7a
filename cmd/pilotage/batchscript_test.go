package main

import (
	"slices"
	"strings"
	"testing"
)

// 000, section III: the files of a task are given with commas, and in its own
// examples with blanks behind them.
func TestFilesOfATask(t *testing.T) {
	for text, want := range map[string][]string{
		"a": {"a"}, "a,b": {"a", "b"}, "a, b": {"a", "b"}, " a  b\t, c ": {"a", "b", "c"}, "a,a b,b": {"a", "b"},
		"vo:db/nr.fa, x=y": {"vo:db/nr.fa", "x=y"},
	} {
		if got, err := parseFiles(text); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q gives %q (%v), want %q", text, got, err, want)
		}
	}
	for text, want := range map[string]string{"": "entry 1", "a,": "entry 2", "a,,b": "entry 2", ",a": "entry 1"} {
		if got, err := parseFiles(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q gives %q (%v), want an error about %s", text, got, err, want)
		}
	}
}

// 002, section 4: the tag that says which files a job accesses.
func TestGfarmTag(t *testing.T) {
	for _, text := range []string{"Gfarm Files=f1,f2", `"Gfarm Files=f1,f2"`, "'Gfarm  Files = f1, f2'"} {
		if got, err := parseGfarmTag(text); err != nil || !slices.Equal(got, []string{"f1", "f2"}) {
			t.Errorf("%q gives %q, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "Gfarm Files=", "Gfarm Files", "Files=f1", "gfarm files=f1", `"Gfarm Files=f1`, "Gfarm Files=f1,,f2"} {
		if got, err := parseGfarmTag(text); err == nil {
			t.Errorf("%q gives %q", text, got)
		}
	}
}

func TestBatchScript(t *testing.T) {
	text := `#!/bin/bash -e
# what it is for
#PBS -N blast
#PBS -q blastn
#PBS -g nr.00, nr.01
#BSUB -ext "Gfarm Files=nr.01,query.fa"
#PBS -l nodes=1:ppn=4

cat nr.00
#PBS -g too-late
`
	s, err := parseBatchScript("jobs/task.sh", text)
	if err != nil {
		t.Fatal(err)
	}
	if s.name != "blast" || s.queue != "blastn" || !slices.Equal(s.files, []string{"nr.00", "nr.01", "nr.01", "query.fa"}) {
		t.Errorf("the directives are read as %+v", s)
	}
	if !slices.Equal(s.argv, []string{"/bin/bash", "-e", "-c", text, "task.sh"}) {
		t.Errorf("it is run by %q", s.argv)
	}
	if !slices.Equal(s.ignored, []string{"#PBS -l nodes=1:ppn=4"}) {
		t.Errorf("passed over: %q", s.ignored)
	}
	plain, err := parseBatchScript("x", "echo")
	if err != nil || plain.name != "x" || plain.argv[0] != "/bin/sh" {
		t.Errorf("a script without directives is %+v, %v", plain, err)
	}
}

func TestBadBatchScripts(t *testing.T) {
	for text, want := range map[string]string{
		"#!/bin/sh\n#PBS -g a,,b\n":            "2: #PBS -g: entry 2",
		"\n\n#PBS -g\n":                        "3: #PBS -g: entry 1",
		"#PBS -q\n":                            "1: #PBS -q names no queue",
		"#PBS -N\n":                            "1: #PBS -N gives no name",
		"#BSUB -ext nothing\n":                 "1: #BSUB -ext: \"nothing\" is no tag",
		"#!/usr/bin/env python3\nprint(1)\n":   "1: a script for python3",
		"#!/bin/sh\n\x00":                      "NUL",
		"#!/usr/bin/python\n#PBS -g a,,b\n\n,": "1: a script for python",
	} {
		if s, err := parseBatchScript("x.sh", text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q gives %+v (%v), want %q", text, s, err, want)
		}
	}
}

// Scripts come from outside: whatever they hold, they are read or refused.
func FuzzBatchScript(f *testing.F) {
	f.Add("#!/bin/sh\n#PBS -g a, b\necho")
	f.Add("#BSUB -ext 'Gfarm Files=a,b'\n#PBS -q q")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := parseBatchScript("x.sh", text)
		if err != nil {
			return
		}
		for _, file := range s.files {
			if file == "" || strings.ContainsAny(file, ", \t\n") {
				t.Errorf("%q names the file %q", text, file)
			}
		}
	})
}
