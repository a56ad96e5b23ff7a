package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// cores are the folders of the pure rules; other sub-folders of them are edges.
var cores = []string{
	"task", "matcher", "matcher/health", "matcher/replica", "taskqueue", "taskqueue/matchmaker",
	"pilot/message", "pilot/worker", "pilot/master", "dht", "cache",
}

// goroutines returns the places of all `go` statements in a source file.
func goroutines(name string, source any) ([]string, error) {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, name, source, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	var places []string
	ast.Inspect(file, func(n ast.Node) bool {
		if statement, ok := n.(*ast.GoStmt); ok {
			places = append(places, files.Position(statement.Pos()).String())
		}
		return true
	})
	return places, nil
}

// A core starts no goroutine; its decisions depend on arguments only.
func TestCoresStartNoGoroutine(t *testing.T) {
	for _, core := range cores {
		paths, err := filepath.Glob(filepath.Join("..", "..", core, "*.go"))
		if err != nil || len(paths) == 0 {
			t.Fatalf("no core in %s: %v", core, err)
		}
		for _, path := range paths {
			if strings.HasSuffix(path, "_test.go") {
				continue
			}
			source, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			places, err := goroutines(path, source)
			if err != nil {
				t.Fatal(err)
			}
			for _, place := range places {
				t.Errorf("%s: a core starts no goroutine: return an action, the edge carries it out", place)
			}
		}
	}
}

func TestGoroutinesAreFound(t *testing.T) {
	places, err := goroutines("x.go", "package x\nfunc f() {\n\tif true {\n\t\tgo f()\n\t}\n}\n")
	if err != nil || len(places) != 1 || places[0] != "x.go:4:3" {
		t.Errorf("got %q, %v; want x.go:4:3", places, err)
	}
	if places, err = goroutines("x.go", "package x\nvar going = \"go f()\" // go f()\n"); err != nil || len(places) != 0 {
		t.Errorf("got %q, %v; want none", places, err)
	}
}
