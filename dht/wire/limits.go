package wire

import "errors"

// Limits of one message. What exceeds them is refused by Append and by Decode
// alike, so that a sender learns of it where it can still be helped.
const (
	// MaxMessage is the largest message on the wire, in bytes: a task list
	// of 10,000 tasks with room to spare, yet small enough that a few of
	// them at once do not fill a worker node's memory.
	MaxMessage = 8 << 20
	// MaxUnpacked is the largest message before compression, in bytes.
	MaxUnpacked = 32 << 20
	// packFrom is the size in bytes from which compressing pays.
	packFrom = 1 << 10

	maxFile    = 1100 // bytes of a file key: an LFN and its prefix
	maxRecords = 100_000
)

var (
	// ErrTooLarge says that the message exceeds a limit of this package.
	ErrTooLarge = errors.New("larger than a message may be")
	// ErrMalformed says that the bytes are no message.
	ErrMalformed = errors.New("malformed overlay message")
)
