package storagetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/pilotage-grid/pilotage/cache/storage"
)

// Run checks that an implementation is a storage.Element. Open returns an
// empty one for each part.
func Run(t *testing.T, open func(t *testing.T) storage.Element) {
	for name, part := range map[string]func(*testing.T, storage.Element){
		"round trip": roundTrip, "offsets": offsets, "missing files": missing, "replace": replace,
		"wrong sizes": wrongSizes, "names": names, "ended context": endedContext, "concurrent": concurrent,
		"from the middle": fromTheMiddle, "lists": Lists,
	} {
		t.Run(name, func(t *testing.T) { part(t, open(t)) })
	}
}

// content of some size that does not repeat soon.
func content(size int) []byte {
	data := make([]byte, size)
	for i := range data {
		data[i] = byte(i*7 + i>>8)
	}
	return data
}

func put(t *testing.T, e storage.Element, name string, data []byte) string {
	t.Helper()
	url, err := e.Put(t.Context(), name, int64(len(data)), bytes.NewReader(data))
	if err != nil {
		t.Fatalf("put %s: %v", name, err)
	}
	return url
}

func get(t *testing.T, e storage.Element, name string, offset int64) ([]byte, int64) {
	t.Helper()
	reader, size, err := e.Get(t.Context(), name, offset)
	if err != nil {
		t.Fatalf("get %s from %d: %v", name, offset, err)
	}
	data, err := io.ReadAll(reader)
	if err := errors.Join(err, reader.Close()); err != nil {
		t.Fatalf("read %s from %d: %v", name, offset, err)
	}
	return data, size
}

func wantKind(t *testing.T, what string, err, kind error) {
	t.Helper()
	if !errors.Is(err, kind) {
		t.Errorf("%s: got %v, want %v", what, err, kind)
	}
}

func roundTrip(t *testing.T, e storage.Element) {
	urls := map[string]string{}
	for name, size := range map[string]int{
		"empty": 0, "small.txt": 10, "a/b/c/deep+name=1:2@x": 100_000, "large.bin": 3 << 20, "w-abcdefghij/x/g1-l42-p-abcdefgh-7": 1,
	} {
		url := put(t, e, name, content(size))
		if !strings.Contains(url, "://") || urls[url] != "" {
			t.Errorf("%s got the URL %q, as did %q", name, url, urls[url])
		}
		urls[url] = name
		data, announced := get(t, e, name, 0)
		if !bytes.Equal(data, content(size)) || announced != int64(size) {
			t.Errorf("%s came back as %d bytes, announced %d, want %d", name, len(data), announced, size)
		}
		info, err := e.Head(t.Context(), name)
		if err != nil || info.Size != int64(size) || info.URL != url || info.Modified.IsZero() {
			t.Errorf("head %s: %+v, %v", name, info, err)
		}
	}
}

func offsets(t *testing.T, e storage.Element) {
	put(t, e, "file", content(1000))
	for _, offset := range []int64{1, 500, 999, 1000} {
		data, size := get(t, e, "file", offset)
		if !bytes.Equal(data, content(1000)[offset:]) || size != 1000 {
			t.Errorf("from %d: %d bytes of %d", offset, len(data), size)
		}
	}
	put(t, e, "empty", nil)
	if data, size := get(t, e, "empty", 0); len(data) != 0 || size != 0 {
		t.Errorf("empty: %d bytes of %d", len(data), size)
	}
	for _, offset := range []int64{1001, 1 << 40, -1} {
		_, _, err := e.Get(t.Context(), "file", offset)
		wantKind(t, fmt.Sprintf("get from %d of 1000", offset), err, storage.ErrOffset)
	}
}

func missing(t *testing.T, e storage.Element) {
	put(t, e, "folder/file", content(10))
	for _, name := range []string{"nothing", "folder/nothing", "no/such/folder", "folder"} {
		_, _, err := e.Get(t.Context(), name, 0)
		wantKind(t, "get "+name, err, storage.ErrNotFound)
		_, err = e.Head(t.Context(), name)
		wantKind(t, "head "+name, err, storage.ErrNotFound)
		if err := e.Delete(t.Context(), name); err != nil {
			t.Errorf("delete %s: %v", name, err)
		}
	}
	for range 2 {
		if err := e.Delete(t.Context(), "folder/file"); err != nil {
			t.Error(err)
		}
		_, err := e.Head(t.Context(), "folder/file")
		wantKind(t, "head after delete", err, storage.ErrNotFound)
	}
	put(t, e, "folder/file", content(20))
}

func replace(t *testing.T, e storage.Element) {
	first := put(t, e, "a/file", content(1000))
	if second := put(t, e, "a/file", content(10)); second != first {
		t.Errorf("the URL changed from %s to %s", first, second)
	}
	if data, size := get(t, e, "a/file", 0); !bytes.Equal(data, content(10)) || size != 10 {
		t.Errorf("after replacement: %d bytes of %d", len(data), size)
	}
}

func wrongSizes(t *testing.T, e storage.Element) {
	put(t, e, "there", content(50))
	for _, size := range []int64{0, 99, 101, -1} {
		for _, name := range []string{"new", "there"} {
			_, err := e.Put(t.Context(), name, size, bytes.NewReader(content(100)))
			wantKind(t, fmt.Sprintf("put of 100 bytes announced as %d", size), err, storage.ErrSize)
		}
	}
	// The size cannot be known in advance to those that lie about it.
	_, err := e.Put(t.Context(), "new", 100, &liar{Reader: bytes.NewReader(content(60)), claims: 100})
	wantKind(t, "put of content that ends early", err, storage.ErrSize)
	_, err = e.Head(t.Context(), "new")
	wantKind(t, "head after refused puts", err, storage.ErrNotFound)
	if data, _ := get(t, e, "there", 0); !bytes.Equal(data, content(50)) {
		t.Error("refused puts changed an existing file")
	}
}

// liar claims to be longer than it is.
type liar struct {
	*bytes.Reader
	claims int64
}

func (l *liar) Seek(offset int64, whence int) (int64, error) {
	if whence == io.SeekEnd {
		return l.claims, nil
	}
	return l.Reader.Seek(offset, whence)
}

func names(t *testing.T, e storage.Element) {
	for _, name := range []string{
		"", ".", "..", "../escape", "a/../../escape", "/absolute", "a//b", "a/", "-dash", "a b", "a\x00b", "a\nb", "~incoming/x",
		"%2e%2e/escape", "a?b", "a#b", strings.Repeat("x", 1025),
	} {
		_, err := e.Put(t.Context(), name, 1, strings.NewReader("x"))
		wantKind(t, fmt.Sprintf("put %.40q", name), err, storage.ErrInvalid)
		_, _, err = e.Get(t.Context(), name, 0)
		wantKind(t, fmt.Sprintf("get %.40q", name), err, storage.ErrInvalid)
		_, err = e.Head(t.Context(), name)
		wantKind(t, fmt.Sprintf("head %.40q", name), err, storage.ErrInvalid)
		wantKind(t, fmt.Sprintf("delete %.40q", name), e.Delete(t.Context(), name), storage.ErrInvalid)
	}
}

func endedContext(t *testing.T, e storage.Element) {
	put(t, e, "file", content(2<<20))
	ctx, cancel := context.WithCancel(t.Context())
	reader, _, err := e.Get(ctx, "file", 0)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	if _, err := io.CopyN(io.Discard, reader, 10); err != nil {
		t.Fatal(err)
	}
	cancel()
	_, err = io.Copy(io.Discard, reader)
	wantKind(t, "read on", err, context.Canceled)
	_, _, err = e.Get(ctx, "file", 0)
	wantKind(t, "get", err, context.Canceled)
	_, err = e.Head(ctx, "file")
	wantKind(t, "head", err, context.Canceled)
	_, err = e.Put(ctx, "other", 10, bytes.NewReader(content(10)))
	wantKind(t, "put", err, context.Canceled)
	wantKind(t, "delete", e.Delete(ctx, "file"), context.Canceled)
	if storage.Temporary(err) {
		t.Error("the end of the caller's context is called temporary")
	}
	get(t, e, "file", 0)
	_, err = e.Head(t.Context(), "other")
	wantKind(t, "head of what was not written", err, storage.ErrNotFound)
}

// concurrent readers see one version or the other, never a mixture.
func concurrent(t *testing.T, e storage.Element) {
	versions := [][]byte{bytes.Repeat([]byte("a"), 100_000), bytes.Repeat([]byte("b"), 100_000)}
	put(t, e, "x/shared", versions[0])
	var wait sync.WaitGroup
	for worker := range 4 {
		wait.Go(func() {
			for round := range 10 {
				if worker < 2 {
					data := versions[(worker+round)%2]
					if _, err := e.Put(t.Context(), "x/shared", int64(len(data)), bytes.NewReader(data)); err != nil {
						t.Error(err)
					}
					own := fmt.Sprintf("x/y%d/z", round)
					if _, err := e.Put(t.Context(), own, 1, strings.NewReader("z")); err != nil {
						t.Error(err)
					}
					continue
				}
				reader, size, err := e.Get(t.Context(), "x/shared", 0)
				if err != nil {
					t.Error(err)
					continue
				}
				data, err := io.ReadAll(reader)
				if err := errors.Join(err, reader.Close()); err != nil {
					t.Error(err)
				}
				if int64(len(data)) != size || !bytes.Equal(data, versions[0]) && !bytes.Equal(data, versions[1]) {
					t.Errorf("a mixture of %d bytes, announced %d", len(data), size)
				}
			}
		})
	}
	wait.Wait()
}

// fromTheMiddle: Put begins where content is.
func fromTheMiddle(t *testing.T, e storage.Element) {
	reader := bytes.NewReader(content(1000))
	if _, err := reader.Seek(400, io.SeekStart); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Put(t.Context(), "tail", 600, reader); err != nil {
		t.Fatal(err)
	}
	if data, _ := get(t, e, "tail", 0); !bytes.Equal(data, content(1000)[400:]) {
		t.Errorf("%d bytes came back", len(data))
	}
}

// Lists checks that an empty element lists what is in a folder, and not below it.
func Lists(t *testing.T, e storage.Element) {
	for _, name := range []string{"a/x", "a/deep+name=1:2@x", "a/b/c/d", "ab/x", "x"} {
		put(t, e, name, content(10))
	}
	want := map[string]string{"a": "b/ deep+name=1:2@x x", "a/b": "c/", "ab": "x"}
	for folder, names := range want {
		listed, err := e.List(t.Context(), folder, 100)
		slices.Sort(listed)
		if got := strings.Join(listed, " "); err != nil || got != names {
			t.Errorf("%s holds %q, %v; want %q", folder, got, err, names)
		}
	}
	if listed, err := e.List(t.Context(), "a", 2); err != nil || len(listed) != 2 {
		t.Errorf("two of three: %q, %v", listed, err)
	}
	for _, name := range []string{"nothing", "a/nothing", "x", "a/x"} {
		_, err := e.List(t.Context(), name, 100)
		wantKind(t, "list "+name, err, storage.ErrNotFound)
	}
	for _, name := range []string{"", "..", "../escape", "/absolute", "a//b", "a/", "%2e%2e"} {
		_, err := e.List(t.Context(), name, 100)
		wantKind(t, fmt.Sprintf("list %q", name), err, storage.ErrInvalid)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := e.List(ctx, "a", 100)
	wantKind(t, "list", err, context.Canceled)
}
