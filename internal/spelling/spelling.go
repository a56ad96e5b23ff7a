// Package spelling finds what a mistyped word was meant to be.
package spelling

import "strings"

// longest is how much is compared: the distance costs length squared.
const longest = 128

// Nearest returns the known word that is closest to a wrong one, in whatever
// case it is written, or "" when none is within so many edits. The first of
// equals wins.
func Nearest(word string, known []string, edits int) string {
	best, least := "", edits+1
	if len(word) > longest {
		return ""
	}
	for _, candidate := range known {
		if difference := len(candidate) - len(word); difference >= least || -difference >= least {
			continue
		}
		if d := distance(strings.ToLower(word), strings.ToLower(candidate)); d < least {
			best, least = candidate, d
		}
	}
	return best
}

// distance counts the insertions, deletions, replacements and swaps of
// neighbours that turn a into b (optimal string alignment).
func distance(a, b string) int {
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
