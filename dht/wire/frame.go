package wire

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/pilotage-grid/pilotage/dht"
)

// Append adds a message and its length to buffer. It fails with ErrTooLarge
// when the message exceeds MaxUnpacked, or MaxMessage after compression.
func Append(buffer []byte, message dht.Message) ([]byte, error) {
	plain := forms.Append([]byte{plainForm}, &message)
	if len(plain) > MaxUnpacked {
		return nil, fmt.Errorf("send %T of %d bytes, at most %d: %w", message, len(plain), MaxUnpacked, ErrTooLarge)
	}
	body := plain
	if packable(message, len(plain)) > packFrom {
		body = pack(plain)
	}
	if len(body) > MaxMessage {
		return nil, fmt.Errorf("send %T of %d bytes compressed, at most %d: %w", message, len(body), MaxMessage, ErrTooLarge)
	}
	return append(binary.AppendUvarint(buffer, uint64(len(body))), body...), nil
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

// Decode reads the bytes of one message. Errors match ErrMalformed, and name the
// field.
func Decode(body []byte) (message dht.Message, err error) {
	plain, err := unpack(body)
	if err != nil {
		return nil, err
	}
	if err := forms.Decode(plain, &message); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	return message, nil
}
