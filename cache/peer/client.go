package peer

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/pilotage-grid/pilotage/cache"
	"github.com/pilotage-grid/pilotage/identity"
	"github.com/pilotage-grid/pilotage/task"
)

// ClientConfig of a Client. Zero times mean the defaults.
type ClientConfig struct {
	Own      identity.MemberCertificate
	Verifier *identity.Verifier
	Site     task.Site
	Clock    func() time.Time // nil: time.Now
	// DataURL is where this pilot serves, told to those it fetches from, who
	// send others there; "" when it does not serve.
	DataURL string

	Dial   time.Duration // to connect and shake hands: 5 s, long for a site network
	Header time.Duration // from the request to the answer: 10 s, serving waits for nothing
	Stall  time.Duration // in which a transfer brings 64 KiB at least, or ends: 10 s
	// MinRate is what a peer brings in each second after Patience, in the mean, or its
	// transfer ends: 512 KiB, half of what peers ask of their readers, and 30 s. Peers
	// that bring parts of one file at the same time may share it.
	MinRate  task.Bytes
	Patience time.Duration
}

func (c ClientConfig) withDefaults() ClientConfig {
	if c.Clock == nil {
		c.Clock = time.Now
	}
	if c.Dial <= 0 {
		c.Dial = 5 * time.Second
	}
	if c.Header <= 0 {
		c.Header = 10 * time.Second
	}
	if c.Stall <= 0 {
		c.Stall = 10 * time.Second
	}
	if c.MinRate <= 0 {
		c.MinRate = 512 * task.KiB
	}
	if c.Patience <= 0 {
		c.Patience = 30 * time.Second
	}
	return c
}

// maxConnected is how many peers keep idle connections; the others are
// connected anew.
const maxConnected = 64

// Client fetches files from peers over kept connections. Safe for concurrent
// use.
type Client struct {
	config ClientConfig

	mu     sync.Mutex
	links  map[cache.Holder]*link
	serial uint64
}

// link is the connections to one peer at one address.
type link struct {
	transport *http.Transport
	users     int
	used      uint64 // serial of the last use
}

// NewClient returns a client. It connects to nobody yet.
func NewClient(config ClientConfig) *Client {
	return &Client{config: config.withDefaults(), links: map[cache.Holder]*link{}}
}

// Close ends idle connections. Transfers under way go on.
func (c *Client) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for holder, l := range c.links {
		l.transport.CloseIdleConnections()
		delete(c.links, holder)
	}
}

// link returns the connections to a holder; give them back with unlink. They
// are per peer, not per address only, because the certificate is checked when
// a connection is made.
func (c *Client) link(holder cache.Holder) *link {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.links[holder]
	if l == nil {
		c.makeRoom()
		l = &link{transport: c.transport(holder.Peer)}
		c.links[holder] = l
	}
	c.serial++
	l.users++
	l.used = c.serial
	return l
}

func (c *Client) unlink(holder cache.Holder, l *link) {
	c.mu.Lock()
	defer c.mu.Unlock()
	l.users--
	if l.users == 0 && c.links[holder] != l { // forgotten by Close meanwhile
		l.transport.CloseIdleConnections()
	}
}

// makeRoom ends the connections to the peer that was not used the longest.
func (c *Client) makeRoom() {
	if len(c.links) < maxConnected {
		return
	}
	var oldest cache.Holder
	var found *link
	for holder, l := range c.links {
		if l.users == 0 && (found == nil || l.used < found.used) {
			oldest, found = holder, l
		}
	}
	if found != nil {
		found.transport.CloseIdleConnections()
		delete(c.links, oldest)
	}
}

func (c *Client) transport(expect task.PeerID) *http.Transport {
	return &http.Transport{
		DialContext:           (&net.Dialer{Timeout: c.config.Dial}).DialContext,
		TLSClientConfig:       identity.DataClientTLS(c.config.Own, c.config.Verifier, c.config.Site, expect, c.config.Clock),
		TLSHandshakeTimeout:   c.config.Dial,
		TLSNextProto:          map[string]func(string, *tls.Conn) http.RoundTripper{}, // HTTP/1.1 only
		ResponseHeaderTimeout: c.config.Header,
		MaxIdleConnsPerHost:   4,
		IdleConnTimeout:       time.Minute,
		DisableCompression:    true, // ranges are those of the stored bytes
		ReadBufferSize:        64 << 10,
		// A manifest of one chunk and the usual fields have some 500 bytes.
		MaxResponseHeaderBytes: maxHeader,
	}
}

// errStalled is the cause of a request that was ended for want of bytes.
var errStalled = errors.New("hardly a byte came for too long")

// errSlow is the cause of one that was ended because it would have taken too long.
var errSlow = errors.New("its bytes come too slowly")

// leastProgress is what a peer brings in each stall time, if not all of the rest.
const leastProgress = 64 << 10

// answer is a response whose body is bound to the stall time-out and to a pace.
type answer struct {
	*http.Response
	cancel context.CancelCauseFunc
	stall  *time.Timer
	limit  time.Duration
	got    int // of leastProgress
	began  time.Time
	sum    task.Bytes
	pace   pace
	done   func()
	taken  bool // as much as was wanted has been read: the connection can be kept
}

// pace is how slow bytes may come: any, for a while, then so many a second in the mean.
type pace struct {
	patience time.Duration
	rate     task.Bytes
}

func (p pace) tooSlow(sum task.Bytes, span time.Duration) bool {
	return float64(sum) < float64(p.rate)*(span-p.patience).Seconds()
}

func (a *answer) Read(p []byte) (int, error) {
	n, err := a.Body.Read(p)
	a.sum += task.Bytes(n)
	if a.got += n; a.got >= leastProgress {
		a.got = 0
		a.stall.Reset(a.limit)
		if a.pace.tooSlow(a.sum, time.Since(a.began)) {
			a.cancel(errSlow)
			return n, errSlow
		}
	}
	return n, err
}

// Close ends the request. It reads what little may be left if the connection
// is to be kept.
func (a *answer) Close() {
	if a.taken {
		_, _ = io.CopyN(io.Discard, a.Body, 4<<10)
	}
	_ = a.Body.Close() // nothing more is wanted of it
	a.stall.Stop()
	a.cancel(nil)
	a.done()
}

// get sends a request. Whatever is not 200 or 206 becomes an error, and so
// does everything before it: ErrUnreachable, ErrNotHeld, *BusyError, or that
// of the caller's context. Sources is how many peers bring parts at the same time.
func (c *Client) get(ctx context.Context, from cache.Holder, target, byteRange string, sources int) (*answer, error) {
	if err := CheckHolder(from); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	if c.config.Verifier.IsDenied(from.Peer) { // kept connections outlive the handshake that judged them
		return nil, fmt.Errorf("%w: %w", ErrUnreachable, identity.ErrDenied)
	}
	requestCtx, cancel := context.WithCancelCause(ctx)
	request, err := http.NewRequestWithContext(requestCtx, http.MethodGet, target, http.NoBody)
	if err != nil {
		cancel(nil)
		return nil, fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	if byteRange != "" {
		request.Header.Set("Range", byteRange)
	}
	if c.config.DataURL != "" {
		request.Header.Set(headerDataURL, c.config.DataURL)
	}
	l := c.link(from)
	// Without http.Client, redirects are not followed: nobody sends one to
	// another place under the name of this peer.
	response, err := l.transport.RoundTrip(request) //nolint:bodyclose // answer.Close closes it
	if err != nil {
		cancel(nil)
		c.unlink(from, l)
		return nil, unreachable(ctx, err)
	}
	a := &answer{
		Response: response, cancel: cancel, limit: c.config.Stall, done: func() { c.unlink(from, l) },
		began: time.Now(), pace: pace{c.config.Patience, c.config.MinRate / task.Bytes(sources)},
	}
	a.stall = time.AfterFunc(c.config.Stall, func() { cancel(errStalled) })
	if err := a.refusal(ctx, from.Peer); err != nil {
		a.Close()
		return nil, err
	}
	return a, nil
}

// refusal turns a status into an error.
func (a *answer) refusal(ctx context.Context, from task.PeerID) error {
	switch a.StatusCode {
	case http.StatusOK, http.StatusPartialContent:
		return nil
	case http.StatusNotFound:
		a.taken = true
		return ErrNotHeld
	case http.StatusTooManyRequests:
		body, err := io.ReadAll(io.LimitReader(a, maxBusy))
		if err != nil {
			return unreachable(ctx, err)
		}
		a.taken = true
		busy := &BusyError{Peer: from}
		busy.RetryAfter, busy.Others = decodeBusy(body)
		return busy
	default:
		return fmt.Errorf("%w: it answers with status %d", ErrUnreachable, a.StatusCode)
	}
}

// unreachable is the error for a connection that failed, unless the caller
// ended it.
func unreachable(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return fmt.Errorf("%w: %w", ErrUnreachable, err)
}
