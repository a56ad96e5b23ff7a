package sqlite_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/taskqueue/store/mem"
	"github.com/pilotage-grid/pilotage/taskqueue/store/sqlite"
	"github.com/pilotage-grid/pilotage/taskqueue/store/storetest"
)

// oldDatabase is a database that the release before, with schema 3, made by
// storetest.Fill.
func oldDatabase(t *testing.T) []byte {
	t.Helper()
	file, err := os.Open("testdata/schema3.db.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	unpacked, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	content, err := io.ReadAll(unpacked)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

func oldFolder(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, sqlite.FileName), oldDatabase(t), 0o600); err != nil {
		t.Fatal(err)
	}
	return folder
}

// filled is what storetest.Fill leaves in a store.
func filled(t *testing.T) string {
	t.Helper()
	store := mem.New()
	storetest.Fill(t, store)
	return storetest.Dump(t, store)
}

func expectFilled(t *testing.T, folder string) {
	t.Helper()
	store := openIn(t, folder)
	got, want := storetest.Dump(t, store), filled(t)
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	if got != want {
		t.Fatalf("got %s\nwant %s", got, want)
	}
	if _, err := sqlite.Verify(context.Background(), folder); err != nil {
		t.Fatal(err)
	}
}

func backups(t *testing.T, folder string) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(folder, "before-schema-4-*.db"))
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// A database of the release before is taken over once, and stays beside as it was.
func TestTakeOver(t *testing.T) {
	folder := oldFolder(t)
	for range 2 {
		expectFilled(t, folder)
	}
	kept := backups(t, folder)
	if len(kept) != 1 {
		t.Fatalf("backups %v, want one", kept)
	}
	if content, err := os.ReadFile(kept[0]); err != nil || !bytes.Equal(content, oldDatabase(t)) {
		t.Errorf("the backup is not the old database: %v", err)
	}
	if left, _ := filepath.Glob(filepath.Join(folder, "*.new*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// Verify changes no database of the release before.
func TestVerifyBeforeTakeOver(t *testing.T) {
	folder := oldFolder(t)
	if _, err := sqlite.Verify(context.Background(), folder); err == nil || !strings.Contains(err.Error(), "release before") {
		t.Errorf("error %v", err)
	}
	if found := backups(t, folder); len(found) > 0 {
		t.Errorf("it made %v", found)
	}
	expectFilled(t, folder)
}

// A process that is killed while it takes a database over leaves the old one or the
// new one, and the next takes it over.
func TestTakeOverKilled(t *testing.T) {
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	before, after := 0, 0
	for try := range 12 {
		folder := oldFolder(t)
		child := exec.Command(binary)
		child.Env = append(os.Environ(), takeOverVariable+"="+folder)
		stdout, err := child.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		_, _ = stdout.Read(make([]byte, 1))
		<-time.After(time.Duration(try) * 3 * time.Millisecond)
		_ = child.Process.Kill() // it may have ended
		_ = child.Wait()
		if len(backups(t, folder)) > 0 {
			after++
		} else {
			before++
		}
		expectFilled(t, folder)
	}
	t.Logf("killed %d times before the new database was in its place, %d times after", before, after)
}

const takeOverVariable = "PILOTAGE_TEST_TAKE_OVER"

func takeOverUntilKilled(folder string) {
	fmt.Println("begins")
	store, err := sqlite.Open(folder)
	if err == nil {
		err = store.Close()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// Databases of older and newer releases are refused.
func TestForeignSchemas(t *testing.T) {
	for version, says := range map[string]string{"2": "release in between", "1000": "newer", "x": "damaged"} {
		folder := oldFolder(t)
		alter(t, folder, "UPDATE meta SET value = CAST('"+version+"' AS BLOB) WHERE name = 'schema'")
		err := openError(folder)
		if err == nil || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), filepath.Join(folder, sqlite.FileName)) {
			t.Errorf("schema %s: error %v, want one that says %q", version, err, says)
		}
		if err := openError(folder); err == nil || strings.Contains(err.Error(), "another queue") || errors.Is(err, sqlite.ErrDamaged) != (version == "x") {
			t.Errorf("opened again: %v", err)
		}
	}
}
