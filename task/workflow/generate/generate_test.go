package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

const root = "../../.."

func TestGeneratedFilesAreFresh(t *testing.T) {
	folder := t.TempDir()
	schema, page := filepath.Join(folder, "schema"), filepath.Join(folder, "page")
	if err := run("../file.go", schema, page, filepath.Join(root, "examples", "workflows")); err != nil {
		t.Fatal(err)
	}
	for fresh, committed := range map[string]string{
		schema: filepath.Join(root, "examples", "workflow.schema.json"),
		page:   filepath.Join(root, "docs", "workflow.md"),
	} {
		want, err := os.ReadFile(fresh)
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(committed)
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != string(want) {
			t.Errorf("%s is stale: run go generate ./task/workflow", committed)
		}
	}
}

func TestSchemaAcceptsExamplesAndRefusesMistakes(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "examples", "workflow.schema.json"))
	if err != nil {
		t.Fatal(err)
	}
	var schema map[string]any
	if err := json.Unmarshal(text, &schema); err != nil {
		t.Fatal(err)
	}
	paths, err := filepath.Glob(filepath.Join(root, "examples", "workflows", "*.yaml"))
	if err != nil || len(paths) < 3 {
		t.Fatalf("examples: %v, %v", paths, err)
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := check(schema, decode(t, string(text))); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
	header := "apiVersion: pilotage/v1\nkind: Workflow\nname: w\n"
	for _, wrong := range []string{
		"kind: Workflow\nname: w\ntasks: {}",
		strings.Replace(header, "v1", "v2", 1) + "tasks: {}",
		header + "task: {}",
		header + "tasks: {a: {shell: x, inputt: [y]}}",
		header + "tasks: {a: {shell: x, argv: [y]}}",
		header + "tasks: {a: {shell: x, retries: 101}}",
		header + "tasks: {a: {shell: x, walltime: soon}}",
		header + "tasks: {a: {shell: x, memory: -3}}",
		header + "tasks: {a: {shell: [x]}}",
		header + "tasks: {a: {shell: x}}\nfiles: {f: {}}",
		header + "tasks: {a: {shell: x}}\nfiles: {f: {source: f, executable: 3}}",
	} {
		if check(schema, decode(t, wrong)) == nil {
			t.Errorf("the schema accepts\n%s", wrong)
		}
	}
}

func TestThePageNamesEveryKeyOfTheSchema(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "examples", "workflow.schema.json"))
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(root, "docs", "workflow.md"))
	if err != nil {
		t.Fatal(err)
	}
	var schema any
	if err := json.Unmarshal(text, &schema); err != nil {
		t.Fatal(err)
	}
	named := 0
	var walk func(any)
	walk = func(value any) {
		structure, ok := value.(map[string]any)
		if !ok {
			return
		}
		properties, _ := structure["properties"].(map[string]any)
		for name, property := range properties {
			named++
			if !strings.Contains(string(page), "\n| `"+name+"` |") {
				t.Errorf("no table of docs/workflow.md has the key %s", name)
			}
			walk(property)
		}
		walk(structure["additionalProperties"])
	}
	walk(schema)
	if named < 30 {
		t.Errorf("the schema has %d keys: the test has lost its way", named)
	}
}

func decode(t *testing.T, text string) any {
	t.Helper()
	encoded, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	var value any
	if err := json.Unmarshal(encoded, &value); err != nil {
		t.Fatal(err)
	}
	return value
}

// check is a validator for the part of JSON Schema that the generator uses.
func check(schema map[string]any, value any) error {
	if constant, ok := schema["const"]; ok && constant != value {
		return fmt.Errorf("%v is not %v", value, constant)
	}
	if types, ok := schema["type"]; ok && !hasType(types, value) {
		return fmt.Errorf("%v is not of type %v", value, types)
	}
	for _, keyword := range []string{"anyOf", "oneOf"} {
		choices, ok := schema[keyword].([]any)
		if !ok {
			continue
		}
		matching := 0
		for _, choice := range choices {
			if check(choice.(map[string]any), value) == nil {
				matching++
			}
		}
		if matching == 0 || keyword == "oneOf" && matching > 1 {
			return fmt.Errorf("%v fits %d of %v", value, matching, choices)
		}
	}
	switch v := value.(type) {
	case string:
		if pattern, ok := schema["pattern"].(string); ok && !regexp.MustCompile(pattern).MatchString(v) {
			return fmt.Errorf("%q does not match %s", v, pattern)
		}
	case float64:
		if low, ok := schema["minimum"].(float64); ok && v < low {
			return fmt.Errorf("%v < %v", v, low)
		}
		if high, ok := schema["maximum"].(float64); ok && v > high {
			return fmt.Errorf("%v > %v", v, high)
		}
	case []any:
		for _, item := range v {
			if items, ok := schema["items"].(map[string]any); ok {
				if err := check(items, item); err != nil {
					return err
				}
			}
		}
	case map[string]any:
		return checkMap(schema, v)
	}
	return nil
}

func checkMap(schema, value map[string]any) error {
	required, _ := schema["required"].([]any)
	for _, name := range required {
		if _, given := value[name.(string)]; !given {
			return fmt.Errorf("no %v", name)
		}
	}
	properties, _ := schema["properties"].(map[string]any)
	for name, member := range value {
		rule, known := properties[name]
		if !known {
			rule = schema["additionalProperties"]
		}
		switch rule := rule.(type) {
		case bool:
			if !rule {
				return fmt.Errorf("unknown key %s", name)
			}
		case map[string]any:
			if err := check(rule, member); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	return nil
}

func hasType(types, value any) bool {
	name := ""
	switch v := value.(type) {
	case string:
		name = "string"
	case bool:
		name = "boolean"
	case float64:
		name = "number"
		if v == float64(int64(v)) && is(types, "integer") {
			return true
		}
	case []any:
		name = "array"
	case map[string]any:
		name = "object"
	}
	return is(types, name)
}

func is(types any, name string) bool {
	if list, ok := types.([]any); ok {
		return slices.Contains(list, any(name))
	}
	return types == name
}
