package disk

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/pilotage-grid/pilotage/task"
)

func someMetadata() metadata {
	return metadata{
		Version: metadataVersion, Digest: task.Digest{1}, Size: 3, Chunk: 2, Chunks: []task.Digest{{2}, {3}},
		Names: []task.FileKey{"lfn:vo:a b"}, Exec: true, Outputs: []madeAs{{"w-a:x", "w-a/t", 1, 2, "p-a", 3, 4}}, Modified: 1 << 60, Boot: "b", Synced: true,
	}
}

func TestMetadataRoundTrip(t *testing.T) {
	data, err := someMetadata().encode()
	if err != nil {
		t.Fatal(err)
	}
	if got, err := decodeMetadata(data); err != nil || !reflect.DeepEqual(got, someMetadata()) {
		t.Errorf("got %+v, %v", got, err)
	}
	for i := range data {
		damaged := slices.Clone(data)
		damaged[i] ^= 1
		if _, err := decodeMetadata(damaged); err == nil {
			t.Errorf("a changed byte %d went unnoticed", i)
		}
		if _, err := decodeMetadata(data[:i]); err == nil {
			t.Errorf("the first %d bytes were believed", i)
		}
	}
}

// TestMetadataRefuses checks what a right checksum does not excuse.
func TestMetadataRefuses(t *testing.T) {
	for want, change := range map[string]func(*metadata){
		"version is 2":        func(m *metadata) { m.Version = 2 },
		"names no digest":     func(m *metadata) { m.Digest = task.Digest{} },
		"expected 2":          func(m *metadata) { m.Chunks = m.Chunks[:1] },
		"must not be":         func(m *metadata) { m.Size = -1 },
		"chunks of 0":         func(m *metadata) { m.Chunk = 0 },
		"lists the name":      func(m *metadata) { m.Names = []task.FileKey{"b3:" + task.FileKey(task.Digest{1}.String())} },
		`the name "lfn:a\nb"`: func(m *metadata) { m.Names = []task.FileKey{"lfn:a\nb"} },
	} {
		m := someMetadata()
		change(&m)
		data, err := m.encode()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := decodeMetadata(data); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want an error with %q, got %v", want, err)
		}
	}
}

func FuzzDecodeMetadata(f *testing.F) {
	data, err := someMetadata().encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add([]byte("{}\n"))
	f.Add([]byte(`{"version":1,"size":9223372036854775807,"chunk":1}` + "\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := decodeMetadata(data)
		if err != nil {
			return
		}
		again, err := m.encode()
		if err != nil {
			t.Fatal(err)
		}
		if m2, err := decodeMetadata(again); err != nil || !reflect.DeepEqual(m, m2) {
			t.Errorf("%+v became %+v, %v", m, m2, err)
		}
	})
}

// FuzzKey: no key leads out of the cache folder or into metadata unread.
func FuzzKey(f *testing.F) {
	for _, seed := range []string{"", "lfn:", "lfn:a/../../b", "b3:" + strings.Repeat("0f", 32), "b3:" + strings.Repeat("../", 32), "lfn:a\x00b"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if validateKey(task.FileKey(text)) != nil {
			return
		}
		if _, isDigest := task.FileKey(text).Digest(); !isDigest && !strings.HasPrefix(text, namePrefix) {
			t.Errorf("accepted %q", text)
		}
		if strings.ContainsAny(text, "\x00\n\r\x7f") {
			t.Errorf("accepted control characters in %q", text)
		}
	})
}

func TestRangesAgainstOracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var written ranges
		var oracle [64]bool
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				from := rapid.IntRange(0, 63).Draw(t, "from")
				to := rapid.IntRange(from, min(63, from+12)).Draw(t, "to")
				written.add(int64(from), int64(to))
				for i := from; i < to; i++ {
					oracle[i] = true
				}
			},
			"": func(t *rapid.T) {
				size, last := 0, -1
				for size < len(oracle) && oracle[size] {
					size++
				}
				for i, set := range oracle {
					if set {
						last = i
					}
				}
				got, whole := written.contiguous()
				if got != int64(size) || whole != (last < size) {
					t.Fatalf("%v: contiguous %d whole %t, the oracle says %d and %t", written, got, whole, size, last < size)
				}
				for i := 1; i < len(written); i++ {
					if written[i].from <= written[i-1].to {
						t.Fatalf("not disjoint: %v", written)
					}
				}
			},
		})
	})
}
