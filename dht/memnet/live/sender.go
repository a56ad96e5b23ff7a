package live

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"time"

	kadpb "github.com/libp2p/go-libp2p-kad-dht/pb"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"
	"google.golang.org/protobuf/proto"
)

const (
	// answerTime bounds kad-dht's question to a member; its own sender waits
	// as long.
	answerTime = 10 * time.Second
	// answerBytes is the largest answer that is read.
	answerBytes = network.MessageSizeMax
)

// sender asks kad-dht's questions, each on a stream of its own that ends with
// the answer: kad-dht's own sender keeps one open to every peer, with a
// goroutine that waits at its other end.
type sender struct {
	host      host.Host
	protocols []protocol.ID
}

func newSender(h host.Host, protocols []protocol.ID) kadpb.MessageSenderWithDisconnect {
	return &sender{host: h, protocols: protocols}
}

// OnDisconnect satisfies kad-dht's interface: nothing is kept.
func (s *sender) OnDisconnect(context.Context, peer.ID) {}

// SendRequest satisfies kad-dht's interface.
func (s *sender) SendRequest(ctx context.Context, to peer.ID, question *kadpb.Message) (*kadpb.Message, error) {
	began := time.Now()
	var answer kadpb.Message
	err := s.converse(ctx, to, question, func(stream network.Stream) error {
		reader := bufio.NewReaderSize(stream, 512)
		length, err := binary.ReadUvarint(reader)
		if err != nil {
			return err
		}
		if length > answerBytes {
			return fmt.Errorf("an answer of %d bytes, at most %d", length, answerBytes)
		}
		body := make([]byte, length)
		if _, err := io.ReadFull(reader, body); err != nil {
			return err
		}
		return proto.Unmarshal(body, &answer)
	})
	if err != nil {
		return nil, err
	}
	s.host.Peerstore().RecordLatency(to, time.Since(began))
	return &answer, nil
}

// SendMessage satisfies kad-dht's interface.
func (s *sender) SendMessage(ctx context.Context, to peer.ID, message *kadpb.Message) error {
	return s.converse(ctx, to, message, func(network.Stream) error { return nil })
}

func (s *sender) converse(ctx context.Context, to peer.ID, message *kadpb.Message, listen func(network.Stream) error) error {
	body, err := proto.Marshal(message)
	if err != nil {
		return fmt.Errorf("ask %s: %w", to, err)
	}
	stream, err := s.host.NewStream(ctx, to, s.protocols...)
	if err != nil {
		return fmt.Errorf("ask %s: %w", to, err)
	}
	stop := context.AfterFunc(ctx, func() { _ = stream.Reset() }) // what waits on it is told
	defer stop()
	_ = stream.SetDeadline(time.Now().Add(answerTime)) // a carrier's stream has deadlines
	_, err = stream.Write(append(binary.AppendUvarint(nil, uint64(len(body))), body...))
	if err == nil {
		err = listen(stream)
	}
	if err != nil {
		_ = stream.Reset() // it is of no more use
		return fmt.Errorf("ask %s: %w", to, err)
	}
	return stream.Close()
}
