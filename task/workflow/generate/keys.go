package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
	"strings"
)

// comments are the doc comments of struct fields by "Type.Field".
type comments map[string]string

// readComments reads the doc comments of all struct fields in a Go file.
func readComments(path string) (comments, error) {
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
	if err != nil {
		return nil, fmt.Errorf("read the types: %w", err)
	}
	found := make(comments)
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.TypeSpec)
		if !ok {
			return true
		}
		structure, ok := spec.Type.(*ast.StructType)
		if !ok {
			return false
		}
		for _, field := range structure.Fields.List {
			for _, name := range field.Names {
				found[spec.Name.Name+"."+name.Name] = strings.Join(strings.Fields(field.Doc.Text()), " ")
			}
		}
		return false
	})
	return found, nil
}

// key is one key of the format.
type key struct {
	Name     string
	Kind     string // for people
	Meaning  string
	Tag      reflect.StructTag
	Schema   object
	Required bool
}

// keysOf lists the keys of a struct in order; those of embedded structs are
// left to their own section.
func keysOf(structure reflect.Type, docs comments) ([]key, error) {
	var keys []key
	for i := range structure.NumField() {
		field := structure.Field(i)
		name := field.Tag.Get("key")
		if name == "" {
			continue
		}
		meaning := docs[structure.Name()+"."+field.Name]
		if meaning == "" {
			return nil, fmt.Errorf("%s.%s has no comment to document the key %s", structure.Name(), field.Name, name)
		}
		k := key{Name: name, Meaning: meaning, Tag: field.Tag, Required: field.Tag.Get("required") != ""}
		var err error
		if k.Kind, k.Schema, err = valueOf(field.Type, field.Tag, docs); err != nil {
			return nil, fmt.Errorf("key %s: %w", name, err)
		}
		k.Schema["description"] = meaning
		keys = append(keys, k)
	}
	return keys, nil
}

// Default is what the page says about leaving the key out.
func (k key) Default() string {
	switch value := k.Tag.Get("default"); {
	case k.Required:
		return "**required**"
	case value == "":
		return "none"
	case strings.Contains(value, " ") && !strings.Contains(value, "B"):
		return value
	default:
		return "`" + value + "`"
	}
}

// Limits is what the page says about the range of values.
func (k key) Limits() string {
	low, high := k.Tag.Get("min"), k.Tag.Get("max")
	switch {
	case k.Tag.Get("const") != "":
		return "`" + k.Tag.Get("const") + "`"
	case k.Tag.Get("oneof") != "":
		return "`" + strings.Join(strings.Fields(k.Tag.Get("oneof")), "` or `") + "`"
	case low != "":
		return low + " to " + high
	case high != "":
		return "at most " + high
	}
	switch k.Tag.Get("form") {
	case "name":
		return "a name"
	case "adler32":
		return "8 hex digits"
	case "digest":
		return "64 hex digits"
	}
	return ""
}

// Expands is what the page says about expansion.
func (k key) Expands() string {
	switch k.Tag.Get("expands") {
	case "range":
		return "`{a..b}`"
	case "variables":
		return "`{v}`"
	case "both":
		return "`{a..b}` `{v}`"
	}
	return ""
}
