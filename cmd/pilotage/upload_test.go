package main

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pilotage-grid/pilotage/cache/storage"
	"github.com/pilotage-grid/pilotage/cache/storage/storagetest"
	pb "github.com/pilotage-grid/pilotage/proto/pilotage/v1"
	"github.com/pilotage-grid/pilotage/task"
	"github.com/pilotage-grid/pilotage/task/taskpb"
	"github.com/pilotage-grid/pilotage/task/workflow"
)

func testApp() *app {
	return &app{out: &console{stdout: &bytes.Buffer{}, stderr: &bytes.Buffer{}, output: "table"}, getenv: func(string) string { return "" }}
}

// elements returns the URLs of an empty web element and an empty folder, both
// in a place with a blank in its path.
func elements(t *testing.T) (server *storagetest.Server, urls map[string]string) {
	t.Helper()
	server = storagetest.NewServer()
	web := httptest.NewServer(server)
	t.Cleanup(web.Close)
	folder := filepath.Join(t.TempDir(), "a folder")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	return server, map[string]string{"http": web.URL + "/a%20folder", "file": storage.FileURL(folder)}
}

func sourceFile(t *testing.T, content string) workflow.ExternalFile {
	t.Helper()
	source := filepath.Join(t.TempDir(), "source")
	if err := os.WriteFile(source, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return workflow.ExternalFile{Name: "data/in.txt", Source: source, Size: -1}
}

func upload(t *testing.T, url string, source workflow.ExternalFile) (task.File, error) {
	t.Helper()
	client := storage.NewClient(storage.Options{})
	t.Cleanup(client.Close)
	return putEverywhere(t.Context(), client, source, []*pb.UploadTarget{{Site: "siteA", StorageUrl: url}}, func() {})
}

func TestFilesComeBackFromEachKindOfElement(t *testing.T) {
	_, urls := elements(t)
	for kind, url := range urls {
		t.Run(kind, func(t *testing.T) {
			file, err := upload(t, url, sourceFile(t, "content"))
			if err != nil {
				t.Fatal(err)
			}
			target := filepath.Join(t.TempDir(), "new", "out.txt")
			if err := testApp().fetchFile(t.Context(), nil, taskpb.File(file), target); err != nil {
				t.Fatal(err)
			}
			if got, err := os.ReadFile(target); err != nil || string(got) != "content" {
				t.Errorf("fetched %q, %v", got, err)
			}
		})
	}
}

func TestFetchRefusesOtherBytes(t *testing.T) {
	_, urls := elements(t)
	file, err := upload(t, urls["http"], sourceFile(t, "content"))
	if err != nil {
		t.Fatal(err)
	}
	target := filepath.Join(t.TempDir(), "out.txt")
	wrongDigest, wrongSum := file, file
	wrongDigest.Digest[0] ^= 1
	wrongSum.Digest, wrongSum.Adler32 = task.Digest{}, "00000001"
	for what, file := range map[string]task.File{"digest": wrongDigest, "adler32": wrongSum} {
		if err := testApp().fetchFile(t.Context(), nil, taskpb.File(file), target); err == nil || !strings.Contains(err.Error(), "other bytes") {
			t.Errorf("wrong %s: %v", what, err)
		}
	}
	if left, err := os.ReadDir(filepath.Dir(target)); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// A second upload of the same bytes sends none; a copy of the same size with
// other bytes is replaced.
func TestUploadTrustsNoCopyByItsSize(t *testing.T) {
	server, urls := elements(t)
	source := sourceFile(t, "content")
	if _, err := upload(t, urls["http"], source); err != nil {
		t.Fatal(err)
	}
	before := server.Requests()[http.MethodPut]
	file, err := upload(t, urls["http"], source)
	if err != nil {
		t.Fatal(err)
	}
	if got := server.Requests()[http.MethodPut]; got != before {
		t.Errorf("%d further PUT for bytes that are there", got-before)
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPut, file.Replicas[0].URL, strings.NewReader("poison!"))
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	if _, err := upload(t, urls["http"], source); err != nil {
		t.Fatal(err)
	}
	for place, content := range server.Files() {
		if string(content) != "content" {
			t.Errorf("%s holds %q", place, content)
		}
	}
}

// The file changes between being described and being sent.
func TestChangedContentDoesNotStay(t *testing.T) {
	_, urls := elements(t)
	for kind, url := range urls {
		t.Run(kind, func(t *testing.T) {
			described, err := upload(t, storage.FileURL(t.TempDir()), sourceFile(t, "before"))
			if err != nil {
				t.Fatal(err)
			}
			element, err := storage.NewClient(storage.Options{}).Element(url)
			if err != nil {
				t.Fatal(err)
			}
			for _, later := range []string{"after!", "longer than before", "short"} {
				_, err = putOnce(t.Context(), element, "files/x", described, strings.NewReader(later))
				if err == nil || exitCode(t.Context(), err) != exitConflict {
					t.Errorf("%q: %v", later, err)
				}
				if _, err := element.Head(t.Context(), "files/x"); err == nil {
					t.Errorf("%q stays under the name of other bytes", later)
				}
			}
		})
	}
}
