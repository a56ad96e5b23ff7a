package workflow

import (
	"fmt"
	"strings"
)

// nearest returns the known word that is closest to a wrong one by edit
// distance, or "" when none is close enough to be what was meant: at most a
// third of the word may differ. The first of equals wins.
func nearest(word string, known []string) string {
	const longest = 128 // of what is compared: the distance costs length squared
	best, bestDistance := "", len(word)/3+1
	if len(word) > longest {
		return ""
	}
	for _, candidate := range known {
		if difference := len(candidate) - len(word); difference > bestDistance || -difference > bestDistance {
			continue
		}
		if distance := editDistance(strings.ToLower(word), strings.ToLower(candidate)); distance < bestDistance {
			best, bestDistance = candidate, distance
		}
	}
	return best
}

// didYouMean is the hint for a wrong word; otherwise is used when no known
// word is near.
func didYouMean(word string, known []string, otherwise string) string {
	if near := nearest(word, known); near != "" {
		return fmt.Sprintf("did you mean %q?", near)
	}
	return otherwise
}

// editDistance counts the insertions, deletions, replacements and swaps of
// neighbours that turn a into b (optimal string alignment).
func editDistance(a, b string) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
