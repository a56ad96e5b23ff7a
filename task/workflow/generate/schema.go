package main

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/task/workflow"
)

type object = map[string]any

// Any scalar can stand where text is wanted: YAML reads 7 and true as such.
var scalarTypes = []string{"string", "number", "boolean"}

const (
	namePattern     = `^[A-Za-z0-9_][A-Za-z0-9._+=:@-]{0,199}$`
	durationPattern = `^([0-9]+(\.[0-9]*)?(ns|us|µs|ms|s|m|h))+$`
	sizePattern     = `^[0-9]+(\.[0-9]+)? *([KMGT]iB|[kKMGT]B?|B)?$`
)

// writeSchema gives the JSON Schema (draft 2020-12) of a workflow file, for
// editors. It cannot say everything: Parse and Expand decide.
func writeSchema(docs comments) ([]byte, error) {
	schema, err := structSchema(reflect.TypeFor[workflow.File](), docs)
	if err != nil {
		return nil, err
	}
	schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	schema["title"] = "Pilotage workflow, " + workflow.APIVersion
	text, err := json.MarshalIndent(schema, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode schema: %w", err)
	}
	return append(text, '\n'), nil
}

func structSchema(structure reflect.Type, docs comments) (object, error) {
	properties := object{}
	var required []string
	if err := addProperties(structure, docs, properties, &required); err != nil {
		return nil, err
	}
	schema := object{"type": "object", "properties": properties, "additionalProperties": false}
	if len(required) > 0 {
		schema["required"] = required
	}
	switch structure {
	case reflect.TypeFor[workflow.TaskTemplate]():
		schema["oneOf"] = eitherOf("argv", "shell")
	case reflect.TypeFor[workflow.Source]():
		schema["oneOf"] = eitherOf("source", "at")
	}
	return schema, nil
}

func eitherOf(keys ...string) []object {
	choices := make([]object, len(keys))
	for i, name := range keys {
		choices[i] = object{"required": []string{name}}
	}
	return choices
}

func addProperties(structure reflect.Type, docs comments, properties object, required *[]string) error {
	for i := range structure.NumField() {
		if field := structure.Field(i); field.Anonymous {
			if err := addProperties(field.Type, docs, properties, required); err != nil {
				return err
			}
		}
	}
	keys, err := keysOf(structure, docs)
	if err != nil {
		return err
	}
	for _, k := range keys {
		properties[k.Name] = k.Schema
		if k.Required {
			*required = append(*required, k.Name)
		}
	}
	return nil
}

// valueOf says what a value is, to people and to editors.
func valueOf(t reflect.Type, tag reflect.StructTag, docs comments) (kind string, schema object, err error) {
	texts, scalar := object{"type": "array", "items": object{"type": scalarTypes}}, object{"type": scalarTypes}
	switch t {
	case reflect.TypeFor[workflow.Text]():
		return "text", textSchema(tag), nil
	case reflect.TypeFor[workflow.Value[int]]():
		schema, err = integerSchema(tag)
		return "whole number", schema, err
	case reflect.TypeFor[workflow.Value[bool]]():
		return "`true` or `false`", object{"type": "boolean"}, nil
	case reflect.TypeFor[workflow.Value[time.Duration]]():
		return "duration", object{"type": "string", "pattern": durationPattern, "default": tag.Get("default")}, nil
	case reflect.TypeFor[workflow.Value[task.Bytes]]():
		return "size", object{"type": []string{"string", "integer"}, "minimum": 0, "pattern": sizePattern}, nil
	case reflect.TypeFor[workflow.List]():
		return "list of texts", texts, nil
	case reflect.TypeFor[workflow.FileNames]():
		return "list, or map of name to place", object{"anyOf": []object{texts, mapOf(scalar)}}, nil
	case reflect.TypeFor[workflow.Map[workflow.Text]]():
		return "map of texts", mapOf(scalar), nil
	case reflect.TypeFor[workflow.Map[workflow.List]]():
		return "map of a text or a list each", mapOf(object{"anyOf": []object{texts, scalar}}), nil
	case reflect.TypeFor[workflow.Map[workflow.Source]]():
		schema, err = structSchema(reflect.TypeFor[workflow.Source](), docs)
		return "map of [files](#files)", mapOf(schema), err
	case reflect.TypeFor[workflow.Map[workflow.TaskTemplate]]():
		schema, err = structSchema(reflect.TypeFor[workflow.TaskTemplate](), docs)
		return "map of [tasks](#tasks)", mapOf(schema), err
	case reflect.TypeFor[workflow.Settings]():
		schema, err = structSchema(t, docs)
		return "map of [settings](#settings)", schema, err
	}
	return "", nil, fmt.Errorf("no schema for %s", t)
}

func mapOf(value object) object { return object{"type": "object", "additionalProperties": value} }

func textSchema(tag reflect.StructTag) object {
	if constant := tag.Get("const"); constant != "" {
		return object{"const": constant}
	}
	if words := strings.Fields(tag.Get("oneof")); len(words) > 0 {
		return object{"enum": words}
	}
	switch tag.Get("form") {
	case "name":
		return object{"type": "string", "pattern": namePattern}
	case "adler32":
		return object{"type": "string", "pattern": "^[0-9A-Fa-f]{8}$"}
	case "digest":
		return object{"type": "string", "pattern": "^[0-9A-Fa-f]{64}$"}
	}
	return object{"type": scalarTypes}
}

func integerSchema(tag reflect.StructTag) (object, error) {
	schema := object{"type": "integer"}
	for tagName, keyword := range map[string]string{"min": "minimum", "max": "maximum", "default": "default"} {
		value, err := strconv.Atoi(tag.Get(tagName))
		if err != nil {
			return nil, fmt.Errorf("tag %s: %w", tagName, err)
		}
		schema[keyword] = value
	}
	return schema, nil
}
