package fetch

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/zeebo/blake3"

	"github.com/pilotage-grid/pilotage/cache"
	"github.com/pilotage-grid/pilotage/cache/storage"
	"github.com/pilotage-grid/pilotage/task"
)

// TestBadCopiesAreTold: what a storage element verifiably has no more, or with
// other bytes, is told, and with no other source the file is lost. A server that
// fails, or a folder that is not mounted, says nothing of the kind; an external
// file is for its user to mend.
func TestBadCopiesAreTold(t *testing.T) {
	data := content(1, 10_000)
	answer := func(status int, body []byte) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			_, _ = w.Write(body)
		}
	}
	other := append([]byte("x"), data[1:]...)
	for name, example := range map[string]struct {
		serve    http.HandlerFunc
		file     func(path string) error // instead
		external bool
		bad      bool
		kind     task.FailureKind
	}{
		"not there":       {serve: answer(http.StatusNotFound, nil), bad: true},
		"truncated":       {serve: answer(http.StatusOK, data[:100]), bad: true},
		"other bytes":     {serve: answer(http.StatusOK, other), bad: true},
		"a page":          {serve: answer(http.StatusOK, []byte("<html>log in</html>")), bad: true},
		"failing":         {serve: answer(http.StatusServiceUnavailable, nil), kind: task.StorageFailed},
		"refusing":        {serve: answer(http.StatusForbidden, nil), kind: task.StorageFailed},
		"file not there":  {file: os.Remove, bad: true},
		"file truncated":  {file: func(path string) error { return os.Truncate(path, 3) }, bad: true},
		"not mounted":     {file: func(path string) error { return os.RemoveAll(filepath.Dir(filepath.Dir(path))) }, kind: task.StorageFailed},
		"external, away":  {file: func(path string) error { return os.RemoveAll(filepath.Dir(path)) }, external: true, kind: task.StorageFailed},
		"external, gone":  {file: os.Remove, external: true, kind: task.InputMissing},
		"external, lost":  {serve: answer(http.StatusNotFound, nil), external: true, kind: task.InputMissing},
		"external, other": {serve: answer(http.StatusOK, other), external: true, kind: task.InputMissing},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			var told []task.LostFile
			p := s.join(options{badCopy: func(l task.LostFile) { told = append(told, l) }, limits: cache.PlannerConfig{PlannerTries: cache.PlannerTries{Backoff: time.Millisecond}}})
			file := task.File{LFN: "w-abcdefghij:out", Size: task.Bytes(len(data)), Digest: blake3.Sum256(data)}
			if !example.external {
				file.Producer = task.AttemptID{Task: "w-abcdefghij/t", Generation: 1, Pilot: "p", Counter: 1}
			}
			path := filepath.Join(s.folder, "w-abcdefghij", "t", "g1", "out")
			url := storage.FileURL(path)
			if example.serve != nil {
				server := httptest.NewServer(example.serve)
				defer server.Close()
				url = server.URL + "/w-abcdefghij/t/g1/out"
			} else if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, data, 0o600), example.file(path)); err != nil {
				t.Fatal(err)
			}
			if name == "not mounted" {
				if err := os.RemoveAll(filepath.Join(s.folder, "w-abcdefghij")); err != nil {
					t.Fatal(err)
				}
			}
			file.Replicas = []task.Replica{{Site: s.name, URL: url}}
			_, err := p.fetcher.Stage(t.Context(), []task.File{file})
			var failures cache.FetchErrors
			if !errors.As(err, &failures) {
				t.Fatalf("got %v", err)
			}
			if bad := len(told) == 1 && told[0].URL == url && told[0].Digest == file.Digest; bad != example.bad || len(told) > 1 {
				t.Errorf("told %+v", told)
			}
			if lost := len(failures.Lost()) == 1; lost != example.bad {
				t.Errorf("lost %v: %v", lost, err)
			}
			if !example.bad && failures.Kind() != example.kind {
				t.Errorf("kind %v, want %v: %v", failures.Kind(), example.kind, err)
			}
			if example.kind == task.InputMissing && !strings.Contains(err.Error(), "no task makes this file") {
				t.Errorf("unclear words: %v", err)
			}
		})
	}
}
