package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/pilotage-grid/pilotage/task"
)

// console is where a command writes.
type console struct {
	stdout, stderr io.Writer
	output         string // table, json, jsonl
}

// show writes a value for programs (json, jsonl), or says it to people. A slice is
// one JSON document, or one line per element.
func (o *console) show(value any, people func() error) error {
	list := reflect.ValueOf(value)
	switch {
	case o.output == "table":
		return people()
	case o.output == "json" || list.Kind() != reflect.Slice:
		return o.printJSON(value)
	}
	for i := range list.Len() {
		if err := o.printJSON(list.Index(i).Interface()); err != nil {
			return err
		}
	}
	return nil
}

// print shows a value, to people as a table.
func (o *console) print(value any, header []string, rows [][]string) error {
	return o.show(value, func() error { return o.table(header, rows) })
}

// printList shows a list, to people as a table with a row for each element.
func printList[T any](o *console, list []T, header []string, row func(T) []any) error {
	return o.show(list, func() error { return o.table(header, rowsOf(list, row)) })
}

// rowsOf makes the rows of a table; a cell that would be empty has a dash.
func rowsOf[T any](list []T, row func(T) []any) [][]string {
	rows := make([][]string, len(list))
	for i, element := range list {
		for _, cell := range row(element) {
			rows[i] = append(rows[i], orDash(fmt.Sprint(cell)))
		}
	}
	return rows
}

func (o *console) printJSON(value any) error {
	encode := json.Marshal
	if o.output == "json" {
		encode = func(value any) ([]byte, error) { return json.MarshalIndent(value, "", "  ") }
	}
	data, err := encode(plain(value))
	if err != nil {
		return fmt.Errorf("encode the answer: %w", err)
	}
	_, err = fmt.Fprintln(o.stdout, string(data))
	return err
}

func (o *console) table(header []string, rows [][]string) error {
	w := tabwriter.NewWriter(o.stdout, 0, 4, 2, ' ', 0)
	if header != nil {
		rows = slices.Concat([][]string{header}, rows)
	}
	for _, row := range rows {
		cells := make([]string, len(row))
		for i, cell := range row {
			cells[i] = cellText(cell)
		}
		if _, err := fmt.Fprintln(w, strings.Join(cells, "\t")); err != nil {
			return err
		}
	}
	return w.Flush()
}

// done ends a command that changed something, unless it failed: a document for
// programs, a sentence for people.
func (o *console) done(err error, value any, format string, args ...any) error {
	if err != nil {
		return err
	}
	return o.show(value, func() error {
		_, err := fmt.Fprintf(o.stdout, format+"\n", args...)
		return err
	})
}

// say writes a line for people; programs' output stays clean of it.
func (o *console) say(format string, args ...any) {
	if o.output == "table" {
		_, _ = fmt.Fprintf(o.stdout, format, args...)
	}
}

// note writes to stderr what is no part of the answer.
func (o *console) note(format string, args ...any) { _, _ = fmt.Fprintf(o.stderr, format, args...) }

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
	return cmp.Or(text, "-")
}
