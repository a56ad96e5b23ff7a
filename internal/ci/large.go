package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
)

// A type of more methods or fields is several in one: cut into files, it is still one.
const (
	mostMethods = 60 // its own, those of what it embeds, and functions of its package that take it first
	mostFields  = 20
)

// large names the types of the module in this folder that are too large. Generated ones
// and those of tests may be.
func large() (found []string, err error) {
	command := exec.Command("go", "list", "-export", "-deps", "-json=ImportPath,Dir,Export,GoFiles,DepOnly", "./...")
	command.Stderr = os.Stderr
	list, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	exports, set := make(map[string]string), token.NewFileSet()
	imports := importer.ForCompiler(set, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })
	for decoder := json.NewDecoder(bytes.NewReader(list)); ; { // what a package imports comes before it
		var p struct {
			ImportPath, Dir, Export string
			GoFiles                 []string
			DepOnly                 bool
		}
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			return found, nil
		} else if err != nil {
			return nil, err
		}
		if exports[p.ImportPath] = p.Export; p.DepOnly {
			continue
		}
		var files []*ast.File
		for _, name := range p.GoFiles {
			file, err := parser.ParseFile(set, filepath.Join(p.Dir, name), nil, parser.ParseComments|parser.SkipObjectResolution)
			if err != nil {
				return nil, err
			}
			files = append(files, file)
		}
		in, err := (&types.Config{Importer: imports}).Check(p.ImportPath, set, files, nil)
		if err != nil {
			return nil, err
		}
		found = append(found, largeIn(in, files)...)
	}
}

// largeIn names the types of a package that are too large.
func largeIn(in *types.Package, files []*ast.File) (found []string) {
	functions := make(map[*types.TypeName]int)
	for _, name := range in.Scope().Names() {
		if f, ok := in.Scope().Lookup(name).(*types.Func); ok && f.Signature().Params().Len() > 0 {
			first := f.Signature().Params().At(0).Type()
			if pointer, ok := first.(*types.Pointer); ok {
				first = pointer.Elem()
			}
			if named, ok := first.(*types.Named); ok {
				functions[named.Origin().Obj()]++
			}
		}
	}
	for _, file := range files {
		if ast.IsGenerated(file) {
			continue
		}
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok {
				return true
			}
			name, ok := in.Scope().Lookup(spec.Name.Name).(*types.TypeName)
			if !ok || name.IsAlias() || name.Pos() != spec.Name.Pos() { // another, or of a function
				return true
			}
			of := name.Type()
			if !types.IsInterface(of) {
				of = types.NewPointer(of)
			}
			if methods := types.NewMethodSet(of).Len() + functions[name]; methods > mostMethods {
				found = append(found, fmt.Sprintf("%s.%s has %d methods, its embedded types' and functions that take it first included: %d are the most", in.Path(), name.Name(), methods, mostMethods))
			}
			if s, ok := name.Type().Underlying().(*types.Struct); ok && s.NumFields() > mostFields {
				found = append(found, fmt.Sprintf("%s.%s has %d fields: %d are the most", in.Path(), name.Name(), s.NumFields(), mostFields))
			}
			return true
		})
	}
	return found
}
