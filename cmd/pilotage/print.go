package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/pilotage-grid/pilotage/task"
)

// print writes a value for programs (json, jsonl) or a table for people. A
// slice is one JSON document, or one line per element.
func (a *app) print(value any, header []string, rows [][]string) error {
	switch a.output {
	case "json":
		return a.printJSON(value, true)
	case "jsonl":
		list := reflect.ValueOf(value)
		if list.Kind() != reflect.Slice {
			return a.printJSON(value, false)
		}
		for i := range list.Len() {
			if err := a.printJSON(list.Index(i).Interface(), false); err != nil {
				return err
			}
		}
		return nil
	}
	return a.table(header, rows)
}

func (a *app) printJSON(value any, indent bool) error {
	data, err := toJSON(value)
	if err != nil {
		return fmt.Errorf("encode the answer: %w", err)
	}
	var text bytes.Buffer
	if indent {
		err = json.Indent(&text, data, "", "  ")
	} else {
		err = json.Compact(&text, data)
	}
	if err != nil {
		return fmt.Errorf("encode the answer: %w", err)
	}
	_, err = fmt.Fprintln(a.stdout, text.String())
	return err
}

func (a *app) table(header []string, rows [][]string) error {
	w := tabwriter.NewWriter(a.stdout, 0, 4, 2, ' ', 0)
	if len(header) > 0 {
		if _, err := fmt.Fprintln(w, strings.Join(header, "\t")); err != nil {
			return err
		}
	}
	for _, row := range rows {
		if _, err := fmt.Fprintln(w, strings.Join(row, "\t")); err != nil {
			return err
		}
	}
	return w.Flush()
}

// done ends a command that changed something: a document for programs, a
// sentence for people.
func (a *app) done(value any, format string, args ...any) error {
	if a.output != "table" {
		return a.printJSON(value, a.output == "json")
	}
	_, err := fmt.Fprintf(a.stdout, format+"\n", args...)
	return err
}

// say writes a line for people; programs' output stays clean of it.
func (a *app) say(format string, args ...any) {
	if a.output == "table" {
		_, _ = fmt.Fprintf(a.stdout, format, args...)
	}
}

// inUTC is how tables write a time.
const inUTC = time.DateTime + " UTC"

func ago(t time.Time, now time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return now.Sub(t).Round(time.Second).String()
}

func percent(part, whole uint64) string {
	if whole == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f %%", 100*float64(part)/float64(whole))
}

// sizeText is a file's size; one that nobody knows yet is below 0.
func sizeText(bytes int64) string {
	if bytes < 0 {
		return "-"
	}
	return task.Bytes(bytes).String()
}

func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}
