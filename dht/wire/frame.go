package wire

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"google.golang.org/protobuf/proto"

	"github.com/pilotage-grid/pilotage/dht"
	pb "github.com/pilotage-grid/pilotage/proto/pilotage/v1"
)

// Append adds a message and its length to buffer. It fails with ErrTooLarge
// when the message exceeds MaxUnpacked, or MaxMessage after compression.
func Append(buffer []byte, message dht.Message) ([]byte, error) {
	envelope, err := envelopeOf(message)
	if err != nil {
		return nil, err
	}
	if size := proto.Size(envelope); size > MaxUnpacked {
		return nil, fmt.Errorf("send %T of %d bytes, at most %d: %w", message, size, MaxUnpacked, ErrTooLarge)
	}
	body, err := proto.Marshal(envelope)
	if err != nil {
		return nil, fmt.Errorf("send %T: %w", message, err)
	}
	if packable(message, len(body)) > packFrom {
		if body, err = pack(body); err != nil {
			return nil, fmt.Errorf("send %T: %w", message, err)
		}
	}
	if len(body) > MaxMessage {
		return nil, fmt.Errorf("send %T of %d bytes compressed, at most %d: %w", message, len(body), MaxMessage, ErrTooLarge)
	}
	return append(binary.AppendUvarint(buffer, uint64(len(body))), body...), nil
}

// pack wraps a marshalled message in a compressed one, if that is smaller.
func pack(body []byte) ([]byte, error) {
	packed, err := proto.Marshal(&pb.OverlayMessage{Body: &pb.OverlayMessage_Zstd{Zstd: compress(body)}})
	if err != nil || len(packed) >= len(body) {
		return body, err
	}
	return packed, nil
}

// eagerly is how many announced bytes are allocated before they arrive; what
// is longer grows with what really comes.
const eagerly = 64 << 10

// ReadFrame reads one message's bytes, without its length. io.EOF means that
// the sender has ended the stream between two messages.
func ReadFrame(reader *bufio.Reader) ([]byte, error) {
	length, err := binary.ReadUvarint(reader)
	if errors.Is(err, io.EOF) {
		return nil, io.EOF
	}
	if err != nil {
		return nil, fmt.Errorf("read the length of an overlay message: %w", err)
	}
	if length == 0 || length > MaxMessage {
		return nil, fmt.Errorf("an overlay message of %d bytes is announced, 1 to %d are read: %w", length, MaxMessage, ErrMalformed)
	}
	var body bytes.Buffer
	body.Grow(int(min(length, eagerly)))
	if _, err := io.CopyN(&body, reader, int64(length)); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return nil, fmt.Errorf("read an overlay message of %d bytes: %w", length, err)
	}
	return body.Bytes(), nil
}

// Decode reads the bytes of one message. Errors match ErrMalformed.
func Decode(body []byte) (dht.Message, error) {
	envelope, err := open(body)
	if err != nil {
		return nil, err
	}
	if packed, ok := envelope.GetBody().(*pb.OverlayMessage_Zstd); ok {
		plain, err := decompress(packed.Zstd)
		if err != nil {
			return nil, fmt.Errorf("%w: unpack %d bytes (at most to %d): %w", ErrMalformed, len(packed.Zstd), MaxUnpacked, err)
		}
		if envelope, err = open(plain); err != nil {
			return nil, err
		}
	}
	var c check
	message := c.message(envelope)
	if c.err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMalformed, c.err)
	}
	return message, nil
}

func open(body []byte) (*pb.OverlayMessage, error) {
	var envelope pb.OverlayMessage
	if err := proto.Unmarshal(body, &envelope); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	return &envelope, nil
}
