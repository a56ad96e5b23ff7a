package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"testing"
)

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

// A core starts no goroutine; its decisions depend on arguments only. Its tests and the
// simulations run without the race detector, so they start none either.
func TestCoresAndSimulationsStartNoGoroutine(t *testing.T) {
	for _, folder := range serial() {
		paths, err := filepath.Glob(filepath.Join("..", "..", folder, "*.go"))
		if err != nil || len(paths) == 0 {
			t.Fatalf("no source in %s: %v", folder, err)
		}
		for _, path := range paths {
			source, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			places, err := goroutines(path, source)
			if err != nil {
				t.Fatal(err)
			}
			for _, place := range places {
				t.Errorf("%s: neither a core nor a simulation starts a goroutine: return an action, the edge carries it out", place)
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
