package main

import (
	"bytes"
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"text/template"

	"github.com/pilotage-grid/pilotage/task/workflow"
)

//go:embed page.md.tmpl
var pageTemplate string

// writePage gives the page for users. Tables come from the types, examples
// from the examples folder, error messages from reading wrong files.
func writePage(docs comments, examples string) ([]byte, error) {
	page, err := template.New("page").Funcs(template.FuncMap{
		"keys":    func(names ...string) (string, error) { return keyTable(names, docs) },
		"example": func(name string) (string, error) { return exampleText(filepath.Join(examples, name)) },
		"mistake": mistake,
	}).Parse(pageTemplate)
	if err != nil {
		return nil, fmt.Errorf("read the page template: %w", err)
	}
	var out bytes.Buffer
	if err := page.Execute(&out, nil); err != nil {
		return nil, fmt.Errorf("write the page: %w", err)
	}
	return out.Bytes(), nil
}

var documented = map[string]reflect.Type{
	"File":             reflect.TypeFor[workflow.File](),
	"TaskTemplate":     reflect.TypeFor[workflow.TaskTemplate](),
	"ResourceSettings": reflect.TypeFor[workflow.ResourceSettings](),
	"Settings":         reflect.TypeFor[workflow.Settings](),
	"Source":           reflect.TypeFor[workflow.Source](),
}

func keyTable(names []string, docs comments) (string, error) {
	var keys []key
	for _, name := range names {
		more, err := keysOf(documented[name], docs)
		if err != nil {
			return "", err
		}
		keys = append(keys, more...)
	}
	var b strings.Builder
	b.WriteString("| key | value | default | limits | expands | meaning |\n|---|---|---|---|---|---|\n")
	for _, k := range keys {
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s | %s |\n", k.Name, k.Kind, k.Default(), k.Limits(), k.Expands(), k.Meaning)
	}
	return strings.TrimSuffix(b.String(), "\n"), nil
}

func exampleText(path string) (string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("read the example: %w", err)
	}
	return strings.TrimSpace(string(text)), nil
}

// mistake gives what is said about the tasks of a wrong workflow.
func mistake(tasks string) (string, error) {
	text := "apiVersion: pilotage/v1\nkind: Workflow\nname: mistakes\ntasks:\n" + tasks + "\n"
	file, err := workflow.Parse("search.yaml", []byte(text))
	if err == nil {
		_, err = file.Expand(workflow.Options{})
	}
	if err == nil {
		return "", fmt.Errorf("nothing is wrong with %q", tasks)
	}
	return err.Error(), nil
}
