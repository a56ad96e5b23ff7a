package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestArchitectureNamesEveryFolder: the page has a row for each folder with Go code,
// or one that ends in "/..." for it and its neighbours, and none for what is not there.
func TestArchitectureNamesEveryFolder(t *testing.T) {
	const root = "../.."
	page, err := os.ReadFile(filepath.Join(root, "docs", "architecture.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n## Folders\n")
	var named []string
	for line := range strings.Lines(section) {
		cell, _, _ := strings.Cut(strings.TrimPrefix(line, "|"), "|")
		for _, text := range strings.Split(cell, "`") {
			if text = strings.TrimSpace(text); strings.HasPrefix(line, "| `") && text != "" && text != "," {
				named = append(named, unfold(text)...)
			}
		}
	}
	covered := func(folder string) bool {
		return slices.ContainsFunc(named, func(name string) bool {
			parent, all := strings.CutSuffix(name, "/...")
			return name == folder || all && strings.HasPrefix(folder+"/", parent+"/")
		})
	}
	err = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() {
			return err
		}
		if strings.HasPrefix(entry.Name(), ".") && entry.Name() != ".." {
			return fs.SkipDir
		}
		folder, err := filepath.Rel(root, path)
		if code, _ := filepath.Glob(filepath.Join(path, "*.go")); len(code) > 0 && !covered(filepath.ToSlash(folder)) {
			t.Errorf("docs/architecture.md has no row for %s", folder)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range named {
		if info, err := os.Stat(filepath.Join(root, strings.TrimSuffix(name, "/..."))); err != nil || !info.IsDir() {
			t.Errorf("docs/architecture.md names %s, which is no folder", name)
		}
	}
}

// unfold writes "a/{b,c}" as "a/b" and "a/c".
func unfold(text string) (folders []string) {
	before, rest, found := strings.Cut(text, "{")
	inside, after, closed := strings.Cut(rest, "}")
	if !found || !closed {
		return []string{text}
	}
	for _, choice := range strings.Split(inside, ",") {
		folders = append(folders, before+choice+after)
	}
	return folders
}
