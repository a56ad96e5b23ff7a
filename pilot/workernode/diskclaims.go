package workernode

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/pilotage-grid/pilotage/cache/disk"
	"github.com/pilotage-grid/pilotage/internal/filelock"
	"github.com/pilotage-grid/pilotage/task"
)

// diskClaim is what a pilot has declared of its node's disk, for work folders and
// cache. It lies in a file that the pilot keeps locked; the kernel gives the lock
// back when the process ends, however it ends.
type diskClaim struct {
	Device uint64
	Cores  int
	Bytes  task.Bytes
	// Folder is the pilot's, or the one in which it makes its own.
	Folder string
	// Pool is the folder of a cache that pilots share, and PoolBytes what they have
	// claimed for it together, beside Bytes.
	Pool      string
	PoolBytes task.Bytes
}

// crumbs is the least that a share of the disk is worth.
const crumbs = task.GiB

// claimDisk gives decide the disk that a pilot may declare, and keeps what decide
// declares as a claim until the returned file is closed. Pilots of one account on one
// node share each disk by their cores: what others have claimed is theirs, used or not.
// Where they leave less than a GiB, it is half of what is free, and shared tells so. A
// shared cache is claimed once: the first pilot that does not say its size has decided.
func claimDisk(claims string, claim diskClaim, free measureDisk, decide decideDisk) (*os.File, error) {
	for range 3 {
		file, err := claimInTurn(claims, claim, free, decide)
		if !errors.Is(err, fs.ErrNotExist) { // else the last pilot here has just removed the folder
			return file, err
		}
	}
	return nil, fmt.Errorf("claim disk: the folder %s goes again and again", claims)
}

// measureDisk tells how much is free on the disk of a folder.
type measureDisk func(folder string) (task.Bytes, error)

// decideDisk declares what a pilot wants of its share of a disk, which a shared cache,
// pool, is no part of.
type decideDisk func(share task.Bytes, shared bool, pool task.Bytes) (task.Bytes, error)

// claimInTurn claims while no other pilot of the node does.
func claimInTurn(claims string, claim diskClaim, measure measureDisk, decide decideDisk) (*os.File, error) {
	if err := ownFolder(claims); err != nil {
		return nil, err
	}
	turn, err := filelock.Open(claims, os.O_RDONLY, true)
	if err != nil {
		return nil, fmt.Errorf("claim disk: %w", err)
	}
	defer func() { _ = turn.Close() }()
	var place syscall.Stat_t
	if err := syscall.Stat(claim.Folder, &place); err != nil {
		return nil, fmt.Errorf("the disk of %s: %w", claim.Folder, err)
	}
	free, err := measure(claim.Folder)
	if err != nil {
		return nil, err
	}
	left, coresLeft := free, nodeCPUs()
	pools := map[string]task.Bytes{"": 0}
	for _, other := range liveClaims(claims) {
		if other.Device != place.Dev {
			continue
		}
		left -= other.Bytes
		coresLeft -= other.Cores
		if _, counted := pools[other.Pool]; !counted {
			left -= other.PoolBytes
			pools[other.Pool] = other.PoolBytes
		}
	}
	room, _ := atLeast(left, free)
	if claim.PoolBytes, err = poolBytes(claim, pools, room); err != nil {
		return nil, err
	}
	if _, counted := pools[claim.Pool]; !counted {
		left -= claim.PoolBytes
	}
	share := task.Bytes(float64(max(0, left)) * float64(claim.Cores) / float64(max(claim.Cores, coresLeft)))
	share, shared := atLeast(share, free)
	if claim.Bytes, err = decide(share, shared, claim.PoolBytes); err != nil {
		return nil, err
	}
	claim.Device = place.Dev
	return keepClaim(claims, claim)
}

// atLeast is half of what is free where others have left less than crumbs of it: then it
// is shared.
func atLeast(share, free task.Bytes) (room task.Bytes, shared bool) {
	if share < crumbs && free >= 2*crumbs {
		return free / 2, true
	}
	return max(0, share), false
}

// poolBytes is the size of a shared cache: what was said, what others have claimed, or
// the default.
func poolBytes(claim diskClaim, pools map[string]task.Bytes, left task.Bytes) (task.Bytes, error) {
	if claim.Pool == "" || claim.PoolBytes > 0 {
		return claim.PoolBytes, nil
	}
	if claimed, found := pools[claim.Pool]; found {
		return claimed, nil
	}
	return disk.DefaultCapacity(claim.Pool, left)
}

func keepClaim(claims string, claim diskClaim) (*os.File, error) {
	text, err := json.Marshal(claim)
	if err != nil {
		panic(err) // of numbers and texts
	}
	file, err := os.CreateTemp(claims, "claim-")
	if err != nil {
		return nil, fmt.Errorf("claim disk: %w", err)
	}
	_, err = file.Write(text)
	if err := errors.Join(err, filelock.Lock(file, false)); err != nil {
		return nil, errors.Join(fmt.Errorf("claim disk: %w", err), file.Close(), os.Remove(file.Name()))
	}
	return file, nil
}

// liveClaims reads the claims of pilots that run and removes those of others.
func liveClaims(folder string) (claims []diskClaim) {
	paths, err := filepath.Glob(filepath.Join(folder, "claim-*"))
	if err != nil {
		panic(err) // of the pattern
	}
	for _, path := range paths {
		if free, err := filelock.Open(path, os.O_RDWR, false); err == nil {
			_ = os.Remove(path)
			_ = free.Close()
			continue
		}
		var claim diskClaim
		if text, err := os.ReadFile(path); err == nil && json.Unmarshal(text, &claim) == nil {
			claims = append(claims, claim)
		}
	}
	return claims
}

// logFolders are those of all pilots that have claims.
func logFolders(claims string) (folders []string) {
	turn, err := filelock.Open(claims, os.O_RDONLY, true)
	if err != nil {
		return nil
	}
	defer func() { _ = turn.Close() }()
	for _, claim := range liveClaims(claims) {
		for _, pattern := range []string{"logs", "p-*/logs"} {
			found, _ := filepath.Glob(filepath.Join(claim.Folder, pattern)) // names that are patterns find nothing
			folders = append(folders, found...)
		}
	}
	slices.Sort(folders)
	return slices.Compact(folders)
}

// giveBack ends a claim. The folders go with the last one.
func giveBack(claim *os.File) error {
	err := errors.Join(os.Remove(claim.Name()), claim.Close())
	folder := filepath.Dir(claim.Name())
	if os.Remove(folder) == nil {
		_ = os.Remove(filepath.Dir(folder))
	}
	return err
}
