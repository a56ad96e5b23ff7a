package record_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/pilotage-grid/pilotage/taskqueue"
	"github.com/pilotage-grid/pilotage/taskqueue/store/internal/record"
)

type inner struct {
	Name  string
	Count int8
}

type everything struct {
	Bool    bool
	Int     int
	Small   int16
	Uint    uint64
	Byte    uint8
	Text    string
	Bytes   []byte
	Array   [3]byte
	Numbers [2]uint64
	Names   []string
	Inner   inner
	Inners  []inner
	Map     map[string]int
	Deep    map[uint8][]inner
	Digests map[string][2]byte
	Time    time.Time
	Times   []time.Time
}

func draw(t *rapid.T) everything {
	moment := rapid.Custom(func(t *rapid.T) time.Time {
		return time.Unix(rapid.Int64Range(-1<<40, 1<<40).Draw(t, "s"), rapid.Int64Range(0, 999_999_999).Draw(t, "ns")).UTC()
	})
	inners := rapid.SliceOf(rapid.Make[inner]())
	e := everything{
		Bool: rapid.Bool().Draw(t, "bool"), Int: rapid.Int().Draw(t, "int"), Small: rapid.Int16().Draw(t, "small"),
		Uint: rapid.Uint64().Draw(t, "uint"), Byte: rapid.Byte().Draw(t, "byte"), Text: string(rapid.SliceOf(rapid.Byte()).Draw(t, "text")),
		Numbers: [2]uint64{rapid.Uint64().Draw(t, "n"), 0}, Inner: rapid.Make[inner]().Draw(t, "inner"),
		Time: moment.Draw(t, "time"), Array: [3]byte{0, rapid.Byte().Draw(t, "a"), 0},
	}
	if rapid.Bool().Draw(t, "filled") { // else nil; in here often empty
		e.Bytes = rapid.SliceOf(rapid.Byte()).Draw(t, "bytes")
		e.Names = rapid.SliceOf(rapid.String()).Draw(t, "names")
		e.Inners = inners.Draw(t, "inners")
		e.Map = rapid.MapOf(rapid.String(), rapid.Int()).Draw(t, "map")
		e.Deep = rapid.MapOf(rapid.Byte(), inners).Draw(t, "deep")
		e.Digests = map[string][2]byte{"a": {1, rapid.Byte().Draw(t, "d")}}
		e.Times = rapid.SliceOf(moment).Draw(t, "times")
	}
	return e
}

func TestRoundTrip(t *testing.T) {
	codec := record.New[everything]()
	rapid.Check(t, func(t *rapid.T) {
		written := draw(t)
		var read everything
		if err := codec.Decode(codec.Encode(&written), &read); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(read, written) {
			t.Fatalf("got %#v\nwant %#v", read, written)
		}
	})
}

// TestOwn changes a record after its copy was given parts of its own.
func TestOwn(t *testing.T) {
	codec := record.New[everything]()
	rapid.Check(t, func(t *rapid.T) {
		written := draw(t)
		var read everything
		if err := codec.Decode(codec.Encode(&written), &read); err != nil {
			t.Fatal(err)
		}
		own := read
		codec.Own(&own)
		spoil(reflect.ValueOf(&read).Elem())
		if !reflect.DeepEqual(own, written) {
			t.Fatalf("the copy has become %#v, was %#v", own, written)
		}
	})
}

// spoil changes all that a value refers to.
func spoil(v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Field(i).CanSet() {
				spoil(v.Field(i))
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			spoil(v.Index(i))
			v.Index(i).SetZero()
		}
	case reflect.Map:
		for _, key := range v.MapKeys() {
			spoil(v.MapIndex(key))
			v.SetMapIndex(key, reflect.Value{})
		}
	}
}

func TestOtherRelease(t *testing.T) {
	type stranger struct{ A, B string }
	type later struct {
		Extra   map[string][]stranger
		Name    string
		More    []string
		When    time.Time
		Nested  stranger
		Digest  [4]byte
		Kept    []inner
		Retries int
		Times   []time.Time
	}
	type earlier struct {
		Gone    string
		Retries int
		Kept    []inner
		Name    string
	}
	written := later{
		Extra: map[string][]stranger{"x": {{"a", "b"}, {"c", ""}}}, Name: "name", More: []string{"m"}, When: time.Unix(5, 6),
		Nested: stranger{"a", "b"}, Digest: [4]byte{1}, Kept: []inner{{"i", -3}}, Retries: -7, Times: []time.Time{time.Unix(1, 2)},
	}
	var read earlier
	if err := record.New[earlier]().Decode(record.New[later]().Encode(&written), &read); err != nil {
		t.Fatal(err)
	}
	if want := (earlier{Retries: -7, Kept: []inner{{"i", -3}}, Name: "name"}); !reflect.DeepEqual(read, want) {
		t.Errorf("the earlier release reads %+v, want %+v", read, want)
	}
	read.Gone = "gone"
	var back later
	if err := record.New[later]().Decode(record.New[earlier]().Encode(&read), &back); err != nil {
		t.Fatal(err)
	}
	if want := (later{Name: "name", Kept: []inner{{"i", -3}}, Retries: -7}); !reflect.DeepEqual(back, want) {
		t.Errorf("the later release reads %+v, want %+v", back, want)
	}
}

// A record whose fields are in groups reads what it wrote before they were, and the
// other way round.
func TestFieldsInGroups(t *testing.T) {
	type flat struct {
		Name  string
		Count int8
		Kept  []inner
	}
	type Group struct {
		Name string
		Deep `record:"inline"`
	}
	type whole struct {
		Group `record:"inline"`
		Kept  []inner
	}
	before := flat{"name", -3, []inner{{"i", 1}}}
	var now whole
	if err := record.New[whole]().Decode(record.New[flat]().Encode(&before), &now); err != nil {
		t.Fatal(err)
	}
	if want := (whole{Group{"name", Deep{-3}}, []inner{{"i", 1}}}); !reflect.DeepEqual(now, want) {
		t.Errorf("read %+v, want %+v", now, want)
	}
	var again flat
	if err := record.New[flat]().Decode(record.New[whole]().Encode(&now), &again); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(again, before) {
		t.Errorf("the release before reads %+v, want %+v", again, before)
	}
}

// Deep is a group within a group.
type Deep struct{ Count int8 }

// TestNumbersStay holds the numbers of fields: other ones would make every
// stored record unreadable.
func TestNumbersStay(t *testing.T) {
	blob := record.New[inner]().Encode(&inner{Name: "n", Count: 2})
	if got, want := string(blob), "\xaa\xf0\x03\x01n\xf1\x8dP\x04\x00"; got != want {
		t.Errorf("encoded as %q, stored records have %q", got, want)
	}
}

func TestDamage(t *testing.T) {
	codec := record.New[everything]()
	whole := everything{Int: 1, Text: "text", Names: []string{"a"}, Map: map[string]int{"a": 1}, Time: time.Unix(1, 1)}
	blob := codec.Encode(&whole)
	for length := range blob {
		if err := codec.Decode(blob[:length], new(everything)); err == nil {
			t.Errorf("the first %d of %d bytes are taken for a record", length, len(blob))
		}
	}
	if err := codec.Decode(append(blob, 0), new(everything)); err == nil || !strings.Contains(err.Error(), "left over") {
		t.Errorf("a byte too many: error %v", err)
	}
}

func FuzzDecode(f *testing.F) {
	site := taskqueue.SiteRecord{Name: "siteA", SiteOffice: taskqueue.SiteOffice{History: []taskqueue.Mastership{{Why: "claim"}}}}
	codec, other := record.New[taskqueue.SiteRecord](), record.New[everything]()
	f.Add(codec.Encode(&site))
	f.Add(other.Encode(&everything{Map: map[string]int{"a": 1}, Deep: map[uint8][]inner{1: {{"n", 1}}}}))
	f.Fuzz(func(t *testing.T, blob []byte) {
		_ = other.Decode(blob, new(everything)) // must not panic
		var read taskqueue.SiteRecord
		if codec.Decode(blob, &read) != nil {
			return
		}
		var again taskqueue.SiteRecord
		if err := codec.Decode(codec.Encode(&read), &again); err != nil || !reflect.DeepEqual(read, again) {
			t.Errorf("read %+v, then %+v, %v", read, again, err)
		}
	})
}

func BenchmarkTaskState(b *testing.B) {
	codec := record.New[taskqueue.TaskState]()
	state := taskqueue.TaskState{ID: "w-aaaaaaaaaa/index[07]", Seq: 12345, State: 2, Generation: 1, Class: 3, Changed: time.Unix(1_700_000_000, 5)}
	state.MemoKey[3] = 7
	blob := codec.Encode(&state)
	b.Run("Encode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			codec.Encode(&state)
		}
		b.ReportMetric(float64(len(blob)), "bytes")
	})
	b.Run("Decode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			var read taskqueue.TaskState
			if err := codec.Decode(blob, &read); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkSiteRecord(b *testing.B) {
	codec := record.New[taskqueue.SiteRecord]()
	site := taskqueue.SiteRecord{Name: "siteA"}
	for range 16 {
		site.History = append(site.History, taskqueue.Mastership{Why: "claim"})
	}
	blob := codec.Encode(&site)
	b.ReportAllocs()
	for b.Loop() {
		var read taskqueue.SiteRecord
		if err := codec.Decode(blob, &read); err != nil {
			b.Fatal(err)
		}
	}
}
