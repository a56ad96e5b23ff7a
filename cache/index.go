package cache

import (
	"fmt"
	"math"

	"github.com/pilotage-grid/pilotage/task"
)

// Water marks of an IndexConfig that names none. Evicting a tenth of the cache
// at once keeps the work in batches; starting shortly before it is full keeps
// eviction out of most reservations.
const (
	DefaultHighWater = 0.95
	DefaultLowWater  = 0.90
)

// IndexConfig bounds an Index.
type IndexConfig struct {
	Capacity task.Bytes // of all files and reservations together
	// HighWater is the share of the capacity beyond which a reservation makes
	// the index evict, LowWater the share down to which it then evicts where
	// it can. They steer eviction only: pinned files, sole copies and
	// reservations may fill the whole capacity. Zero means the default.
	HighWater float64
	LowWater  float64
	Policy    EvictionPolicy // nil: least recently used first
	// InUse, if set, tells of a file that may be evicted whether somebody else uses
	// it: where several pilots have one folder. Then it stays.
	InUse func(task.FileKey) bool
}

// Index knows which files are in a cache and counts their bytes against its
// capacity. Room is reserved before anything is written, so files being
// written count. A file is evictable unless it is pinned or a sole copy: an
// output that no storage element has yet.
//
// Methods that evict return the keys and have forgotten them already; the
// owner removes their bytes before it uses the room. Not safe for concurrent
// use.
type Index struct {
	capacity, high, low task.Bytes
	policy              EvictionPolicy
	inUse               func(task.FileKey) bool
	files               map[task.FileKey]*indexed
	reservations        map[task.FileKey]task.Bytes

	used, reserved, pinned, sole, evictable task.Bytes
	elsewhere                               task.Bytes // of what is reserved: not by this index
	evictions                               uint64
}

// indexed is one file in the cache.
type indexed struct {
	size task.Bytes
	pins int
	sole bool
}

func (f *indexed) evictable() bool { return f.pins == 0 && !f.sole }

// IndexUsage is where the bytes of a cache are. A file that is pinned and a
// sole copy counts in both.
type IndexUsage struct {
	Capacity, Used, Reserved, Pinned, Sole, Evictable task.Bytes
	Files                                             int
	Evictions                                         uint64 // files evicted so far
}

// NewIndex returns an empty index. It refuses a capacity that is not positive
// and water marks that are not 0 < low <= high <= 1.
func NewIndex(cfg IndexConfig) (*Index, error) {
	if cfg.HighWater == 0 {
		cfg.HighWater = DefaultHighWater
	}
	if cfg.LowWater == 0 {
		cfg.LowWater = min(DefaultLowWater, cfg.HighWater)
	}
	if cfg.Policy == nil {
		cfg.Policy = NewLRU()
	}
	if cfg.Capacity <= 0 {
		return nil, fmt.Errorf("cache capacity is %s: give more than 0 bytes", cfg.Capacity)
	}
	if cfg.InUse == nil {
		cfg.InUse = func(task.FileKey) bool { return false }
	}
	if !(cfg.LowWater > 0 && cfg.LowWater <= cfg.HighWater && cfg.HighWater <= 1) {
		return nil, fmt.Errorf("cache water marks are %g (low) and %g (high): give 0 < low <= high <= 1", cfg.LowWater, cfg.HighWater)
	}
	return &Index{
		capacity: cfg.Capacity,
		high:     task.Bytes(float64(cfg.Capacity) * cfg.HighWater),
		low:      task.Bytes(float64(cfg.Capacity) * cfg.LowWater),
		policy:   cfg.Policy, inUse: cfg.InUse, files: map[task.FileKey]*indexed{}, reservations: map[task.FileKey]task.Bytes{},
	}, nil
}

// Reserve holds size bytes for a file that is about to be written and returns
// what to evict for it. Errors: ErrPresent, ErrReserved, *NoSpaceError.
func (x *Index) Reserve(key task.FileKey, size task.Bytes) ([]task.FileKey, error) {
	if size < 0 {
		return nil, fmt.Errorf("reserve %s: size %d is negative", key, size)
	}
	if _, found := x.files[key]; found {
		return nil, fmt.Errorf("reserve %s: %w", key, ErrPresent)
	}
	if _, found := x.reservations[key]; found {
		return nil, fmt.Errorf("reserve %s: %w", key, ErrReserved)
	}
	evicted, err := x.makeRoom(size)
	if err != nil {
		return nil, fmt.Errorf("reserve %s: %w", key, err)
	}
	x.reservations[key] = size
	x.reserved += size
	return evicted, nil
}

// Grow raises a reservation by some bytes, for a file whose size was not known
// beforehand. Errors: ErrUnknown, *NoSpaceError (the reservation stays as it
// was).
func (x *Index) Grow(key task.FileKey, by task.Bytes) ([]task.FileKey, error) {
	if by < 0 {
		return nil, fmt.Errorf("grow %s: %d bytes is negative", key, by)
	}
	if _, found := x.reservations[key]; !found {
		return nil, fmt.Errorf("grow %s: no reservation: %w", key, ErrUnknown)
	}
	evicted, err := x.makeRoom(by)
	if err != nil {
		return nil, fmt.Errorf("grow %s: %w", key, err)
	}
	x.reservations[key] += by
	x.reserved += by
	return evicted, nil
}

// Cancel gives a reservation back; an unknown one is ignored.
func (x *Index) Cancel(key task.FileKey) {
	x.reserved -= x.reservations[key]
	delete(x.reservations, key)
}

// ReservedElsewhere notes how much others have reserved of the same capacity.
func (x *Index) ReservedElsewhere(bytes task.Bytes) {
	x.reserved += bytes - x.elsewhere
	x.elsewhere = bytes
}

// ReservedHere is what is reserved by this index.
func (x *Index) ReservedHere() task.Bytes { return x.reserved - x.elsewhere }

// Commit turns the reservation of one key into a file of another (the same
// unless the digest became known only now). Errors: ErrUnknown, ErrPresent for
// the file, or a size beyond the reservation; the reservation then stays.
func (x *Index) Commit(reservation, key task.FileKey, size task.Bytes, sole bool) error {
	held, found := x.reservations[reservation]
	switch {
	case !found:
		return fmt.Errorf("commit %s: no reservation: %w", reservation, ErrUnknown)
	case size < 0 || size > held:
		return fmt.Errorf("commit %s: %d bytes were written, %d reserved", reservation, size, held)
	case x.files[key] != nil:
		return fmt.Errorf("commit %s: %w", key, ErrPresent)
	}
	x.Cancel(reservation)
	x.add(key, size, sole)
	return nil
}

// Insert adds a file whose bytes are on the disk already, such as an output in
// a payload's work folder, and returns what to evict for it. A reservation of
// the same key stays: its writer learns at its end that it was overtaken.
// Errors: ErrPresent, *NoSpaceError.
func (x *Index) Insert(key task.FileKey, size task.Bytes, sole bool) ([]task.FileKey, error) {
	if size < 0 {
		return nil, fmt.Errorf("insert %s: size %d is negative", key, size)
	}
	if x.files[key] != nil {
		return nil, fmt.Errorf("insert %s: %w", key, ErrPresent)
	}
	evicted, err := x.makeRoom(size)
	if err != nil {
		return nil, fmt.Errorf("insert %s: %w", key, err)
	}
	x.add(key, size, sole)
	return evicted, nil
}

// Restore adds a file found at recovery, least recently used first, even
// beyond the capacity: call Shed afterwards. Errors: ErrPresent.
func (x *Index) Restore(key task.FileKey, size task.Bytes, sole bool) error {
	if size < 0 {
		return fmt.Errorf("restore %s: size %d is negative", key, size)
	}
	if x.files[key] != nil {
		return fmt.Errorf("restore %s: %w", key, ErrPresent)
	}
	x.add(key, size, sole)
	return nil
}

// Shed evicts until the capacity is respected or nothing evictable is left.
func (x *Index) Shed() []task.FileKey {
	if x.used+x.reserved <= x.capacity {
		return nil
	}
	evicted, _, _ := x.evictTo(x.capacity, math.MaxInt64)
	return evicted
}

// Pin keeps a file from eviction until as many Unpin as Pin; it counts as a
// use. Errors: ErrUnknown.
func (x *Index) Pin(key task.FileKey) error {
	f := x.files[key]
	if f == nil {
		return fmt.Errorf("pin %s: %w", key, ErrUnknown)
	}
	x.change(key, f, func() { f.pins++ })
	return nil
}

// Unpin takes one pin back; the file counts as used now. Errors: ErrUnknown,
// also when it is not pinned.
func (x *Index) Unpin(key task.FileKey) error {
	f := x.files[key]
	if f == nil || f.pins == 0 {
		return fmt.Errorf("unpin %s: %w", key, ErrUnknown)
	}
	x.change(key, f, func() { f.pins-- })
	return nil
}

// Used notes a use of a file; an unknown one is ignored.
func (x *Index) Used(key task.FileKey) {
	if f := x.files[key]; f != nil && f.evictable() {
		x.policy.Use(key)
	}
}

// MarkStored notes that a storage element has the file, so that it may be
// evicted; MarkSole the opposite. Errors: ErrUnknown.
func (x *Index) MarkStored(key task.FileKey) error { return x.markSole(key, false) }

// MarkSole notes that this is an output that no storage element has yet.
func (x *Index) MarkSole(key task.FileKey) error { return x.markSole(key, true) }

func (x *Index) markSole(key task.FileKey, sole bool) error {
	f := x.files[key]
	if f == nil {
		return fmt.Errorf("mark %s: %w", key, ErrUnknown)
	}
	if f.sole != sole {
		x.change(key, f, func() { f.sole = sole })
	}
	return nil
}

// Remove forgets a file, pinned or not: it was damaged or withdrawn. It does
// not count as an eviction. Errors: ErrUnknown.
func (x *Index) Remove(key task.FileKey) error {
	f := x.files[key]
	if f == nil {
		return fmt.Errorf("remove %s: %w", key, ErrUnknown)
	}
	x.drop(key, f)
	return nil
}

// Evict forgets a file before its turn and tells whether it could: not one that
// is pinned or in use, a sole copy or unknown.
func (x *Index) Evict(key task.FileKey) bool {
	f := x.files[key]
	if f == nil || !f.evictable() || x.inUse(key) {
		return false
	}
	x.drop(key, f)
	x.evictions++
	return true
}

// Contains tells whether the file is in the cache.
func (x *Index) Contains(key task.FileKey) bool { return x.files[key] != nil }

// Size is that of a file in the cache.
func (x *Index) Size(key task.FileKey) (size task.Bytes, has bool) {
	if f := x.files[key]; f != nil {
		return f.size, true
	}
	return 0, false
}

// Reserved tells whether room is reserved for the file.
func (x *Index) Reserved(key task.FileKey) bool {
	_, found := x.reservations[key]
	return found
}

// Usage returns the counts.
func (x *Index) Usage() IndexUsage {
	return IndexUsage{
		Capacity: x.capacity, Used: x.used, Reserved: x.reserved, Pinned: x.pinned, Sole: x.sole,
		Evictable: x.evictable, Files: len(x.files), Evictions: x.evictions,
	}
}

// makeRoom evicts so that need more bytes fit, or changes nothing.
func (x *Index) makeRoom(need task.Bytes) ([]task.FileKey, error) {
	taken := x.used + x.reserved
	var busy task.Bytes
	fits := need <= x.capacity && taken-x.evictable <= x.capacity-need
	if fits && taken+need <= x.high {
		return nil, nil
	}
	if fits {
		var evicted []task.FileKey
		if evicted, busy, fits = x.evictTo(x.low-need, x.capacity-need); fits {
			return evicted, nil
		}
	}
	return nil, &NoSpaceError{
		Need: need, Free: x.capacity - taken, Reserved: x.reserved, Pinned: x.pinned + busy,
		Sole: x.used - x.evictable - x.pinned, Capacity: x.capacity,
	}
}

// evictTo evicts until at most limit bytes are taken or nothing is evictable. If
// then more than most are taken, it changes nothing: busy are the bytes of files that
// somebody else uses.
func (x *Index) evictTo(limit, most task.Bytes) (evicted []task.FileKey, busy task.Bytes, fits bool) {
	var order, spared []task.FileKey
	taken := x.used + x.reserved
	for taken > limit {
		key, found := x.policy.Victim()
		if !found {
			break
		}
		x.policy.Remove(key)
		order = append(order, key)
		if size := x.files[key].size; x.inUse(key) {
			spared = append(spared, key)
			busy += size
		} else {
			evicted = append(evicted, key)
			taken -= size
		}
	}
	if fits = taken <= most; !fits {
		spared, evicted = order, nil
	}
	for _, key := range evicted {
		x.drop(key, x.files[key])
		x.evictions++
	}
	for _, key := range spared {
		x.policy.Use(key)
	}
	return evicted, busy, fits
}

func (x *Index) add(key task.FileKey, size task.Bytes, sole bool) {
	f := &indexed{size: size, sole: sole}
	x.files[key] = f
	x.used += size
	x.count(f, 1)
	if f.evictable() {
		x.policy.Use(key)
	}
}

func (x *Index) drop(key task.FileKey, f *indexed) {
	delete(x.files, key)
	x.policy.Remove(key)
	x.used -= f.size
	x.count(f, -1)
}

// change applies a change to a file's pins or soleness and puts it where it
// then belongs in the order and the counts.
func (x *Index) change(key task.FileKey, f *indexed, apply func()) {
	x.count(f, -1)
	apply()
	x.count(f, 1)
	if f.evictable() {
		x.policy.Use(key)
	} else {
		x.policy.Remove(key)
	}
}

// count adds or subtracts a file in the sums that depend on its attributes.
func (x *Index) count(f *indexed, sign task.Bytes) {
	if f.pins > 0 {
		x.pinned += sign * f.size
	}
	if f.sole {
		x.sole += sign * f.size
	}
	if f.evictable() {
		x.evictable += sign * f.size
	}
}
