package chart

import (
	"bytes"
	"fmt"
	"html/template"
	"io"
	"strings"
)

// Table is a table of texts.
type Table struct {
	Name   string
	Title  string
	Header []string
	Rows   [][]string
}

// Text prints the table for a terminal, its columns aligned.
func (t *Table) Text(to io.Writer) error {
	widths := make([]int, len(t.Header))
	for _, row := range append([][]string{t.Header}, t.Rows...) {
		for i, cell := range row {
			widths[i] = max(widths[i], len([]rune(cell)))
		}
	}
	for _, row := range append([][]string{t.Header}, t.Rows...) {
		var line strings.Builder
		for i, cell := range row {
			line.WriteString(cell + strings.Repeat(" ", widths[i]-len([]rune(cell))+2))
		}
		if _, err := fmt.Fprintln(to, strings.TrimRight(line.String(), " ")); err != nil {
			return err
		}
	}
	return nil
}

// CSV writes the table as a figure's CSV is written.
func (t *Table) CSV(to io.Writer) error {
	return writeCSV(to, t.Name, append([][]string{t.Header}, t.Rows...))
}

// Page is a report.
type Page struct {
	Title    string
	Lead     []string // paragraphs before the rest
	Findings Table
	Figures  []*Figure
	Tables   []*Table
	Gantt    []*Gantt
}

var pageForm = template.Must(template.New("page").Parse(`<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>{{.Title}}</title>
<style>body{font:15px/1.45 sans-serif;max-width:64em;margin:2em auto;padding:0 1em;color:#222}
table{border-collapse:collapse;margin:1em 0}td,th{border:1px solid #bbb;padding:.2em .6em;text-align:left;vertical-align:top}
th{background:#eee}figure{margin:1.5em 0}svg{max-width:100%;height:auto}</style></head><body>
<h1>{{.Title}}</h1>{{range .Lead}}<p>{{.}}</p>{{end}}
{{range .Tables}}<h2>{{.Title}}</h2><table><tr>{{range .Header}}<th>{{.}}</th>{{end}}</tr>
{{range .Rows}}<tr>{{range .}}<td>{{.}}</td>{{end}}</tr>
{{end}}</table>{{end}}
{{range .Drawings}}<figure>{{.}}</figure>
{{end}}</body></html>
`))

// Files are the page as files: figures, named Gantt charts and tables, each in its
// formats, and report.html with everything.
func (p *Page) Files() map[string]func(io.Writer) error {
	files := map[string]func(io.Writer) error{"report.html": p.HTML}
	for _, f := range p.Figures {
		files[f.Name+".csv"], files[f.Name+".svg"], files[f.Name+".png"] = f.CSV, f.SVG, f.PNG
	}
	for _, g := range p.Gantt {
		if g.Name != "" {
			files[g.Name+".csv"], files[g.Name+".svg"] = g.CSV, g.SVG
		}
	}
	for _, t := range append([]*Table{&p.Findings}, p.Tables...) {
		if len(t.Rows) > 0 {
			files[t.Name+".csv"] = t.CSV
		}
	}
	return files
}

// HTML writes the page; drawings are inside.
func (p *Page) HTML(to io.Writer) error {
	view := struct {
		Title    string
		Lead     []string
		Tables   []*Table
		Drawings []template.HTML
	}{Title: p.Title, Lead: p.Lead}
	if len(p.Findings.Rows) > 0 {
		view.Tables = append(view.Tables, &p.Findings)
	}
	view.Tables = append(view.Tables, p.Tables...)
	drawings := make([]interface{ SVG(io.Writer) error }, 0, len(p.Figures)+len(p.Gantt))
	for _, f := range p.Figures {
		drawings = append(drawings, f)
	}
	for _, g := range p.Gantt {
		drawings = append(drawings, g)
	}
	for _, d := range drawings {
		var svg bytes.Buffer
		if err := d.SVG(&svg); err != nil {
			return err
		}
		text := svg.String()
		if at := strings.Index(text, "<svg"); at > 0 { // without the XML declaration
			text = text[at:]
		}
		view.Drawings = append(view.Drawings, template.HTML(text)) // our own drawing: labels are escaped in it
	}
	if err := pageForm.Execute(to, view); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	return nil
}
