package wire

import (
	"errors"
	"fmt"
	"reflect"

	"github.com/pilotage-grid/pilotage/internal/codec"
	"github.com/pilotage-grid/pilotage/pilot/message"
)

// version begins every message. It is raised when pilots of the version before
// cannot read the messages any more, and node.Protocol with it: by that one the queue
// keeps pilots of two releases apart.
const version = 1

// ErrMalformed is wrapped by every error of Decode.
var ErrMalformed = errors.New("malformed message between master and worker")

// kinds are what master and workers say. Their numbers are their places: new ones
// go to the end.
var kinds = codec.Union[message.Message](
	message.TaskList{}, message.Answer{}, message.State{}, message.Report{}, message.Snapshot{}, message.Assign{}, message.Retract{},
	message.Kill{}, message.Acks{}, message.Want{}, message.KeepCopy{}, message.StoreOrder{}, message.DrainOrder{}, message.Replicate{},
)

var messages = New([]reflect.Type{reflect.TypeFor[message.Message]()},
	codec.Check(checkAssignment), codec.Check(checkAck), codec.Check(checkOutcome), codec.Check(checkResources))

// New makes a codec for types that hold messages, with the limits of messages.
func New(types []reflect.Type, options ...codec.Option) *codec.Codec {
	return codec.New(types, append(options, kinds, codec.Limits(limits), codec.Items(maxItems), codec.Form(keyToBytes, keyFromBytes),
		codec.Form(toListed, fromListed), codec.Form(toColumns, fromColumns), codec.Form(toVariables, fromVariables),
		codec.Form(toMoment, fromMoment))...)
}

// Encode turns a message into bytes. Equal messages give equal bytes.
func Encode(m message.Message) []byte { return messages.Append([]byte{version}, &m) }

// Decode reads a message that came from another pilot. Errors wrap
// ErrMalformed and name the field and its limit.
func Decode(data []byte) (m message.Message, err error) {
	switch {
	case len(data) > MaxMessage:
		err = fmt.Errorf("%d bytes, at most %d", len(data), MaxMessage)
	case len(data) == 0 || data[0] != version:
		err = errors.New("it is of another version of pilotage")
	default:
		err = messages.Decode(data[1:], &m)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	return m, nil
}
