package dax_test

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/task/workflow"
	"github.com/pilotage-grid/pilotage/task/workflow/dax"
)

func chain(t testing.TB) string {
	t.Helper()
	data, err := os.ReadFile("testdata/chain.xml")
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestReadTakesTheProducersSizeElseTheLargest(t *testing.T) {
	w, err := dax.Read("chain.xml", []byte(chain(t)))
	if err != nil {
		t.Fatal(err)
	}
	if w.Name != "letters" || len(w.Tasks) != 3 || w.Tasks[0].Runtime != 1500*time.Millisecond {
		t.Errorf("%+v", w)
	}
	sizes := make(map[string]int64)
	for _, f := range w.Files {
		sizes[f.Name] = int64(f.Size)
	}
	if sizes["part.1"] != 480 || sizes["words"] != 90 || sizes["text"] != 1000 {
		t.Errorf("%v", sizes)
	}
	notes := strings.Join(w.Notes, "\n")
	if !strings.Contains(notes, "part.1 is given different sizes: 480 bytes taken") || !strings.Contains(notes, "words is given different sizes: 90") {
		t.Error(notes)
	}
}

func TestReadNamesTheLineOfAnError(t *testing.T) {
	for _, c := range []struct{ name, old, fresh, want string }{
		{"broken XML", `</job>`, `</jab>`, "chain.xml:7:1: this is no XML"},
		{"cut off", "</adag>", "", "this is no XML"},
		{"root", "adag", "dag", `the root element is "dag"`},
		{"newer", `version="2.1" name`, `version="3.6" name`, "this is DAX 3.6"},
		{"no size", ` size="8"`, ``, `chain.xml:8:1: no job says how large file "count.1" is`},
		{"odd size", `size="8"`, `size="eight"`, `chain.xml:11:1: job "ID2" gives file "count.1" the size "eight"`},
		{"no run time", ` runtime="2"`, ``, `chain.xml:8:1: job "ID2" has the run time ""`},
		{"link", `link="input" size="70"`, `link="both" size="70"`, `chain.xml:10:1: job "ID2" uses file "words" with link "both"`},
		{"two of one id", `id="ID3"`, `id="ID1"`, `chain.xml:13:1: two jobs have the id "ID1"`},
		{"cycle", `file="text" link="input" size="1000"`, `file="count.1" link="input"`, "tasks wait for one another: ID1 -> ID2 -> ID1"},
		{"unknown parent", `<parent ref="ID1"/>`, `<parent ref="ID7"/>`, `chain.xml:16:1: task ID2 comes after ID7`},
	} {
		t.Run(c.name, func(t *testing.T) {
			text := strings.ReplaceAll(chain(t), c.old, c.fresh)
			if text == chain(t) {
				t.Fatal("the case changes nothing")
			}
			_, err := dax.Read("chain.xml", []byte(text))
			var place *workflow.Error
			if !errors.As(err, &place) || !strings.Contains(err.Error(), c.want) || place.At.Line == 0 {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func FuzzRead(f *testing.F) {
	f.Add(chain(f))
	f.Add(`<adag><job id="a" runtime="1"><uses file="x" link="inout" size="1"/></job></adag>`)
	f.Fuzz(func(t *testing.T, text string) {
		w, err := dax.Read("f", []byte(text))
		if err != nil {
			var place *workflow.Error
			if !errors.As(err, &place) || place.At.Line == 0 {
				t.Errorf("%T: %v", err, err)
			}
			return
		}
		if _, err := w.Order(); err != nil {
			t.Error(err)
		}
	})
}
