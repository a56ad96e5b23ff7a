// Package workflow reads workflow files (apiVersion pilotage/v1) and turns
// them into tasks: it expands ranges and variables, fills in defaults and
// refuses what cannot run, with the line, the reason and what to do about it.
//
// The types File, TaskTemplate, Settings and Source are the one description of
// the format: the parser walks their fields, and docs/workflow.md and the JSON
// Schema examples/workflow.schema.json are generated from them.
//
// The package is pure: it opens no file, asks no server and never reads a
// clock. It starts no goroutine; its values may be read by several goroutines,
// but not changed by more than one.
package workflow

//go:generate go run ./generate -schema ../../examples/workflow.schema.json -page ../../docs/workflow.md
