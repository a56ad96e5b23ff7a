package spawner

import (
	"encoding/binary"
	"errors"
	"io"
	"math"
	"reflect"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pilotage-grid/pilotage/internal/codec"
)

// Order is what the pilot sends: first Prepare, then for each payload Start, with
// its three or four files, Tell as often as somebody asks, and where somebody is left End.
type Order struct {
	Prepare *Prepare
	Start   *Start
	Tell    bool // what all hold in System V memory and messages
	End     bool // of all that are left
}

// Prepare says what all payloads of a spawner have in common.
type Prepare struct {
	View View
	// Gated tells that a file comes with it: the Landlock ruleset for what payloads
	// reach beside files.
	Gated bool
	// PlainTCP closes the ways around the ports of that ruleset.
	PlainTCP bool
}

// Start is a payload to start.
type Start struct {
	Program     string
	Arguments   []string
	Environment []string
	Search      []string // folders in which a container may have the program
	Work        string   // its work folder, of the account
	Private     string   // the folder in it that is /tmp of a container
	Inputs      []BoundInput
	Account     *Account
	// Processes and threads that it may have in all, if not 0.
	Processes int
	// SharedMemory bounds its own /dev/shm, in bytes; 0: it has what the view shows.
	SharedMemory int64
	// Grouped tells that a fourth file is the control group to start it in.
	Grouped bool
}

// BoundInput is a cached file that is shown, read-only, in place of a file in the
// work folder.
type BoundInput struct{ Cached, Place string }

// Account is a user of the node.
type Account struct{ UID, GID int }

// Credential has no further groups.
func (a *Account) Credential() *syscall.Credential {
	return &syscall.Credential{Uid: uint32(a.UID), Gid: uint32(a.GID)}
}

// News is what a spawner answers: Ready or Fault to Prepare, Started or Fault to
// Start, Exited when the payload has, Ended to End; between them Held.
type News struct {
	Fault   string
	Errno   int // of Fault where the payload's program is its cause
	Pid     int // of the launcher: the spawner's
	Ready   bool
	Started int64  // nanoseconds since 1970
	Held    *int64 // bytes
	Exited  *Used
	Ended   *Used // with everybody's times
	// Alone, with Exited, tells that nobody is left: no End is needed.
	Alone bool
	// Spoiled, when nobody is left, tells that it serves no further attempt.
	Spoiled bool
}

// Used is what was used by the time At.
type Used struct {
	At           int64 // nanoseconds since 1970
	Status       int
	User, System time.Duration
	Peak         int64 // KiB, 0 when not known
}

// messages are read by those that trust each other: payloads have no way to the
// socket.
var messages = codec.New(
	[]reflect.Type{reflect.TypeFor[Order](), reflect.TypeFor[News]()},
	codec.Limits(map[string]codec.Range{"text": codec.UpTo(math.MaxInt32), "list": codec.UpTo(math.MaxInt32)}),
	codec.Items(math.MaxInt32),
)

// frame is a message after its length.
func frame(message any) []byte {
	body := messages.Append(make([]byte, 4, 1024), message)
	binary.LittleEndian.PutUint32(body, uint32(len(body)-4))
	return body
}

// Frame returns an order as it is sent; its files go with the first byte.
func (o *Order) Frame() []byte { return frame(o) }

// ReadNews reads the next news.
func ReadNews(from io.Reader) (news News, err error) {
	var head [4]byte
	if _, err := io.ReadFull(from, head[:]); err != nil {
		return news, err
	}
	body := make([]byte, binary.LittleEndian.Uint32(head[:]))
	if _, err := io.ReadFull(from, body); err != nil {
		return news, err
	}
	return news, messages.Decode(body, &news)
}

// receive waits for the next order.
func receive(socket int) (order Order, files []int, err error) {
	var head [4]byte
	control := make([]byte, unix.CmsgSpace(4*4))
	n, m, _, _, err := unix.Recvmsg(socket, head[:], control, unix.MSG_CMSG_CLOEXEC|unix.MSG_WAITALL)
	for errors.Is(err, unix.EINTR) {
		n, m, _, _, err = unix.Recvmsg(socket, head[:], control, unix.MSG_CMSG_CLOEXEC|unix.MSG_WAITALL)
	}
	if err != nil || n != len(head) {
		return order, nil, errors.Join(err, io.ErrUnexpectedEOF)
	}
	if parsed, err := unix.ParseSocketControlMessage(control[:m]); err == nil && len(parsed) > 0 {
		files, _ = unix.ParseUnixRights(&parsed[0])
	}
	body := make([]byte, binary.LittleEndian.Uint32(head[:]))
	for rest := body; len(rest) > 0; {
		n, err := unix.Read(socket, rest)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil || n == 0:
			return order, files, errors.Join(err, io.ErrUnexpectedEOF)
		default:
			rest = rest[n:]
		}
	}
	return order, files, messages.Decode(body, &order)
}

func send(socket int, news *News) error {
	for rest := frame(news); len(rest) > 0; {
		n, err := unix.Write(socket, rest)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return err
		}
		rest = rest[max(n, 0):]
	}
	return nil
}
