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

// How messages, and the payloads of broadcasts in them, travel: the first byte
// says.
const (
	plainForm  = 0
	packedForm = 1
)

// pack compresses what is in the plain form, if that is smaller.
func pack(plain []byte) []byte {
	packed := encoder().EncodeAll(plain[1:], []byte{packedForm})
	if len(packed) >= len(plain) {
		return plain
	}
	return packed
}

// unpack returns what was packed, without the byte of its form.
func unpack(form []byte) ([]byte, error) {
	switch {
	case len(form) == 0 || form[0] > packedForm:
		return nil, fmt.Errorf("a message in an unknown form: %w", ErrMalformed)
	case form[0] == plainForm:
		return form[1:], nil
	}
	plain, err := decoder().DecodeAll(form[1:], nil)
	if err != nil {
		return nil, fmt.Errorf("%w: unpack %d bytes (at most to %d): %w", ErrMalformed, len(form)-1, MaxUnpacked, err)
	}
	return plain, nil
}

// PackPayload gives a broadcast's payload the form in which it travels. It is
// compressed once, by the root, and not by every node on its way.
func PackPayload(payload []byte) []byte {
	plain := append([]byte{plainForm}, payload...)
	if len(payload) > packFrom && len(payload) <= MaxUnpacked {
		return pack(plain)
	}
	return plain
}

// UnpackPayload is the inverse of PackPayload. Errors match ErrMalformed.
func UnpackPayload(form []byte) ([]byte, error) { return unpack(form) }

// packable is how much of a message compression may gain something on.
func packable(message dht.Message, size int) int {
	if cast, ok := message.(dht.Cast); ok && len(cast.Payload) > 0 && cast.Payload[0] == packedForm {
		return size - len(cast.Payload)
	}
	return size
}
