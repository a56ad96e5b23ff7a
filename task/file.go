package task

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// Bounds of names, in bytes.
const (
	MaxLFN         = 1024         // of a logical file name
	MaxSegment     = 255          // of a part between slashes: no file system keeps more
	MaxStorageName = MaxLFN + 512 // of a copy's name: an LFN below the folders of its attempt
)

// LFN is a logical file name. Within the queue it is always qualified by its
// workflow ("<workflow id>:<name>") or by "vo:" for files registered for all.
type LFN string

// ValidateLFN checks a logical file name that came from outside: 1 to 1,024
// bytes of [A-Za-z0-9._/+=:@-], no empty, "." or ".." segment and none of more
// than 255 bytes, no leading dash or slash.
func ValidateLFN(name string) error { return validatePath(name, MaxLFN) }

// ValidateStorageName checks the name of a copy below a storage element: as an
// LFN, and up to MaxStorageName bytes long.
func ValidateStorageName(name string) error { return validatePath(name, MaxStorageName) }

func validatePath(name string, most int) error {
	switch {
	case name == "":
		return fmt.Errorf("file name is empty")
	case len(name) > most:
		return fmt.Errorf("file name %.40q... has %d bytes: at most %d are allowed", name, len(name), most)
	case name[0] == '-':
		return fmt.Errorf("file name %q begins with a dash: a payload would take it for an option", name)
	}
	for i := 0; i < len(name); i++ {
		c := name[i]
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("._/+=:@-", c) >= 0 {
			continue
		}
		character, _ := utf8.DecodeRuneInString(name[i:])
		return fmt.Errorf("file name %q has %q at byte %d: allowed are A-Z a-z 0-9 . _ / + = : @ -", name, character, i)
	}
	for segment := range strings.SplitSeq(name, "/") {
		if segment == "" || segment == "." || segment == ".." {
			return fmt.Errorf("file name %q has a segment %q: names are relative paths without empty, . or .. segments", name, segment)
		}
		if len(segment) > MaxSegment {
			return fmt.Errorf("file name %.40q... has a segment of %d bytes: at most %d are allowed between slashes", name, len(segment), MaxSegment)
		}
	}
	return nil
}

// Digest is the BLAKE3-256 hash of a file's content: its identity.
type Digest [32]byte

// IsZero tells whether the digest is not known yet.
func (d Digest) IsZero() bool { return d == Digest{} }

func (d Digest) String() string { return hex.EncodeToString(d[:]) }

// MarshalText and UnmarshalText give the digest as 64 hex digits; a zero
// digest is the empty text.
func (d Digest) MarshalText() ([]byte, error) {
	if d.IsZero() {
		return nil, nil
	}
	return []byte(d.String()), nil
}

// UnmarshalText reads what MarshalText wrote.
func (d *Digest) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		*d = Digest{}
		return nil
	}
	parsed, err := ParseDigest(string(text))
	*d = parsed
	return err
}

// ParseDigest reads 64 hex digits.
func ParseDigest(text string) (Digest, error) {
	var d Digest
	if len(text) != 2*len(d) {
		return d, fmt.Errorf("digest %q: expected %d hex digits", text, 2*len(d))
	}
	if _, err := hex.Decode(d[:], []byte(text)); err != nil {
		return Digest{}, fmt.Errorf("digest %q: %w", text, err)
	}
	return d, nil
}

// Replica is a copy of a file on a storage element.
type Replica struct {
	Site Site
	URL  string // file:// or http(s):// of the copy itself
}

// File is an immutable file as the catalogue and the pilots know it.
type File struct {
	LFN     LFN
	Size    Bytes  // -1 while not known
	Digest  Digest // zero while not known (external file not read yet)
	Adler32 string // 8 hex digits, "" if not given
	Exec    bool   // placed executable in work folders
	// Attempt that produced it; zero for external files.
	Producer AttemptID
	// Announced lists the sites whose pilots hold it in their caches.
	Announced []Site
	// Replicas lists copies on storage elements, in order of registration.
	Replicas []Replica
}

// ReplicaAt returns which of a file's replicas has a URL; -1: none.
func (f *File) ReplicaAt(url string) int {
	return slices.IndexFunc(f.Replicas, func(r Replica) bool { return r.URL == url })
}

// Exists tells whether the file can be read from somewhere.
func (f File) Exists() bool { return len(f.Announced) > 0 || len(f.Replicas) > 0 }

// Key is the name under which caches and locations know the file: its digest
// where known, else "lfn:" and the qualified name.
func (f File) Key() FileKey { return KeyOf(f.LFN, f.Digest) }

// FileKey is the identity of a file in caches and locations.
type FileKey string

// KeyOf returns the key of a file by its digest where known, else by name.
func KeyOf(name LFN, digest Digest) FileKey {
	if digest.IsZero() {
		return FileKey("lfn:" + string(name))
	}
	return FileKey("b3:" + digest.String())
}

// Digest returns the digest that the key carries, if it carries one.
func (k FileKey) Digest() (Digest, bool) {
	text, found := strings.CutPrefix(string(k), "b3:")
	if !found {
		return Digest{}, false
	}
	digest, err := ParseDigest(text)
	return digest, err == nil
}
