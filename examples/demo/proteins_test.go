package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// step runs proteins.sh in a folder with the given awk first in the path.
func step(t *testing.T, folder string, args ...string) {
	t.Helper()
	script, err := filepath.Abs("proteins.sh")
	if err != nil {
		t.Fatal(err)
	}
	command := exec.Command(script, args...)
	command.Dir = folder
	command.Env = append(os.Environ(), "PATH="+filepath.Join(folder, "bin")+":"+os.Getenv("PATH"))
	if messages, err := command.CombinedOutput(); err != nil {
		t.Fatalf("proteins.sh %s: %v\n%s", strings.Join(args, " "), err, messages)
	}
}

type protein struct{ name, residues string }

// randomProteins makes relatives of a few ancestors, so that there are hits
// of all sizes and ties.
func randomProteins(random *rand.Rand, prefix string, n int) []protein {
	ancestors := rand.New(rand.NewPCG(1, 1)) // the same for database and queries
	lines := make([]string, 4)
	for i := range lines {
		for range 80 {
			lines[i] += string("ACDEFGHIKLMNPQRSTVWY"[ancestors.IntN(20)])
		}
	}
	proteins := make([]protein, n)
	for i := range proteins {
		text := []byte(lines[random.IntN(len(lines))])
		for range random.IntN(8) {
			text[random.IntN(len(text))] = 'W'
		}
		from := random.IntN(40)
		proteins[i] = protein{fmt.Sprintf("%s%03d", prefix, random.IntN(100*n)), string(text[from : from+random.IntN(40)])}
	}
	return proteins
}

// fasta writes sequences over several lines, as databases do.
func fasta(proteins []protein) string {
	var text strings.Builder
	for _, p := range proteins {
		fmt.Fprintf(&text, ">tr|%s|%s_TEST Some protein\n", p.name, p.name)
		for chunk := range slices.Chunk([]byte(strings.ToLower(p.residues)), 7) {
			fmt.Fprintf(&text, "%s\n", chunk)
		}
	}
	return text.String()
}

// clean is the step of that name, said plainly.
func clean(proteins []protein) []protein {
	var kept []protein
	for _, p := range proteins {
		known := slices.ContainsFunc(kept, func(k protein) bool { return k.name == p.name })
		if len(p.residues) >= 5 && !known {
			kept = append(kept, p)
		}
	}
	return kept
}

func words(residues string) map[string]bool {
	set := map[string]bool{}
	for i := 0; i+5 <= len(residues); i++ {
		set[residues[i:i+5]] = true
	}
	return set
}

// wantedHits is the result by comparing everything with everything.
func wantedHits(database, queries []protein, most int) string {
	slices.SortFunc(queries, func(a, b protein) int { return strings.Compare(a.name, b.name) })
	text := ""
	for _, query := range queries {
		type hit struct {
			name   string
			shared int
		}
		var hits []hit
		own := words(query.residues)
		for _, p := range database {
			shared := 0
			for word := range words(p.residues) {
				if own[word] {
					shared++
				}
			}
			if shared >= 4 {
				hits = append(hits, hit{p.name, shared})
			}
		}
		slices.SortFunc(hits, func(a, b hit) int {
			if a.shared != b.shared {
				return b.shared - a.shared
			}
			return strings.Compare(a.name, b.name)
		})
		for _, h := range hits[:min(most, len(hits))] {
			text += fmt.Sprintf("%s\t%s\t%d\t%d\n", query.name, h.name, h.shared, 100*h.shared/len(own))
		}
	}
	return text
}

// TestToolAgainstOracle compares the tool, over several parts and chunks, with
// the plain comparison of everything with everything, for every awk here.
func TestToolAgainstOracle(t *testing.T) {
	tried := 0
	for _, name := range []string{"awk", "mawk", "gawk", "original-awk"} {
		awk, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		tried++
		t.Run(name, func(t *testing.T) { toolAgainstOracle(t, awk) })
	}
	if tried == 0 {
		t.Fatal("there is no awk: POSIX requires one")
	}
}

func toolAgainstOracle(t *testing.T, awk string) {
	random := rand.New(rand.NewPCG(5, 6))
	folder := t.TempDir()
	if err := os.Mkdir(filepath.Join(folder, "bin"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(awk, filepath.Join(folder, "bin", "awk")); err != nil {
		t.Fatal(err)
	}
	database, queries := randomProteins(random, "D", 60), randomProteins(random, "Q", 15)
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("database.fasta", fasta(database))
	write("queries.fasta", fasta(queries))
	step(t, folder, "clean", "database.fasta", "db.tsv")
	step(t, folder, "clean", "queries.fasta", "queries.tsv")
	step(t, folder, "split", "db.tsv", "3", "part.", ".tsv")
	step(t, folder, "split", "queries.tsv", "2", "chunk.", ".tsv")
	for _, p := range []string{"00", "01", "02"} {
		step(t, folder, "index", "part."+p+".tsv", "part."+p+".idx")
	}
	for _, c := range []string{"00", "01"} {
		for _, p := range []string{"00", "01", "02"} {
			step(t, folder, "search", "chunk."+c+".tsv", "part."+p+".idx", "hits."+c+"."+p+".tsv")
		}
		step(t, folder, "best", "3", "best."+c+".tsv", "hits."+c+".00.tsv", "hits."+c+".01.tsv", "hits."+c+".02.tsv")
	}
	step(t, folder, "best", "3", "best.tsv", "best.00.tsv", "best.01.tsv")
	step(t, folder, "report", "queries.tsv", "best.tsv", "report.tsv")

	want := wantedHits(clean(database), clean(queries), 3)
	got, err := os.ReadFile(filepath.Join(folder, "best.tsv"))
	if err != nil {
		t.Fatal(err)
	}
	if strings.Count(want, "\n") < 20 {
		t.Fatalf("the sequences give too few hits to prove anything:\n%s", want)
	}
	if string(got) != want {
		t.Errorf("best.tsv is\n%swant\n%s", got, want)
	}
	report, err := os.ReadFile(filepath.Join(folder, "report.tsv"))
	if err != nil {
		t.Fatal(err)
	}
	if lines := bytes.Count(report, []byte("\n")); lines != len(clean(queries)) {
		t.Errorf("the report has %d lines for %d queries:\n%s", lines, len(clean(queries)), report)
	}
}
