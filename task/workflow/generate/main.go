// Command generate writes what is said about the workflow format from the
// types that read it: the JSON Schema and the page for users. It is run by
// "go generate" in the folder of package workflow.
package main

import (
	"flag"
	"fmt"
	"os"
)

func main() {
	source := flag.String("types", "file.go", "the Go file with the types")
	schemaPath := flag.String("schema", "", "where to write the JSON Schema")
	pagePath := flag.String("page", "", "where to write the page")
	examples := flag.String("examples", "../../examples/workflows", "the folder of example workflows")
	flag.Parse()
	if err := run(*source, *schemaPath, *pagePath, *examples); err != nil {
		fmt.Fprintln(os.Stderr, "generate:", err)
		os.Exit(1)
	}
}

func run(source, schemaPath, pagePath, examples string) error {
	comments, err := readComments(source)
	if err != nil {
		return err
	}
	schema, err := writeSchema(comments)
	if err != nil {
		return err
	}
	if err := os.WriteFile(schemaPath, schema, 0o644); err != nil {
		return fmt.Errorf("write schema: %w", err)
	}
	page, err := writePage(comments, examples)
	if err != nil {
		return err
	}
	if err := os.WriteFile(pagePath, page, 0o644); err != nil {
		return fmt.Errorf("write page: %w", err)
	}
	return nil
}
