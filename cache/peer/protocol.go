package peer

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/pilotage-grid/pilotage/cache"
	"github.com/pilotage-grid/pilotage/cache/disk"
	"github.com/pilotage-grid/pilotage/task"
)

const (
	filesPath      = "/v1/files/"
	manifestSuffix = "/manifest"
	// headerManifest carries the manifest of a file of at most one chunk, so
	// that a small file takes one request.
	headerManifest = "Pilotage-Manifest"
	// headerDataURL tells where the one who fetches will serve the file itself.
	headerDataURL = "Pilotage-Data-Url"

	maxPath     = 4096     // bytes of an escaped path: an LFN of 1,024 bytes, all escaped, and some
	maxManifest = 5 << 20  // bytes of JSON: 1 TiB in chunks of 16 MiB
	maxBusy     = 64 << 10 // bytes of JSON
	maxOthers   = 16       // holders taken from an answer
	maxPeerID   = 128      // bytes of a peer id's text
)

// manifestText is a manifest on the wire.
type manifestText struct {
	Digest task.Digest   `json:"digest"`
	Size   task.Bytes    `json:"size"`
	Chunk  task.Bytes    `json:"chunk"`
	Chunks []task.Digest `json:"chunks"`
}

func encodeManifest(entry disk.Entry) ([]byte, error) {
	m := entry.Manifest
	return json.Marshal(manifestText{Digest: entry.Digest, Size: m.Size, Chunk: m.Chunk, Chunks: m.Chunks})
}

// decodeManifest checks what a peer says: form, chunk size, and the digests
// against each other and the key as far as they say the same.
func decodeManifest(data []byte, key task.FileKey, size task.Bytes) (disk.Manifest, task.Digest, error) {
	var text manifestText
	if err := json.Unmarshal(data, &text); err != nil {
		return disk.Manifest{}, task.Digest{}, fmt.Errorf("manifest: %w", err)
	}
	m := disk.Manifest{Size: text.Size, Chunk: text.Chunk, Chunks: text.Chunks}
	if err := m.Validate(); err != nil {
		return disk.Manifest{}, task.Digest{}, err
	}
	digest, known := key.Digest()
	switch {
	case m.Chunk != disk.ChunkSize:
		return m, text.Digest, fmt.Errorf("manifest has chunks of %d bytes, expected %d", m.Chunk, disk.ChunkSize)
	case size >= 0 && m.Size != size:
		return m, text.Digest, fmt.Errorf("its file has %d bytes, expected %d", m.Size, size)
	case known && text.Digest != digest:
		return m, text.Digest, fmt.Errorf("its file has digest %s", text.Digest)
	case len(m.Chunks) == 1 && m.Chunks[0] != text.Digest:
		return m, text.Digest, fmt.Errorf("manifest has digest %s for the only chunk of a file of digest %s", m.Chunks[0], text.Digest)
	}
	return m, text.Digest, nil
}

// busyText is the body of a 429.
type busyText struct {
	RetryAfterMillis int64        `json:"retry_after_ms"`
	Holders          []holderText `json:"holders"`
}

type holderText struct {
	Peer task.PeerID `json:"peer"`
	URL  string      `json:"url"`
}

// maxRetryAfter bounds how long a peer can send one away.
const maxRetryAfter = 10 * time.Second

func decodeBusy(data []byte) (time.Duration, []cache.Holder) {
	var text busyText
	if err := json.Unmarshal(data, &text); err != nil {
		return time.Second, nil
	}
	// In milliseconds first: a huge number must not wrap around.
	wait := time.Duration(max(0, min(text.RetryAfterMillis, maxRetryAfter.Milliseconds()))) * time.Millisecond
	var others []cache.Holder
	for _, h := range text.Holders[:min(len(text.Holders), maxOthers)] {
		holder := cache.Holder{Peer: h.Peer, DataURL: h.URL}
		if CheckHolder(holder) == nil {
			others = append(others, holder)
		}
	}
	return wait, others
}

// CheckHolder checks the form of a holder that came from outside: a peer id of
// letters and digits, and an https:// URL of host and port only.
func CheckHolder(h cache.Holder) error {
	if h.Peer == "" || len(h.Peer) > maxPeerID || strings.ContainsFunc(string(h.Peer), notAlphanumeric) {
		return fmt.Errorf("%.80q is not a peer id", h.Peer)
	}
	return checkDataURL(h.DataURL)
}

func notAlphanumeric(r rune) bool {
	return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9')
}

func checkDataURL(text string) error {
	parsed, err := url.Parse(text)
	if err != nil || len(text) > 300 || parsed.Scheme != "https" || parsed.Hostname() == "" || parsed.Port() == "" ||
		text != "https://"+parsed.Host {
		return fmt.Errorf("%.80q is not the data URL of a pilot: expected https://HOST:PORT", text)
	}
	return nil
}

func targetOf(dataURL string, key task.FileKey) string {
	return dataURL + filesPath + url.PathEscape(string(key))
}

// parseTarget reads an escaped path that came from outside.
func parseTarget(escaped string) (key task.FileKey, manifest bool, err error) {
	rest, found := strings.CutPrefix(escaped, filesPath)
	if !found || len(escaped) > maxPath {
		return "", false, fmt.Errorf("no such resource: expected %s{key} or %s{key}%s", filesPath, filesPath, manifestSuffix)
	}
	segment, manifest := strings.CutSuffix(rest, manifestSuffix)
	if strings.Contains(segment, "/") {
		return "", false, fmt.Errorf("the key is one path segment: escape its slashes")
	}
	text, err := url.PathUnescape(segment)
	if err != nil {
		return "", false, err
	}
	key, err = cache.ParseKey(text)
	return key, manifest, err
}
