package wire

import (
	"fmt"
	"sync"

	"github.com/klauspost/compress/zstd"

	"github.com/pilotage-grid/pilotage/dht"
)

// The coders are made once per process, because each holds tables of some
// hundred kilobytes; between two calls they keep nothing of what they coded.
var (
	encoder = sync.OnceValue(func() *zstd.Encoder {
		// The smallest effort: a hop waits for it, and the LAN is fast.
		coder, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest),
			zstd.WithWindowSize(512<<10), zstd.WithLowerEncoderMem(true))
		if err != nil {
			panic("wire: Zstandard refuses its settings: " + err.Error())
		}
		return coder
	})
	decoder = sync.OnceValue(func() *zstd.Decoder {
		// MaxMemory also bounds what a message may unpack to.
		coder, err := zstd.NewReader(nil, zstd.WithDecoderMaxMemory(MaxUnpacked), zstd.WithDecoderConcurrency(0))
		if err != nil {
			panic("wire: Zstandard refuses its settings: " + err.Error())
		}
		return coder
	})
)

func compress(plain []byte) []byte { return encoder().EncodeAll(plain, nil) }

func decompress(packed []byte) ([]byte, error) { return decoder().DecodeAll(packed, nil) }

// How a broadcast's payload travels: its first byte says.
const (
	plainPayload  = 0
	packedPayload = 1
)

// PackPayload gives a broadcast's payload the form in which it travels. It is
// compressed once, by the root, and not by every node on its way.
func PackPayload(payload []byte) []byte {
	if len(payload) > packFrom && len(payload) <= MaxUnpacked {
		if packed := compress(payload); len(packed) < len(payload) {
			return append([]byte{packedPayload}, packed...)
		}
	}
	return append([]byte{plainPayload}, payload...)
}

// UnpackPayload is the inverse of PackPayload. Errors match ErrMalformed.
func UnpackPayload(form []byte) ([]byte, error) {
	if len(form) == 0 || form[0] > packedPayload {
		return nil, fmt.Errorf("a broadcast's payload in an unknown form: %w", ErrMalformed)
	}
	if form[0] == plainPayload {
		return form[1:], nil
	}
	payload, err := decompress(form[1:])
	if err != nil {
		return nil, fmt.Errorf("%w: unpack a payload of %d bytes (at most to %d): %w", ErrMalformed, len(form), MaxUnpacked, err)
	}
	return payload, nil
}

// packable is how much of a message compression may gain something on.
func packable(message dht.Message, size int) int {
	if cast, ok := message.(dht.Cast); ok && len(cast.Payload) > 0 && cast.Payload[0] == packedPayload {
		return size - len(cast.Payload)
	}
	return size
}
