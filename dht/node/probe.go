package node

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"reflect"
	"strconv"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"
	"github.com/multiformats/go-multiaddr"
	manet "github.com/multiformats/go-multiaddr/net"

	"github.com/pilotage-grid/pilotage/dht"
	"github.com/pilotage-grid/pilotage/internal/codec"
	"github.com/pilotage-grid/pilotage/task"
)

const (
	// probeTime bounds each of the responder's two connection attempts.
	probeTime = 2 * time.Second
	// probePause is how long a peer waits between two probes.
	probePause = time.Second
	// probesAtOnce bounds what a responder does for all peers together.
	probesAtOnce = 8
	// probeBytes is the largest message of this protocol.
	probeBytes = 4 << 10
)

// ErrUnreachable says that a peer could not connect to one of this pilot's ports.
var ErrUnreachable = errors.New("not reachable by its peers")

// probeRequest asks a member whether the sender's ports can be reached from where it
// is; 0 is not to be tried. It names no host: only the address that the request comes
// from is tried.
type probeRequest struct{ OverlayPort, DataPort uint32 }

// probeResponse tells what happened. Empty texts mean success.
type probeResponse struct {
	Address      string // that was tried
	Refused      string // why nothing was tried
	OverlayError string
	DataError    string
}

var probeForms = codec.New([]reflect.Type{reflect.TypeFor[probeRequest](), reflect.TypeFor[probeResponse]()},
	codec.Limits(map[string]codec.Range{"text": codec.UpTo(probeBytes)}))

// ErrBusy says that a peer was reached and had no time to connect back.
var ErrBusy = errors.New("busy with other probes")

func probeProtocol(site task.Site) protocol.ID {
	return membershipChannel.protocol(site) + "/probe"
}

// Probe asks a member to connect back to this pilot: to the overlay's port and
// to the data server at dataURL ("" skips it). The error matches
// ErrUnreachable when the peer tried and failed, and says from where, to what
// and why; ErrBusy, that it did not try; any other error says that the question
// was not answered.
func (n *Node) Probe(ctx context.Context, contact dht.Member, dataURL string) error {
	request := &probeRequest{OverlayPort: n.overlayPort()}
	if dataURL != "" {
		port, err := portOf(dataURL)
		if err != nil {
			return fmt.Errorf("probe the data server's port: %w", err)
		}
		request.DataPort = port
	}
	target, err := destinationOf(contact)
	if err != nil {
		return fmt.Errorf("ask pilot %s for a probe: %w", contact.Pilot, err)
	}
	ctx, cancel := context.WithTimeout(ctx, dialTime+3*probeTime)
	defer cancel()
	n.dialAnew(target.id) // what failed before says nothing about now
	response, err := n.askProbe(ctx, target, request)
	if err != nil {
		return fmt.Errorf("ask pilot %s for a probe: %w", contact.Pilot, err)
	}
	switch {
	case response.Refused != "":
		return fmt.Errorf("pilot %s does not probe: %.200s: %w", contact.Pilot, response.Refused, ErrBusy)
	case response.OverlayError != "":
		return fmt.Errorf("pilot %s cannot connect to the overlay's port %d at %.60s: %.200s: %w (open it in the firewall, or set --port-range and --advertise)",
			contact.Pilot, request.OverlayPort, response.Address, response.OverlayError, ErrUnreachable)
	case response.DataError != "":
		return fmt.Errorf("pilot %s cannot connect to the data port %d at %.60s: %.200s: %w (open it in the firewall, or set --port-range and --advertise)",
			contact.Pilot, request.DataPort, response.Address, response.DataError, ErrUnreachable)
	}
	return nil
}

func (n *Node) overlayPort() uint32 {
	for _, address := range n.host.Network().ListenAddresses() {
		if text, err := address.ValueForProtocol(multiaddr.P_TCP); err == nil {
			if port, err := strconv.ParseUint(text, 10, 16); err == nil {
				return uint32(port)
			}
		}
	}
	return 0
}

func portOf(dataURL string) (uint32, error) {
	parsed, err := url.Parse(dataURL)
	if err != nil {
		return 0, fmt.Errorf("data URL: %w", err)
	}
	port, err := strconv.ParseUint(parsed.Port(), 10, 16)
	if err != nil || port == 0 {
		return 0, fmt.Errorf("data URL %.200q names no port", dataURL)
	}
	return uint32(port), nil
}

func (n *Node) askProbe(ctx context.Context, target destination, request *probeRequest) (*probeResponse, error) {
	if err := n.connect(ctx, target); err != nil {
		return nil, err
	}
	stream, err := n.host.NewStream(network.WithNoDial(ctx, "connected above"), target.id, probeProtocol(n.config.Site))
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = stream.Reset() })
	defer stop()
	defer func() { _ = stream.Close() }()
	if err := writeProbe(stream, request); err != nil {
		return nil, err
	}
	var response probeResponse
	if err := readProbe(stream, &response); err != nil {
		return nil, errors.Join(ctx.Err(), err)
	}
	return &response, nil
}

// probes limits what a responder does for others.
type probes struct {
	mutex   sync.Mutex
	last    map[peer.ID]time.Time
	running int
}

// begin tells why a probe is refused, or "".
func (p *probes) begin(from peer.ID, now time.Time) string {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	for id, at := range p.last {
		if now.Sub(at) >= probePause {
			delete(p.last, id)
		}
	}
	if _, recent := p.last[from]; recent || p.running >= probesAtOnce {
		return fmt.Sprintf("too many probes, ask again after %s", probePause)
	}
	p.last[from] = now
	p.running++
	return ""
}

func (p *probes) done() {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.running--
}

// answerProbe connects back to the requester's own address, whatever it asks.
func (n *Node) answerProbe(stream network.Stream) {
	if !n.life.enter() {
		_ = stream.Reset()
		return
	}
	defer n.life.work.Done()
	_ = stream.SetDeadline(time.Now().Add(dialTime + 2*probeTime)) // else a reset ends it
	var request probeRequest
	if err := readProbe(stream, &request); err != nil {
		_ = stream.Reset()
		return
	}
	if err := writeProbe(stream, n.tryBack(stream.Conn(), &request)); err != nil {
		_ = stream.Reset()
		return
	}
	_ = stream.Close()
}

func (n *Node) tryBack(from network.Conn, request *probeRequest) *probeResponse {
	if refused := n.probes.begin(from.RemotePeer(), time.Now()); refused != "" {
		return &probeResponse{Refused: refused}
	}
	defer n.probes.done()
	ip, err := manet.ToIP(from.RemoteMultiaddr())
	if err != nil {
		return &probeResponse{Refused: "the request comes from no IP address"}
	}
	response := &probeResponse{Address: ip.String()}
	response.OverlayError = n.tryPort(ip, request.OverlayPort)
	response.DataError = n.tryPort(ip, request.DataPort)
	return response
}

// tryPort opens a new TCP connection and closes it; "" means that it worked.
func (n *Node) tryPort(ip net.IP, port uint32) string {
	if port == 0 {
		return ""
	}
	if port > 65535 {
		return fmt.Sprintf("%d is no port", port)
	}
	ctx, cancel := context.WithTimeout(n.life.ctx, probeTime)
	defer cancel()
	if err := n.config.Carrier.Reach(ctx, ip, port); err != nil {
		return err.Error()
	}
	return ""
}

func writeProbe(w io.Writer, message any) error {
	body := probeForms.Append(nil, message)
	_, err := w.Write(append(binary.AppendUvarint(nil, uint64(len(body))), body...))
	return err
}

func readProbe(r io.Reader, message any) error {
	reader := bufio.NewReader(r)
	length, err := binary.ReadUvarint(reader)
	if err != nil {
		return err
	}
	if length > probeBytes {
		return fmt.Errorf("a message of %d bytes, at most %d", length, probeBytes)
	}
	body := make([]byte, length)
	if _, err := io.ReadFull(reader, body); err != nil {
		return err
	}
	return probeForms.Decode(body, message)
}
