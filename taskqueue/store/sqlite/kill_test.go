package sqlite_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"testing"

	"github.com/pilotage-grid/pilotage/taskqueue"
	"github.com/pilotage-grid/pilotage/taskqueue/store/sqlite"
)

// folderVariable turns the test binary into a process that writes to the
// queue in that folder until it is killed.
const folderVariable = "PILOTAGE_TEST_QUEUE"

func TestMain(m *testing.M) {
	if folder := os.Getenv(folderVariable); folder != "" {
		writeUntilKilled(folder)
	}
	if folder := os.Getenv(takeOverVariable); folder != "" {
		takeOverUntilKilled(folder)
	}
	leakTest(m)
}

// writeUntilKilled reports each write on stdout after it was acknowledged.
func writeUntilKilled(folder string) {
	store, err := sqlite.Open(folder)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	var output sync.Mutex
	var group sync.WaitGroup
	for writer := range 4 {
		group.Go(func() {
			for n := 0; ; n++ {
				name := fmt.Sprintf("%d-%d", writer, n)
				err := store.Update(context.Background(), func(tx taskqueue.Tx) error {
					if err := tx.Meta().Set(name, []byte(name)); err != nil {
						return err
					}
					_, err := tx.Meta().Next("written", 1)
					return err
				})
				output.Lock()
				if err != nil {
					fmt.Println(err)
					os.Exit(1)
				}
				fmt.Println(name)
				output.Unlock()
			}
		})
	}
	group.Wait()
}

// TestKilled kills a process right after it reported a write: everything that
// was reported is there, and nothing is there by half.
func TestKilled(t *testing.T) {
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	var acknowledged []string
	for _, killAfter := range []int{1, 50, 200} {
		child := exec.Command(binary)
		child.Env = append(os.Environ(), folderVariable+"="+folder)
		child.Stderr = os.Stderr
		stdout, err := child.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(stdout)
		for n := 1; lines.Scan(); n++ {
			acknowledged = append(acknowledged, lines.Text())
			if n == killAfter {
				if err := child.Process.Kill(); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := child.Wait(); err == nil || err.Error() != "signal: killed" {
			t.Fatalf("the writer ended with %v after %q", err, acknowledged[max(0, len(acknowledged)-1):])
		}
		checkAcknowledged(t, folder, acknowledged)
	}
}

func checkAcknowledged(t *testing.T, folder string, acknowledged []string) {
	t.Helper()
	store := openIn(t, folder)
	defer store.Close()
	err := store.Update(context.Background(), func(tx taskqueue.Tx) error {
		for _, name := range acknowledged {
			value, err := tx.Meta().Get(name)
			if err != nil {
				return err
			}
			if string(value) != name {
				t.Errorf("acknowledged write %s is lost: %q", name, value)
			}
		}
		written, err := tx.Meta().Next("written", 0)
		if int(written) <= len(acknowledged) {
			t.Errorf("%d writes were counted, %d acknowledged", written-1, len(acknowledged))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
