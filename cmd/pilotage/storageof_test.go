package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/pilotage-grid/pilotage/cache/storage"
)

// TestDeleter: a name is deleted below its storage element, over the web too,
// and nothing outside of it.
func TestDeleter(t *testing.T) {
	asked := make(chan string, 1)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r.Method + " " + r.URL.Path
		w.WriteHeader(http.StatusNoContent)
	}))
	defer web.Close()
	client := storage.NewClient(storage.Options{})
	defer client.Close()
	if err := (storageOf{client}).Delete(t.Context(), web.URL+"/A", "w/t/x"); err != nil {
		t.Fatal(err)
	}
	if got := <-asked; got != "DELETE /A/w/t/x" {
		t.Errorf("the server was asked for %q", got)
	}
	dir := t.TempDir()
	element := storage.FileURL(filepath.Join(dir, "se"))
	inside, outside := filepath.Join(dir, "se", "x"), filepath.Join(dir, "x")
	if err := os.Mkdir(filepath.Dir(inside), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{inside, outside} {
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := (storageOf{client}).Delete(t.Context(), element, "x"); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(inside); !os.IsNotExist(err) {
		t.Errorf("the copy is still there: %v", err)
	}
	for _, name := range []string{"../x", outside, ""} {
		if err := (storageOf{client}).Delete(t.Context(), element, name); err == nil {
			t.Errorf("deleting %q is no error", name)
		}
	}
	if _, err := os.Stat(outside); err != nil {
		t.Errorf("a file outside the storage element: %v", err)
	}
}
