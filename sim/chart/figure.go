package chart

import (
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"
)

// Figure is a set of curves over one axis.
type Figure struct {
	Name   string // of its files, without ending
	Title  string
	X, Y   string // what the axes show, with units
	LogX   bool
	LogY   bool // where all values are above 0
	Dots   bool // no lines between the points
	Series []Series
}

// Series is one curve.
type Series struct {
	Name   string
	Points []Point
}

// Point is one value; Spread is the standard deviation of the mean behind it, 0
// for none.
type Point struct{ X, Y, Spread float64 }

// CSV writes a line for each point: series, x, y, spread.
func (f *Figure) CSV(to io.Writer) error {
	rows := [][]string{{"series", f.X, f.Y, "standard deviation of the mean"}}
	for _, s := range f.Series {
		for _, p := range s.Points {
			rows = append(rows, []string{s.Name, number(p.X), number(p.Y), number(p.Spread)})
		}
	}
	return writeCSV(to, f.Name, rows)
}

func writeCSV(to io.Writer, name string, rows [][]string) error {
	if err := csv.NewWriter(to).WriteAll(rows); err != nil {
		return fmt.Errorf("write %s.csv: %w", name, err)
	}
	return nil
}

func number(x float64) string { return strconv.FormatFloat(x, 'g', 6, 64) }

const width, height = 15 * vg.Centimeter, 9.5 * vg.Centimeter

// SVG draws the figure as scalable graphics.
func (f *Figure) SVG(to io.Writer) error {
	canvas := vgsvg.New(width, height)
	return f.draw(to, canvas, canvas)
}

// PNG draws the figure as an image.
func (f *Figure) PNG(to io.Writer) error {
	canvas := vgimg.PngCanvas{Canvas: vgimg.NewWith(vgimg.UseWH(width, height), vgimg.UseDPI(144))}
	return f.draw(to, canvas, canvas)
}

func (f *Figure) draw(to io.Writer, canvas vg.CanvasSizer, written io.WriterTo) error {
	p, err := f.plot()
	if err != nil {
		return fmt.Errorf("draw %s: %w", f.Name, err)
	}
	p.Draw(draw.New(canvas))
	if _, err := written.WriteTo(to); err != nil {
		return fmt.Errorf("write %s: %w", f.Name, err)
	}
	return nil
}

func (f *Figure) plot() (*plot.Plot, error) {
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = f.Title, f.X, f.Y
	p.Legend.Top, p.Legend.Left = true, true
	p.Add(plotter.NewGrid())
	least := math.Inf(1)
	for i, s := range f.Series {
		points := values(s.Points)
		for _, one := range s.Points {
			least = math.Min(least, one.Y-one.Spread)
		}
		line, dots, err := plotter.NewLinePoints(points)
		if err != nil {
			return nil, fmt.Errorf("series %s: %w", s.Name, err)
		}
		line.Color, dots.Color = plotutil.Color(i), plotutil.Color(i)
		line.Dashes, dots.Shape = plotutil.Dashes(i), plotutil.Shape(i)
		if f.Dots {
			p.Add(dots)
			p.Legend.Add(s.Name, dots)
			continue
		}
		p.Add(line)
		p.Legend.Add(s.Name, line, dots)
		if len(s.Points) <= 40 {
			p.Add(dots)
		}
		if err := addSpreads(p, points, i); err != nil {
			return nil, fmt.Errorf("series %s: %w", s.Name, err)
		}
	}
	if least >= 0 {
		p.Y.Min = 0
	}
	// Room above the curves for the legend: each of its lines is about a
	// twentieth of the height.
	p.Y.Max = p.Y.Min + (p.Y.Max-p.Y.Min)/(1-min(0.5, 0.02+0.045*float64(len(f.Series))))
	if f.LogY && least > 0 {
		p.Y.Min = least / 2
		p.Y.Max *= 2
		p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1}
	}
	if f.LogX {
		p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1}
	}
	return p, nil
}

// addSpreads draws error bars, if there is any spread.
func addSpreads(p *plot.Plot, points values, colour int) error {
	if !slices.ContainsFunc(points, func(one Point) bool { return one.Spread > 0 }) {
		return nil
	}
	bars, err := plotter.NewYErrorBars(points)
	if err != nil {
		return err
	}
	bars.Color = plotutil.Color(colour)
	p.Add(bars)
	return nil
}

// values gives points with spreads to the plotter.
type values []Point

// Len is the number of points.
func (v values) Len() int { return len(v) }

// XY is the place of a point.
func (v values) XY(i int) (x, y float64) { return v[i].X, v[i].Y }

// YError is how far the spread of a point reaches down and up.
func (v values) YError(i int) (low, high float64) { return v[i].Spread, v[i].Spread }
