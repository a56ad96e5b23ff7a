package wire

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/pilotage-grid/pilotage/matcher"
	"github.com/pilotage-grid/pilotage/task"
)

// digestKey marks a key that travels as the bytes of its digest: half as long
// as its text.
const digestKey = 0

func keyToBytes(k *task.FileKey) []byte {
	digest, found := k.Digest()
	if !found || task.KeyOf("", digest) != *k {
		return []byte(*k)
	}
	return append([]byte{digestKey}, digest[:]...)
}

func keyFromBytes(data *[]byte) (task.FileKey, error) {
	if len(*data) == 0 || (*data)[0] != digestKey {
		return task.FileKey(*data), nil
	}
	var digest task.Digest
	if len(*data) != 1+len(digest) {
		return "", fmt.Errorf("a key with %d bytes of a digest, which has %d", len(*data)-1, len(digest))
	}
	copy(digest[:], (*data)[1:])
	return task.KeyOf("", digest), nil
}

// columns are the tasks that a pilot ranks otherwise than their class says, each
// at one index of every list. Clauses that fail are told once.
type columns struct {
	Numbers []int64 // each the difference from the one before
	Ranks   []float64
	Failed  []uint32 // 0 where the pilot can run the task, else 1 + the place in Clauses; empty where it can run all
	Clauses []string
}

func toColumns(list *[]matcher.Exception) columns {
	out := columns{Numbers: make([]int64, len(*list)), Ranks: make([]float64, len(*list))}
	places := make(map[string]uint32)
	var before uint64
	for i, e := range *list {
		// The subtraction wraps around, so that any numbers come back as they were.
		out.Numbers[i], before = int64(e.No-before), e.No
		out.Ranks[i] = e.Rank
		if !e.Infeasible {
			continue
		}
		if out.Failed == nil {
			out.Failed = make([]uint32, len(*list))
		}
		if _, known := places[e.FailedClause]; !known {
			out.Clauses = append(out.Clauses, e.FailedClause)
			places[e.FailedClause] = uint32(len(out.Clauses))
		}
		out.Failed[i] = places[e.FailedClause]
	}
	return out
}

func fromColumns(in *columns) ([]matcher.Exception, error) {
	n := len(in.Numbers)
	if len(in.Ranks) != n || len(in.Failed) != 0 && len(in.Failed) != n {
		return nil, fmt.Errorf("%d numbers, %d ranks, %d failed", n, len(in.Ranks), len(in.Failed))
	}
	if n == 0 {
		return nil, nil
	}
	var number uint64
	out := make([]matcher.Exception, n)
	for i := range out {
		number += uint64(in.Numbers[i])
		out[i] = matcher.Exception{No: number, Rank: in.Ranks[i]}
		if len(in.Failed) == 0 || in.Failed[i] == 0 {
			continue
		}
		if int(in.Failed[i]) > len(in.Clauses) {
			return nil, fmt.Errorf("clause %d of %d", in.Failed[i], len(in.Clauses))
		}
		out[i].Infeasible, out[i].FailedClause = true, in.Clauses[in.Failed[i]-1]
	}
	return out, nil
}

// variables are those of an environment by their names.
type variables struct{ Names, Values []string }

func toVariables(env *map[string]string) variables {
	names := slices.Sorted(maps.Keys(*env))
	out := variables{Names: names}
	for _, name := range names {
		out.Values = append(out.Values, (*env)[name])
	}
	return out
}

func fromVariables(in *variables) (map[string]string, error) {
	if len(in.Names) != len(in.Values) {
		return nil, fmt.Errorf("%d variables have %d values", len(in.Names), len(in.Values))
	}
	env := make(map[string]string, len(in.Names))
	for i, name := range in.Names {
		env[name] = in.Values[i]
	}
	return env, nil
}

// moment is a time; the year 1 has no number of nanoseconds.
type moment struct {
	Seconds int64
	Nanos   int64
}

func toMoment(at *time.Time) moment { return moment{at.Unix(), int64(at.Nanosecond())} }

func fromMoment(m *moment) (time.Time, error) { return time.Unix(m.Seconds, m.Nanos).UTC(), nil }
