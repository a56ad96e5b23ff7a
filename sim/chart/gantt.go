package chart

import (
	"bufio"
	"fmt"
	"html"
	"io"
	"time"

	"github.com/pilotage-grid/pilotage/sim"
)

// Gantt shows what every row (a worker, or a slot) did over time.
type Gantt struct {
	Name  string // of its files, without ending
	Title string
	Rows  []string // their names, from the top
	Bars  []sim.Bar
	End   time.Duration
}

var barColours = map[sim.BarKind]string{sim.Waiting: "#d9d9d9", sim.Transferring: "#e08214", sim.Computing: "#4575b4"}

// CSV writes a line for each bar: row, kind, start and end in seconds.
func (g *Gantt) CSV(to io.Writer) error {
	rows := [][]string{{"row", "kind", "from (s)", "to (s)"}}
	for _, bar := range g.Bars {
		if bar.Row >= 0 && bar.Row < len(g.Rows) {
			rows = append(rows, []string{g.Rows[bar.Row], bar.Kind.String(), number(bar.From.Seconds()), number(bar.To.Seconds())})
		}
	}
	return writeCSV(to, g.Name, rows)
}

// ganttTicks is how many parts the axis of time has.
const ganttTicks = 4

// SVG draws the chart: grey waits, orange reads inputs, blue computes.
func (g *Gantt) SVG(to io.Writer) error {
	const left, line, wide = 150, 16, 900
	tall := 40 + line*len(g.Rows)
	out := bufio.NewWriter(to)
	fmt.Fprintf(out, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="11">`+"\n", left+wide+40, tall+20)
	fmt.Fprintf(out, `<text x="4" y="16" font-size="14">%s (grey: waiting, orange: reading inputs, blue: computing; %s in all)</text>`+"\n", html.EscapeString(g.Title), g.End.Round(time.Second/10))
	for i, name := range g.Rows {
		fmt.Fprintf(out, `<text x="4" y="%d">%s</text>`+"\n", 36+line*i+11, html.EscapeString(name))
	}
	for _, bar := range g.Bars {
		if bar.Row < 0 || bar.Row >= len(g.Rows) || g.End <= 0 {
			continue
		}
		x := float64(wide) * bar.From.Seconds() / g.End.Seconds()
		w := float64(wide) * (bar.To - bar.From).Seconds() / g.End.Seconds()
		fmt.Fprintf(out, `<rect x="%.2f" y="%d" width="%.2f" height="%d" fill="%s"/>`+"\n", left+x, 36+line*bar.Row, w, line-3, barColours[bar.Kind])
	}
	for i := range ganttTicks + 1 {
		x := left + wide*i/ganttTicks
		at := g.End * time.Duration(i) / ganttTicks
		fmt.Fprintf(out, `<line x1="%d" y1="32" x2="%d" y2="%d" stroke="#bbb"/>`+"\n", x, x, tall)
		fmt.Fprintf(out, `<text x="%d" y="%d" text-anchor="middle">%s</text>`+"\n", x, tall+14, at.Round(time.Second/10))
	}
	fmt.Fprintln(out, "</svg>")
	if err := out.Flush(); err != nil {
		return fmt.Errorf("draw the Gantt chart: %w", err)
	}
	return nil
}
