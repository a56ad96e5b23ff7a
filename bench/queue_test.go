package bench

import (
	"os"
	"path/filepath"
	"testing"
)

func TestQueueValidate(t *testing.T) {
	good := Queue{Tasks: 300, Sites: 3, Clients: 1, HandOut: 100}
	if err := good.Validate(); err != nil {
		t.Fatal(err)
	}
	for name, bad := range map[string]Queue{
		"too few tasks for the hand-outs": {Tasks: 299, Sites: 3, Clients: 1, HandOut: 100},
		"no clients":                      {Tasks: 300, Sites: 3, HandOut: 100},
		"too few sites":                   {Tasks: 300, Sites: 2, Clients: 1, HandOut: 100},
	} {
		if bad.Validate() == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}

func TestFolderSize(t *testing.T) {
	folder := t.TempDir()
	for name, size := range map[string]int{"queue.db": 3, "queue.db-wal": 4, "run.json": 5} {
		if err := os.WriteFile(filepath.Join(folder, name), make([]byte, size), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if sum, err := folderSize(folder, "queue.db*"); err != nil || sum != 7 {
		t.Errorf("%d bytes, %v", sum, err)
	}
}
