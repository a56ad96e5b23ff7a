package chart_test

import (
	"bytes"
	"encoding/xml"
	"errors"
	"image/png"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/sim"
	"github.com/pilotage-grid/pilotage/sim/chart"
)

func figure() *chart.Figure {
	return &chart.Figure{Name: "f", Title: "A & B <1>", X: "x", Y: "y (s)", Series: []chart.Series{
		{Name: "rest", Points: []chart.Point{{1, 2, 0.5}, {2, 4, 0}}}, {Name: "rest.2", Points: []chart.Point{{1, 1, 0}, {2, 2, 0}}},
	}}
}

func TestFiguresBecomeFilesOfTheirKind(t *testing.T) {
	var text, image bytes.Buffer
	if err := figure().CSV(&text); err != nil || !strings.HasSuffix(text.String(), "rest.2,2,2,0\n") {
		t.Errorf("%v: %s", err, text.String())
	}
	if err := figure().PNG(&image); err != nil {
		t.Fatal(err)
	}
	if _, err := png.Decode(&image); err != nil {
		t.Error(err)
	}
	text.Reset()
	if err := figure().SVG(&text); err != nil {
		t.Fatal(err)
	}
	wellFormed(t, text.String())
}

func wellFormed(t *testing.T, text string) {
	t.Helper()
	decoder := xml.NewDecoder(strings.NewReader(text))
	for {
		if _, err := decoder.Token(); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

func TestGanttBecomesFilesOfItsKind(t *testing.T) {
	g := &chart.Gantt{Title: "a & b", Rows: []string{"w 1"}, Bars: []sim.Bar{{Kind: sim.Transferring, From: time.Second, To: 2500 * time.Millisecond}, {Row: 9, To: 5}}, End: 3 * time.Second}
	var text bytes.Buffer
	if err := g.CSV(&text); err != nil || text.String() != "row,kind,from (s),to (s)\nw 1,transferring,1,2.5\n" {
		t.Errorf("%v: %s", err, text.String())
	}
	text.Reset()
	if err := g.SVG(&text); err != nil || !strings.Contains(text.String(), "3s in all") || !strings.Contains(text.String(), ">1.5s</text>") {
		t.Errorf("%v: %s", err, text.String())
	}
	wellFormed(t, text.String())
}

func TestPageHoldsEverythingItself(t *testing.T) {
	page := &chart.Page{
		Title: "<T>", Lead: []string{"a & b"}, Figures: []*chart.Figure{figure()},
		Tables: []*chart.Table{{Title: "t", Header: []string{"h"}, Rows: [][]string{{"<cell>"}}}},
		Gantt:  []*chart.Gantt{{Title: "g", Rows: []string{"w<0>"}, Bars: []sim.Bar{{Kind: sim.Computing, To: time.Second}, {Row: 7, To: 5}}, End: 2 * time.Second}},
	}
	var out bytes.Buffer
	if err := page.HTML(&out); err != nil {
		t.Fatal(err)
	}
	text := out.String()
	for _, want := range []string{"&lt;T&gt;", "a &amp; b", "&lt;cell&gt;", "w&lt;0&gt;", `width="450.00"`} {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if strings.Count(text, "<svg") != 2 || strings.Contains(text, "src=") || strings.Contains(text, "<?xml") {
		t.Error("the page needs other files, or lacks a drawing")
	}
}
