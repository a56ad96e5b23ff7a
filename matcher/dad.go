package matcher

import (
	"fmt"
	"regexp"
	"strconv"
)

// FileLocality is 000's difficulty of reading a task's inputs on a node, from
// 0 (all are there) to 1 (none is): half of (missing - local bytes) / all
// bytes + 1 (section IV-A, equation 1, with the bracket where the text needs
// it). A task without inputs has 0, as no node is better than another. A file
// that is empty or not measured counts as one byte.
func FileLocality(files []FileInfo, has func(FileInfo) bool) float64 {
	missing, all := 0.0, 0.0
	for _, file := range files {
		size := max(1, float64(file.Size))
		all += size
		if !has(file) {
			missing += size
		}
	}
	if all == 0 {
		return 0
	}
	// (missing - (all - missing)) / all, plus 1, by 2
	return missing / all
}

// Score weighs the locality of a node against its load (000, equation 2): the
// smaller, the better. load is the load average per CPU, cut to [0,1].
func Score(locality, load, beta float64) float64 {
	return locality*beta + min(max(load, 0), 1)*(1-beta)
}

// dadPattern is the rank by name, for example dad(0.8).
var dadPattern = regexp.MustCompile(`^dad\(\s*([0-9]+(?:\.[0-9]*)?)\s*\)$`)

// dadBeta reads the rank's name; found is false for other ranks.
func dadBeta(text string) (beta float64, found bool, err error) {
	match := dadPattern.FindStringSubmatch(text)
	if match == nil {
		return 0, false, nil
	}
	beta, err = strconv.ParseFloat(match[1], 64)
	if err != nil || beta > 1 {
		return 0, true, &ExpressionError{
			Kind: RankExpression, Line: 1, Column: 1,
			Message: fmt.Sprintf("%s weighs locality with %s", text, match[1]),
			Hint:    "beta is from 0 (load alone) to 1 (locality alone), for example dad(0.8)",
		}
	}
	return beta, true, nil
}

// dadRank is minus the score. Its load is the pilot's part, so that only
// tasks with a local input are exceptions; beta may differ from task to task
// (000, section VI, future work).
func dadRank(text string) (rank *Rank, found bool, err error) {
	beta, found, err := dadBeta(text)
	if !found || err != nil {
		return nil, found, err
	}
	return &Rank{
		policy: func(files []FileInfo, has func(FileInfo) bool, _ Rates) float64 {
			return 0 - Score(FileLocality(files, has), 0, beta)
		},
		ofPilot: func(pilot *Pilot) float64 { return 0 - Score(0, pilot.Load, beta) },
		uses:    Uses{Task: true, Files: true},
	}, true, nil
}
