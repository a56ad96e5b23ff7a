package cache

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/pilotage-grid/pilotage/task"
)

// oracle is the obvious cache: a slice in order of use, sums counted anew.
type oracle struct {
	capacity, high, low task.Bytes
	files               []oracleFile // least recently used first
	reservations        map[task.FileKey]task.Bytes
}

type oracleFile struct {
	key  task.FileKey
	size task.Bytes
	pins int
	sole bool
}

func (o *oracle) find(key task.FileKey) int {
	return slices.IndexFunc(o.files, func(f oracleFile) bool { return f.key == key })
}

func (o *oracle) sum(which func(oracleFile) bool) (total task.Bytes) {
	for _, f := range o.files {
		if which(f) {
			total += f.size
		}
	}
	return total
}

func (o *oracle) taken() task.Bytes {
	total := o.sum(func(oracleFile) bool { return true })
	for _, size := range o.reservations {
		total += size
	}
	return total
}

func oracleEvictable(f oracleFile) bool { return f.pins == 0 && !f.sole }

// room is the plain statement of the rule: refuse if it cannot fit, else
// evict the oldest evictable files when beyond the high mark, to the low mark.
func (o *oracle) room(need task.Bytes) (evicted []task.FileKey, fits bool) {
	if o.taken()-o.sum(oracleEvictable)+need > o.capacity {
		return nil, false
	}
	if o.taken()+need <= o.high {
		return nil, true
	}
	for o.taken()+need > o.low {
		i := slices.IndexFunc(o.files, oracleEvictable)
		if i < 0 {
			break
		}
		evicted = append(evicted, o.files[i].key)
		o.files = slices.Delete(o.files, i, i+1)
	}
	return evicted, true
}

// touch moves a file to the most recent end after changing it.
func (o *oracle) touch(i int, change func(*oracleFile)) {
	f := o.files[i]
	o.files = slices.Delete(o.files, i, i+1)
	change(&f)
	o.files = append(o.files, f)
}

// checkInvariants compares every count and membership, and what must hold
// whatever happened before.
func checkInvariants(t *rapid.T, x *Index, o *oracle) {
	t.Helper()
	usage := x.Usage()
	var reserved task.Bytes
	for _, size := range o.reservations {
		reserved += size
	}
	want := IndexUsage{
		Capacity: o.capacity, Used: o.sum(func(oracleFile) bool { return true }), Reserved: reserved,
		Pinned: o.sum(func(f oracleFile) bool { return f.pins > 0 }), Sole: o.sum(func(f oracleFile) bool { return f.sole }),
		Evictable: o.sum(oracleEvictable), Files: len(o.files), Evictions: usage.Evictions,
	}
	if usage != want {
		t.Fatalf("usage %+v, the oracle counts %+v", usage, want)
	}
	if usage.Used+usage.Reserved > usage.Capacity {
		t.Fatalf("%s used and %s reserved exceed %s", usage.Used, usage.Reserved, usage.Capacity)
	}
	for _, f := range o.files {
		if !x.Contains(f.key) {
			t.Fatalf("the index lost %s (pins %d, sole %t)", f.key, f.pins, f.sole)
		}
	}
}

func checkEvicted(t *rapid.T, got []task.FileKey, err error, want []task.FileKey, fits bool) bool {
	t.Helper()
	var noSpace *NoSpaceError
	if fits != (err == nil) || err != nil && !errors.As(err, &noSpace) {
		t.Fatalf("error %v, the oracle says that it fits: %t", err, fits)
	}
	if !slices.Equal(got, want) {
		t.Fatalf("evicted %v, the oracle %v", got, want)
	}
	return fits
}

func TestIndexAgainstOracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		capacity := task.Bytes(rapid.IntRange(1, 200).Draw(t, "capacity"))
		low := rapid.Float64Range(0.1, 1).Draw(t, "low")
		high := rapid.Float64Range(low, 1).Draw(t, "high")
		x, err := NewIndex(IndexConfig{Capacity: capacity, HighWater: high, LowWater: low})
		if err != nil {
			t.Fatal(err)
		}
		o := &oracle{
			capacity: capacity, high: task.Bytes(float64(capacity) * high), low: task.Bytes(float64(capacity) * low),
			reservations: map[task.FileKey]task.Bytes{},
		}
		keys := rapid.SampledFrom([]task.FileKey{"a", "b", "c", "d", "e", "f", "g", "h"})
		sizes := rapid.Custom(func(t *rapid.T) task.Bytes { return task.Bytes(rapid.IntRange(0, 80).Draw(t, "size")) })
		pinChange := func(t *rapid.T, by int, apply func(task.FileKey) error) {
			key := keys.Draw(t, "key")
			i := o.find(key)
			allowed := i >= 0 && o.files[i].pins+by >= 0
			if err := apply(key); (err == nil) != allowed || err != nil && !errors.Is(err, ErrUnknown) {
				t.Fatalf("pin change of %s: %v", key, err)
			}
			if allowed {
				o.touch(i, func(f *oracleFile) { f.pins += by })
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"": func(t *rapid.T) { checkInvariants(t, x, o) },
			"reserve": func(t *rapid.T) {
				key, size := keys.Draw(t, "key"), sizes.Draw(t, "size")
				got, err := x.Reserve(key, size)
				_, reserved := o.reservations[key]
				switch {
				case o.find(key) >= 0:
					if !errors.Is(err, ErrPresent) {
						t.Fatalf("reserve of a present file: %v", err)
					}
				case reserved:
					if !errors.Is(err, ErrReserved) {
						t.Fatalf("second reservation: %v", err)
					}
				default:
					want, fits := o.room(size)
					if checkEvicted(t, got, err, want, fits) {
						o.reservations[key] = size
					}
				}
			},
			"grow": func(t *rapid.T) {
				key, by := keys.Draw(t, "key"), sizes.Draw(t, "by")
				got, err := x.Grow(key, by)
				if _, reserved := o.reservations[key]; !reserved {
					if !errors.Is(err, ErrUnknown) {
						t.Fatalf("grow without reservation: %v", err)
					}
					return
				}
				want, fits := o.room(by)
				if checkEvicted(t, got, err, want, fits) {
					o.reservations[key] += by
				}
			},
			"commit": func(t *rapid.T) {
				from, to := keys.Draw(t, "from"), keys.Draw(t, "to")
				sole := rapid.Bool().Draw(t, "sole")
				held, reserved := o.reservations[from]
				size := min(sizes.Draw(t, "size"), held)
				err := x.Commit(from, to, size, sole)
				if allowed := reserved && o.find(to) < 0; (err == nil) != allowed {
					t.Fatalf("commit %s as %s: %v", from, to, err)
				}
				if err == nil {
					delete(o.reservations, from)
					o.files = append(o.files, oracleFile{key: to, size: size, sole: sole})
				}
			},
			"cancel": func(t *rapid.T) {
				key := keys.Draw(t, "key")
				x.Cancel(key)
				delete(o.reservations, key)
			},
			"insert": func(t *rapid.T) {
				key, size, sole := keys.Draw(t, "key"), sizes.Draw(t, "size"), rapid.Bool().Draw(t, "sole")
				got, err := x.Insert(key, size, sole)
				if o.find(key) >= 0 {
					if !errors.Is(err, ErrPresent) {
						t.Fatalf("insert of a present file: %v", err)
					}
					return
				}
				want, fits := o.room(size)
				if checkEvicted(t, got, err, want, fits) {
					o.files = append(o.files, oracleFile{key: key, size: size, sole: sole})
				}
			},
			"pin":   func(t *rapid.T) { pinChange(t, 1, x.Pin) },
			"unpin": func(t *rapid.T) { pinChange(t, -1, x.Unpin) },
			"sole": func(t *rapid.T) {
				key, sole := keys.Draw(t, "key"), rapid.Bool().Draw(t, "sole")
				mark := x.MarkStored
				if sole {
					mark = x.MarkSole
				}
				err, i := mark(key), o.find(key)
				if (err == nil) != (i >= 0) {
					t.Fatalf("mark %s: %v", key, err)
				}
				if i >= 0 && o.files[i].sole != sole {
					o.touch(i, func(f *oracleFile) { f.sole = sole })
				}
			},
			"evict": func(t *rapid.T) {
				key := keys.Draw(t, "key")
				gone, i := x.Evict(key), o.find(key)
				if want := i >= 0 && oracleEvictable(o.files[i]); gone != want {
					t.Fatalf("evict %s: %v, want %v", key, gone, want)
				}
				if gone {
					o.files = slices.Delete(o.files, i, i+1)
				}
			},
			"remove": func(t *rapid.T) {
				key := keys.Draw(t, "key")
				err, i := x.Remove(key), o.find(key)
				if (err == nil) != (i >= 0) {
					t.Fatalf("remove %s: %v", key, err)
				}
				if i >= 0 {
					o.files = slices.Delete(o.files, i, i+1)
				}
			},
		})
	})
}

func newTestIndex(t *testing.T, capacity task.Bytes) *Index {
	t.Helper()
	x, err := NewIndex(IndexConfig{Capacity: capacity, HighWater: 1, LowWater: 1})
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// TestSoleCopyStaysUntilStored: never evict the last
// copy of an output that no storage element has.
func TestSoleCopyStaysUntilStored(t *testing.T) {
	x := newTestIndex(t, 100)
	if _, err := x.Insert("out", 60, true); err != nil {
		t.Fatal(err)
	}
	_, err := x.Reserve("in", 50)
	var noSpace *NoSpaceError
	if !errors.As(err, &noSpace) {
		t.Fatalf("reserve beside a sole copy: %v", err)
	}
	if want := (NoSpaceError{Need: 50, Free: 40, Sole: 60, Capacity: 100}); *noSpace != want {
		t.Errorf("got %+v, want %+v", *noSpace, want)
	}
	if !strings.Contains(err.Error(), "60B are outputs that no storage element has yet") {
		t.Errorf("the text does not say why: %v", err)
	}
	if err := x.MarkStored("out"); err != nil {
		t.Fatal(err)
	}
	if evicted, err := x.Reserve("in", 50); err != nil || !slices.Equal(evicted, []task.FileKey{"out"}) {
		t.Errorf("after the upload: evicted %v, %v", evicted, err)
	}
}

func TestShedAfterRestoreBeyondCapacity(t *testing.T) {
	x := newTestIndex(t, 100)
	for _, f := range []struct {
		key  task.FileKey
		sole bool
	}{{"oldest", false}, {"output", true}, {"middle", false}, {"newest", false}} {
		if err := x.Restore(f.key, 40, f.sole); err != nil {
			t.Fatal(err)
		}
	}
	if shed := x.Shed(); !slices.Equal(shed, []task.FileKey{"oldest", "middle"}) {
		t.Errorf("shed %v", shed)
	}
	if shed := x.Shed(); shed != nil {
		t.Errorf("shed again %v", shed)
	}
}

func TestIndexRefusesBadConfig(t *testing.T) {
	for _, cfg := range []IndexConfig{
		{Capacity: 0},
		{Capacity: -1},
		{Capacity: 1, HighWater: 1.5},
		{Capacity: 1, HighWater: 0.5, LowWater: 0.6},
		{Capacity: 1, LowWater: -1},
	} {
		if _, err := NewIndex(cfg); err == nil {
			t.Errorf("%+v was accepted", cfg)
		}
	}
}

func TestFileLargerThanCacheSaysSo(t *testing.T) {
	x := newTestIndex(t, 100)
	_, err := x.Reserve("huge", 101)
	if err == nil || !strings.Contains(err.Error(), "does not fit into a cache of 100B") {
		t.Errorf("got %v", err)
	}
	if _, err := x.Reserve("overflow", 1<<62); err == nil {
		t.Error("an absurd size was reserved")
	}
}

// What somebody else uses stays, and nothing goes in vain for what does not fit beside it.
func TestFilesInUseElsewhereStay(t *testing.T) {
	inUse := map[task.FileKey]bool{"b": true}
	x, err := NewIndex(IndexConfig{Capacity: 100, HighWater: 1, LowWater: 1, InUse: func(key task.FileKey) bool { return inUse[key] }})
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []task.FileKey{"a", "b", "c"} {
		if _, err := x.Insert(key, 20, false); err != nil {
			t.Fatal(err)
		}
	}
	x.ReservedElsewhere(30)
	var noSpace *NoSpaceError
	if evicted, err := x.Reserve("large", 60); !errors.As(err, &noSpace) || noSpace.Pinned != 20 || len(evicted) > 0 {
		t.Errorf("60 beside 20 in use and 30 that others have reserved: %v, %v", evicted, err)
	}
	if x.Evict("b") {
		t.Error("a file in use was evicted")
	}
	if evicted, err := x.Reserve("small", 40); err != nil || !slices.Equal(evicted, []task.FileKey{"a", "c"}) || x.ReservedHere() != 40 {
		t.Errorf("evicted %v, %v, want what is not in use", evicted, err)
	}
	inUse["b"] = false
	x.ReservedElsewhere(0)
	if evicted, err := x.Reserve("more", 50); err != nil || !slices.Equal(evicted, []task.FileKey{"b"}) {
		t.Errorf("evicted %v, %v, want what is no longer in use", evicted, err)
	}
}
