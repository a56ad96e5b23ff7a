package wire

import (
	"sync"

	"github.com/klauspost/compress/zstd"
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
