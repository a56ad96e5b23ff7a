package main

import (
	"errors"
	"fmt"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/pilotage-grid/pilotage/task"
)

// batchScript is a script as batch systems take it, with the directives that
// tell of its queue, its name and the files that it reads (000, section III:
// qsub -g and #PBS -g; 002: bsub -ext and its Gfarm tag).
type batchScript struct {
	name    string
	argv    []string // that runs it; its own arguments go behind
	queue   string
	files   []string
	ignored []string // directives that mean nothing here
}

// readBatchScript reads the script at a path.
func readBatchScript(file string) (*batchScript, error) {
	info, err := os.Stat(file)
	if err != nil {
		return nil, err
	}
	if info.Size() > task.MaxArgvBytes/2 {
		return nil, fmt.Errorf("%[1]s has %[2]d bytes: a script of more than %[3]d is to be an input: submit --input %[1]s -- sh %[4]s",
			file, info.Size(), task.MaxArgvBytes/2, path.Base(file))
	}
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	script, err := parseBatchScript(file, string(content))
	if err != nil {
		return nil, fmt.Errorf("%s:%w", file, err)
	}
	return script, nil
}

// parseBatchScript reads directives from the comments before the first command,
// as qsub does. Errors begin with the line.
func parseBatchScript(file, text string) (*batchScript, error) {
	if strings.ContainsRune(text, 0) {
		return nil, errors.New("1: this is no script: it contains NUL bytes")
	}
	s := &batchScript{name: path.Base(file)}
	shell, err := interpreter(text)
	if err != nil {
		return nil, fmt.Errorf("1: %w", err)
	}
	s.argv = slices.Concat(shell, []string{"-c", text, path.Base(file)})
	number := 0
	for line := range strings.Lines(text) {
		number++
		line = strings.TrimSpace(line)
		if line != "" && !strings.HasPrefix(line, "#") {
			break
		}
		if err := s.directive(line); err != nil {
			return nil, fmt.Errorf("%d: %w", number, err)
		}
	}
	return s, nil
}

// shells take a script's text behind -c.
var shells = []string{"sh", "bash", "dash", "ksh", "zsh"}

// interpreter is what the first line of a script asks for.
func interpreter(text string) ([]string, error) {
	first, _, _ := strings.Cut(text, "\n")
	line, given := strings.CutPrefix(first, "#!")
	words := strings.Fields(line)
	if !given || len(words) == 0 {
		return []string{"/bin/sh"}, nil
	}
	program := path.Base(words[0])
	if program == "env" && len(words) > 1 {
		program = words[1]
	}
	if !slices.Contains(shells, program) {
		return nil, fmt.Errorf("a script for %s: give one for %s, or submit it as an input: submit --input SCRIPT -- %s SCRIPT",
			program, strings.Join(shells, ", "), program)
	}
	return words, nil
}

// directive reads one comment. What batch systems know and pilots do not is
// noted, and so never passed over unseen.
func (s *batchScript) directive(line string) error {
	prefix, rest, _ := strings.Cut(line, " ")
	rest = strings.TrimSpace(rest)
	if prefix != "#PBS" && prefix != "#BSUB" {
		return nil
	}
	option, value, _ := strings.Cut(rest, " ")
	value = strings.TrimSpace(value)
	switch {
	case option == "-q":
		if s.queue = value; value == "" {
			return fmt.Errorf("%s -q names no queue", prefix)
		}
	case option == "-N" && prefix == "#PBS" || option == "-J" && prefix == "#BSUB":
		if s.name = value; value == "" {
			return fmt.Errorf("%s %s gives no name", prefix, option)
		}
	case option == "-g" && prefix == "#PBS":
		files, err := parseFiles(value)
		if err != nil {
			return fmt.Errorf("#PBS -g: %w", err)
		}
		s.files = append(s.files, files...)
	case option == "-ext" && prefix == "#BSUB":
		files, err := parseGfarmTag(value)
		if err != nil {
			return fmt.Errorf("#BSUB -ext: %w", err)
		}
		s.files = append(s.files, files...)
	default:
		s.ignored = append(s.ignored, strings.TrimSpace(prefix+" "+rest))
	}
	return nil
}

// parseFiles reads a list of file names with commas, blanks, or both between
// them. Each file counts once.
func parseFiles(text string) ([]string, error) {
	var files []string
	for i, part := range strings.Split(text, ",") {
		names := strings.Fields(part)
		if len(names) == 0 {
			return nil, fmt.Errorf("entry %d of %q is empty: give file names with commas or blanks between them, as in a.dat, b.dat", i+1, shorten(text, 80))
		}
		for _, name := range names {
			if !slices.Contains(files, name) {
				files = append(files, name)
			}
		}
	}
	return files, nil
}

var gfarmTag = regexp.MustCompile(`^Gfarm\s+Files\s*=(.*)$`)

// parseGfarmTag reads 002's tag, Gfarm Files=f1,..,fn, with or without quotes
// around it.
func parseGfarmTag(text string) ([]string, error) {
	bare := text
	if n := len(text); n > 1 && (text[0] == '"' || text[0] == '\'') && text[n-1] == text[0] {
		bare = text[1 : n-1]
	}
	found := gfarmTag.FindStringSubmatch(strings.TrimSpace(bare))
	if found == nil {
		return nil, fmt.Errorf("%q is no tag that names files: write Gfarm Files=f1,f2", shorten(text, 80))
	}
	files, err := parseFiles(found[1])
	if err != nil {
		return nil, fmt.Errorf("tag Gfarm Files: %w", err)
	}
	return files, nil
}
