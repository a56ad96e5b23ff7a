package workernode

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/pilotage-grid/pilotage/cache/disk"
	"github.com/pilotage-grid/pilotage/pilot/exec"
	"github.com/pilotage-grid/pilotage/task"
)

// Pilots that have all cores of the node together share its disk by their cores, also
// after one was killed.
func TestPilotsOfANodeShareItsDisk(t *testing.T) {
	claims, folder := filepath.Join(t.TempDir(), "claims"), t.TempDir()
	const free = 64 * task.GiB
	measure := func(string) (task.Bytes, error) { return free, nil }
	claim := func(cores int) (share task.Bytes, shared bool, file *os.File) {
		t.Helper()
		file, err := claimDisk(claims, diskClaim{Cores: cores, Folder: folder}, measure, func(bytes task.Bytes, little bool, _ task.Bytes) (task.Bytes, error) {
			share, shared = bytes, little
			return bytes, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = file.Close() })
		return share, shared, file
	}
	near := func(what string, got task.Bytes, part float64) {
		t.Helper()
		if want := float64(free) * part; float64(got) < want-1 || float64(got) > want+1 {
			t.Errorf("%s is %s of %s", what, got, task.Bytes(free))
		}
	}
	half := nodeCPUs() / 2
	if half == 0 {
		t.Fatal("this test needs two CPUs")
	}
	first, _, killed := claim(half)
	near("the first half", first, float64(half)/float64(nodeCPUs()))
	second, _, _ := claim(nodeCPUs() - half)
	near("the second half", second, 1-float64(half)/float64(nodeCPUs()))
	if third, shared, _ := claim(1); !shared {
		t.Errorf("a pilot too many has %s and is not told that it is shared", third)
	}
	if err := killed.Close(); err != nil { // the kernel gives its lock back
		t.Fatal(err)
	}
	if left := liveClaims(claims); len(left) != 2 {
		t.Errorf("claims %v after a pilot was killed", left)
	}
	if _, err := os.Stat(killed.Name()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("its claim is left: %v", err)
	}
}

// A shared cache is claimed once for all pilots that have it, and is no part of their shares.
func TestASharedCacheIsClaimedOnce(t *testing.T) {
	claims, folder, pool := filepath.Join(t.TempDir(), "claims"), t.TempDir(), t.TempDir()
	free, err := exec.FreeDisk(folder)
	if err != nil {
		t.Fatal(err)
	}
	var pools, shares []task.Bytes
	for _, pool := range []string{pool, pool, t.TempDir()} { // the last one comes when nothing is left
		file, err := claimDisk(claims, diskClaim{Cores: nodeCPUs(), Folder: folder, Pool: pool}, exec.FreeDisk, func(share task.Bytes, _ bool, size task.Bytes) (task.Bytes, error) {
			pools, shares = append(pools, size), append(shares, share)
			if len(shares) == 2 {
				return free, nil
			}
			return task.GiB, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = file.Close() })
	}
	if pools[2] == 0 || shares[2] == 0 {
		t.Errorf("when others have claimed the disk, a pilot has %v and a cache of %v", shares[2], pools[2])
	}
	if pools[0] < free/10 && pools[0] < disk.MaxDefaultCapacity*9/10 || pools[1] != pools[0] {
		t.Errorf("of %s free the cache has %v", free, pools)
	}
	// The second one's share is less by what the first has declared for itself.
	if less := shares[0] - shares[1]; less < task.GiB/2 || less > 3*task.GiB/2 {
		t.Errorf("shares %v", shares)
	}
}
