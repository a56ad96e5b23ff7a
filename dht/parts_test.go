package dht

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"slices"
	"strings"
	"testing"
)

// A part of the overlay keeps to itself: nothing of it has the overlay or
// another part, and none of its methods is given one, but the members.
func TestPartsKnowNoOtherPart(t *testing.T) {
	parts := []string{"membership", "election", "broadcast", "locations"}
	sources := parse(t)
	mentions := func(part, where string, list *ast.FieldList, allowed ...string) {
		if list == nil {
			return
		}
		ast.Inspect(list, func(n ast.Node) bool {
			name, ok := n.(*ast.Ident)
			if ok && name.Name != part && (name.Name == "Overlay" || slices.Contains(parts, name.Name)) && !slices.Contains(allowed, name.Name) {
				t.Errorf("%s, of the part %s, knows the %s", where, part, name.Name)
			}
			return true
		})
	}
	for _, part := range parts {
		own := map[string]bool{part: true}
		for grown := -1; grown != len(own); { // what its fields are made of
			grown = len(own)
			for name, fields := range sources.structs {
				if own[name] {
					ast.Inspect(fields, func(n ast.Node) bool {
						if field, ok := n.(*ast.Ident); ok && sources.structs[field.Name] != nil {
							own[field.Name] = true
						}
						return true
					})
				}
			}
		}
		for name := range own {
			mentions(part, name, sources.structs[name])
		}
		for _, f := range sources.functions {
			if own[receiver(f)] {
				mentions(part, receiver(f)+"."+f.Name.Name, f.Type.Params, "membership")
				mentions(part, receiver(f)+"."+f.Name.Name, f.Type.Results)
			}
		}
	}
}

// The sizes that a type of ours may have.
func TestNoTypeIsAHouseOfItsOwn(t *testing.T) {
	sources := parse(t)
	methods := make(map[string]int)
	for _, f := range sources.functions {
		methods[receiver(f)]++
	}
	delete(methods, "")
	for name, count := range methods {
		if count > 60 {
			t.Errorf("%s has %d methods", name, count)
		}
	}
	for name, fields := range sources.structs {
		most := 20
		if strings.HasSuffix(name, "Config") {
			most = 12
		}
		if fields.NumFields() > most {
			t.Errorf("%s has %d fields", name, fields.NumFields())
		}
	}
}

type sources struct {
	structs   map[string]*ast.FieldList
	functions []*ast.FuncDecl
}

func parse(t *testing.T) sources {
	t.Helper()
	product := func(file fs.FileInfo) bool { return !strings.HasSuffix(file.Name(), "_test.go") }
	packages, err := parser.ParseDir(token.NewFileSet(), ".", product, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	found := sources{structs: make(map[string]*ast.FieldList)}
	ast.Inspect(packages["dht"], func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.TypeSpec:
			if structure, ok := n.Type.(*ast.StructType); ok {
				found.structs[n.Name.Name] = structure.Fields
			}
		case *ast.FuncDecl:
			found.functions = append(found.functions, n)
		}
		return true
	})
	return found
}

func receiver(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return ""
	}
	of := f.Recv.List[0].Type
	if pointer, ok := of.(*ast.StarExpr); ok {
		of = pointer.X
	}
	return of.(*ast.Ident).Name
}
