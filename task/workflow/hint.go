package workflow

import (
	"fmt"

	"github.com/pilotage-grid/pilotage/internal/spelling"
)

// didYouMean is the hint for a wrong word; otherwise is used when no known
// word is near: a third of it may differ.
func didYouMean(word string, known []string, otherwise string) string {
	if near := spelling.Nearest(word, known, len(word)/3); near != "" {
		return fmt.Sprintf("did you mean %q?", near)
	}
	return otherwise
}
