package disk

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/pilotage-grid/pilotage/task"
)

// The test binary runs itself as the process to be killed.
const (
	childFolder = "PILOTAGE_TEST_CRASH_FOLDER"
	childMoment = "PILOTAGE_TEST_CRASH_MOMENT"
	crashAfter  = 5 // files published before the moment
	crashSize   = 1000
)

// crashChild publishes files and, at its moment, says "now" and waits for the
// kill that the parent sends.
func crashChild() int {
	moment, shared := strings.CutPrefix(os.Getenv(childMoment), "shared ")
	if moment == "crowd" {
		return crowdChild()
	}
	published := 0
	wait := func() {
		fmt.Println("now")
		_, _ = os.Stdin.Read(make([]byte, 1)) // the parent never writes
	}
	calls := realSystem()
	calls.rename = func(from, to string) error {
		isMeta := strings.HasSuffix(to, metaSuffix)
		if published == crashAfter && (moment == "before content" && !isMeta || moment == "before metadata" && isMeta) {
			wait()
		}
		return os.Rename(from, to)
	}
	c, err := openWith(Config{Dir: os.Getenv(childFolder), Shared: shared, Capacity: task.MiB}, calls)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	for i := range 2 * crashAfter {
		published = i
		data := bytes.Repeat([]byte{byte(i)}, crashSize)
		release := c.Alone(context.Background(), keyOf(data))
		w, err := c.Create(keyOf(data), crashSize)
		if err == nil {
			_, err = w.WriteAt(data[:crashSize/2], 0)
		}
		if i == crashAfter && moment == "half written" {
			wait()
		}
		if err == nil {
			_, err = w.WriteAt(data[crashSize/2:], crashSize/2)
		}
		if err == nil {
			_, err = w.Publish(Expect{})
		}
		if err != nil {
			fmt.Println(err)
			return 1
		}
		release()
		fmt.Println("published", i)
	}
	return 0
}

// TestRecoveryAfterKill kills a process at each step of a publication: what
// was published before is there and whole, of the rest nothing.
func TestRecoveryAfterKill(t *testing.T) {
	for _, moment := range []string{"half written", "before content", "before metadata"} {
		t.Run(moment, func(t *testing.T) {
			dir := t.TempDir()
			published := runCrashChild(t, dir, moment, func() {})
			c := openCache(t, Config{Dir: dir})
			for i := range 2 * crashAfter {
				entry, found := c.Lookup(keyOf(bytes.Repeat([]byte{byte(i)}, crashSize)))
				if found != (i < published) {
					t.Errorf("file %d: %d were published, recovered %t (%+v)", i, published, found, entry)
				}
			}
			checkFolder(t, c)
			put(t, c, keyOf(bytes.Repeat([]byte{crashAfter}, crashSize)), bytes.Repeat([]byte{crashAfter}, crashSize))
			checkFolder(t, c)
		})
	}
}

// runCrashChild has a process publish files until its moment, does something meanwhile,
// and kills it. It returns how many files were published.
func runCrashChild(t *testing.T, dir, moment string, meanwhile func()) (published int) {
	t.Helper()
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), childFolder+"="+dir, childMoment+"="+moment)
	if _, err := child.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	stdout, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	hit := false
	for lines := bufio.NewScanner(stdout); lines.Scan(); {
		if number, found := strings.CutPrefix(lines.Text(), "published "); found {
			if number != strconv.Itoa(published) {
				t.Errorf("file %s was published after %d", number, published)
			}
			published++
			continue
		}
		if hit = lines.Text() == "now"; !hit {
			t.Errorf("child: %s", lines.Text())
		}
		meanwhile()
		if err := child.Process.Kill(); err != nil {
			t.Fatal(err)
		}
	}
	if err := child.Wait(); err == nil || !hit || published != crashAfter {
		t.Fatalf("killed at its moment: %t, after %d files; %v", hit, published, err)
	}
	return published
}

// TestRecoveryDiscards lists what must not survive a restart.
func TestRecoveryDiscards(t *testing.T) {
	for name, damage := range map[string]func(t *testing.T, c *Cache, content string) error{
		"content truncated": func(t *testing.T, _ *Cache, content string) error { return truncate(content, 1) },
		"content missing":   func(t *testing.T, _ *Cache, content string) error { return os.Remove(content) },
		"content replaced by a folder": func(t *testing.T, _ *Cache, content string) error {
			return errors.Join(os.Remove(content), os.MkdirAll(filepath.Join(content, "sub"), 0o700))
		},
		"metadata missing":   func(t *testing.T, _ *Cache, content string) error { return os.Remove(content + metaSuffix) },
		"metadata empty":     func(t *testing.T, _ *Cache, content string) error { return os.Truncate(content+metaSuffix, 0) },
		"metadata truncated": func(t *testing.T, _ *Cache, content string) error { return os.Truncate(content+metaSuffix, 40) },
		"metadata changed": func(t *testing.T, _ *Cache, content string) error {
			data, err := os.ReadFile(content + metaSuffix)
			return errors.Join(err, os.WriteFile(content+metaSuffix, bytes.Replace(data, []byte(`"size":1000`), []byte(`"size":1001`), 1), 0o600))
		},
		"both under another name": func(t *testing.T, c *Cache, content string) error {
			other := c.contentPath(task.Digest{1})
			return errors.Join(os.MkdirAll(filepath.Dir(other), 0o700), os.Rename(content, other), os.Rename(content+metaSuffix, other+metaSuffix))
		},
		"lost in a power cut": func(t *testing.T, c *Cache, content string) error {
			flipByte(t, content)
			f := c.files[keyOf(someBytes(1, 1000))]
			f.boot = "an earlier boot"
			return writeMetadata(content+metaSuffix, f.metadata(alone))
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			c := openCache(t, Config{Dir: dir})
			entry := put(t, c, "lfn:damaged", someBytes(1, 1000))
			put(t, c, "lfn:intact", someBytes(2, 1000))
			if err := c.Close(); err != nil {
				t.Fatal(err)
			}
			stray := filepath.Join(filepath.Dir(c.contentPath(entry.Digest)), "stray")
			temp, err := c.tempPath()
			err = errors.Join(err, damage(t, c, c.contentPath(entry.Digest)),
				os.WriteFile(stray, nil, 0o600), os.WriteFile(temp, nil, 0o600))
			if err != nil {
				t.Fatal(err)
			}
			c = openCache(t, Config{Dir: dir})
			if _, found := c.Lookup("lfn:damaged"); found {
				t.Error("the damaged file was recovered")
			}
			if !bytes.Equal(readBack(t, c, "lfn:intact"), someBytes(2, 1000)) {
				t.Error("the intact file was not")
			}
			checkFolder(t, c)
		})
	}
}

// TestRecoveryKeepsSynced: flushed files and intact unflushed ones of an
// earlier boot stay, with their attributes.
func TestRecoveryKeepsEarlierBoot(t *testing.T) {
	dir := t.TempDir()
	c := openCache(t, Config{Dir: dir})
	entry := put(t, c, "lfn:a", someBytes(1, 1000))
	sole, err := adopt(t.Context(), c, output(t, someBytes(2, 1000)), true, made("x"))
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []task.FileKey{entry.Key, sole.Key} {
		c.files[key].boot = "an earlier boot"
		c.rewriteMetadata(c.files[key])
	}
	for range 2 {
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		c = openCache(t, Config{Dir: dir})
		if got, found := c.Lookup(sole.Key); !found || !got.Sole() || !got.Exec {
			t.Errorf("the sole copy came back as %t, %+v", found, got)
		}
		if _, found := c.Lookup("lfn:a"); !found {
			t.Error("an intact file of an earlier boot was discarded")
		}
		checkFolder(t, c)
	}
}

// TestRecoveryRespectsCapacity: a smaller capacity evicts the least recently
// used, and sole copies stay until they are stored.
func TestRecoveryRespectsCapacity(t *testing.T) {
	dir := t.TempDir()
	c := openCache(t, Config{Dir: dir})
	sole, err := adopt(t.Context(), c, output(t, someBytes(9, 1000)), false, made("x"))
	if err != nil {
		t.Fatal(err)
	}
	for i := range 5 {
		put(t, c, task.FileKey(fmt.Sprintf("lfn:%d", i)), someBytes(uint64(i), 1000))
	}
	readBack(t, c, "lfn:0") // now the most recently used
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	c = openCache(t, Config{Dir: dir, Capacity: 3000, Evicted: func(keys []task.FileKey) { t.Errorf("told %v before anything was announced", keys) }})
	for key, want := range map[task.FileKey]bool{"lfn:0": true, "lfn:4": true, "lfn:1": false, "lfn:2": false, "lfn:3": false, sole.Key: true} {
		if _, found := c.Lookup(key); found != want {
			t.Errorf("%s: recovered %t", key, found)
		}
	}
	checkFolder(t, c)
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	c = openCache(t, Config{Dir: dir, Capacity: 500})
	if usage := c.Usage(); usage.Files != 1 || usage.Sole != 1000 {
		t.Errorf("usage %+v", usage)
	}
	c.LetGo(sole.Key, made("x"))
	if usage := c.Usage(); usage.Files != 0 {
		t.Errorf("over capacity after the upload: %+v", usage)
	}
	checkFolder(t, c)
}
