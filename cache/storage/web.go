package storage

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/pilotage-grid/pilotage/task"
)

// maxRedirects is one hop from a door to a pool of a distributed element, and
// some in reserve.
const maxRedirects = 5

// web is what http(s):// elements and replicas share: one HTTP client, and a
// retry budget per host.
type web struct {
	client *http.Client
	opts   Options

	mu          sync.Mutex
	budgets     map[string]*budget // by scheme and host
	secrets     task.StorageSecrets
	credentials []*opened
}

func originOf(u *url.URL) string { return u.Scheme + "://" + u.Host }

func newWeb(opts Options) *web {
	client := &http.Client{}
	if opts.Client != nil {
		*client = *opts.Client
	} else {
		client.Transport = newTransport(opts.Timeouts, &tls.Config{MinVersion: tls.VersionTLS12})
	}
	w := &web{client: client, opts: opts, budgets: map[string]*budget{}}
	client.CheckRedirect = w.checkRedirect
	return w
}

// newTransport speaks HTTP/1.1 only: one connection per transfer moves bulk data
// faster than streams that share one.
func newTransport(times Timeouts, secured *tls.Config) *http.Transport {
	return &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: times.Dial, Control: noLinkLocal}).DialContext,
		TLSClientConfig:       secured,
		TLSHandshakeTimeout:   times.TLS,
		ResponseHeaderTimeout: times.Header,
		ExpectContinueTimeout: time.Second,
		MaxIdleConnsPerHost:   16,
		IdleConnTimeout:       time.Minute,
		DisableCompression:    true, // sizes and offsets are those of the stored bytes
	}
}

// noLinkLocal refuses addresses at which no storage element is, but where clouds tell
// their machines who they are: whoever names a copy would have it read by a pilot.
func noLinkLocal(_, address string, _ syscall.RawConn) error {
	at, err := netip.ParseAddrPort(address)
	if err == nil && at.Addr().Unmap().IsLinkLocalUnicast() {
		return fmt.Errorf("%s is a link-local address: storage elements have others", at.Addr())
	}
	return err
}

// errRedirect marks redirects that are not followed.
var errRedirect = errors.New("redirect not followed")

func (w *web) checkRedirect(next *http.Request, via []*http.Request) error {
	first, last := via[0], via[len(via)-1]
	switch {
	case first.Method == methodMkcol:
		// Servers redirect from a folder to the same with a slash: it exists.
		return http.ErrUseLastResponse
	case len(via) > maxRedirects:
		return fmt.Errorf("%w: more than %d in a row", errRedirect, maxRedirects)
	case next.URL.Scheme != "https" && next.URL.Scheme != "http":
		return fmt.Errorf("%w: it leads to %s", errRedirect, next.URL.Scheme)
	case last.URL.Scheme == "https" && next.URL.Scheme != "https":
		return fmt.Errorf("%w: it leads from https to %s", errRedirect, next.URL.Scheme)
	case task.OnThisMachine(next.URL) && !task.OnThisMachine(first.URL):
		return fmt.Errorf("%w: it leads from %s to this machine", errRedirect, first.URL.Hostname())
	case next.Method != first.Method:
		// After 301 to 303 the client would go on with GET and take its
		// success for that of a PUT.
		return fmt.Errorf("%w: it would turn %s into %s", errRedirect, first.Method, next.Method)
	}
	if originOf(next.URL) != originOf(first.URL) {
		next.Header.Del("Authorization")
	}
	next.Header.Del("Referer") // may hold a signed query
	return nil
}

// call is one request, which may be tried several times.
type call struct {
	op, method string
	url        *url.URL
	header     http.Header
	body       func() (io.ReadCloser, error) // nil: none
	size       int64                         // of the body
	accept     func(status int) bool
}

// do returns the first accepted answer. The caller closes its body, which is
// bound to the context and to the stall time-out.
func (w *web) do(ctx context.Context, c call) (answer *http.Response, err error) {
	retries := w.budget(c.url)
	err = w.opts.Retry.run(ctx, retries, func() error {
		answer, err = w.once(ctx, c) //nolint:bodyclose // the caller of do closes it; refused answers are closed in once
		return err
	})
	if err != nil {
		return nil, err
	}
	return answer, nil
}

func (w *web) budget(u *url.URL) *budget {
	w.mu.Lock()
	defer w.mu.Unlock()
	key := originOf(u)
	if w.budgets[key] == nil {
		w.budgets[key] = newBudget(w.opts.Retry.Budget)
	}
	return w.budgets[key]
}

func (w *web) once(ctx context.Context, c call) (*http.Response, error) {
	guarded, guard := newStallGuard(ctx, w.opts.Timeouts.Stall)
	request, err := w.request(guarded, c, guard)
	if err != nil {
		guard.end()
		return nil, &Error{Op: c.op, URL: shown(c.url), Err: err}
	}
	client := w.client
	if known := w.credential(c.url); known != nil {
		if known.broken != nil {
			guard.end()
			return nil, &Error{Op: c.op, URL: shown(c.url), Kind: ErrRefused, Err: known.broken}
		}
		client = known.client
		if known.Token != "" && mayCarryToken(c.url) {
			request.Header.Set("Authorization", "Bearer "+known.Token)
		}
	}
	answer, err := client.Do(request)
	if err == nil && c.accept(answer.StatusCode) {
		guard.got(leastProgress)
		answer.Body = &guardedBody{ReadCloser: answer.Body, guard: guard, incoming: true}
		return answer, nil
	}
	defer guard.end()
	if err == nil {
		// Reading the rest of a short explanation keeps the connection usable.
		_, _ = io.CopyN(io.Discard, answer.Body, 4<<10)
		_ = answer.Body.Close()
		return nil, w.refusal(c, answer)
	}
	if reason := ended(ctx); reason != nil {
		return nil, fmt.Errorf("%s %s: %w", c.op, shown(c.url), reason)
	}
	if stalled := context.Cause(guarded); stalled != nil {
		err = stalled
	}
	return nil, w.unanswered(c, err)
}

func (w *web) request(ctx context.Context, c call, guard *stallGuard) (*http.Request, error) {
	request, err := http.NewRequestWithContext(ctx, c.method, c.url.String(), nil)
	if err != nil {
		return nil, err
	}
	for name, values := range c.header {
		request.Header[name] = values
	}
	request.Header.Set("User-Agent", "pilotage")
	if c.body != nil && c.size > 0 {
		open := func() (io.ReadCloser, error) {
			body, err := c.body()
			if err != nil {
				return nil, err
			}
			return &guardedBody{ReadCloser: body, guard: guard}, nil
		}
		if request.Body, err = open(); err != nil {
			return nil, err
		}
		request.GetBody, request.ContentLength = open, c.size
	}
	return request, nil
}

// refusal translates a status that is not accepted.
func (w *web) refusal(c call, answer *http.Response) error {
	failed := &Error{Op: c.op, URL: shown(c.url), Status: answer.StatusCode}
	switch status := answer.StatusCode; status {
	case http.StatusNotFound, http.StatusGone:
		failed.Kind = ErrNotFound
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusProxyAuthRequired:
		failed.Kind, failed.Advice = ErrRefused, "give it what it asks for: `pilotage site add SITE --se-token-file` or `--se-client-cert`, and check the permissions there"
	case http.StatusRequestEntityTooLarge, http.StatusInsufficientStorage:
		failed.Kind, failed.Advice = ErrFull, "free space there, or ask for a larger quota"
	case http.StatusRequestedRangeNotSatisfiable:
		failed.Kind = ErrOffset
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests, http.StatusInternalServerError,
		http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		failed.Kind, failed.Temporary, failed.Advice = ErrUnreachable, true, "it asks to come back later"
		if seconds, err := strconv.Atoi(answer.Header.Get("Retry-After")); err == nil && seconds > 0 && seconds < 1<<20 {
			failed.retryAfter = time.Duration(seconds) * time.Second
		}
	default:
		failed.Advice = "this is no answer of a storage element: check the URL"
	}
	return failed
}

// unanswered translates a request that got no answer.
func (w *web) unanswered(c call, err error) error {
	failed := &Error{
		Op: c.op, URL: shown(c.url), Kind: ErrUnreachable, Temporary: true,
		Advice: "check the URL, and that the host is up and reachable from this machine",
	}
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		err = wrapped.Err // without the full URL, whose query may be a secret
	}
	failed.Err = err
	var unknown x509.UnknownAuthorityError
	var wrongHost x509.HostnameError
	var certificate x509.CertificateInvalidError
	switch {
	case errors.Is(err, errRedirect):
		failed.Kind, failed.Temporary, failed.Advice = ErrRefused, false, "register the URL that it leads to, if you trust it"
	case errors.Is(err, ErrSize):
		failed.Kind, failed.Temporary, failed.Advice = ErrSize, false, ""
	case errors.As(err, &unknown), errors.As(err, &wrongHost), errors.As(err, &certificate):
		failed.Temporary, failed.Advice = false, "its certificate is not trusted: check the host name and the certificate authorities"
	}
	return failed
}

// errStalled is the cause when a transfer makes no progress.
var errStalled = errors.New("hardly a byte came through for too long")

// leastProgress is what a transfer moves in each stall time, if not all of the rest:
// 1 kB/s by default. Who gives a byte now and then would hold a task for days.
const leastProgress = 64 << 10

// stallGuard ends a request when neither direction makes progress. The clock
// runs only while this side waits for the other one.
type stallGuard struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	timer  *time.Timer
	limit  time.Duration

	mutex sync.Mutex    // an answer may come while the request is still sent
	left  time.Duration // of limit, for the rest of leastProgress
	since time.Time     // this side waits; zero: it does not
	moved int           // of leastProgress
}

// wait starts the clock.
func (g *stallGuard) wait() {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	g.since = time.Now()
	g.timer.Reset(g.left)
}

// got stops the clock, as something has moved.
func (g *stallGuard) got(n int) {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	g.timer.Stop()
	if !g.since.IsZero() {
		g.left = max(0, g.left-time.Since(g.since))
		g.since = time.Time{}
	}
	if g.moved += n; g.moved >= leastProgress {
		g.left, g.moved = g.limit, 0
	}
}

func newStallGuard(ctx context.Context, limit time.Duration) (context.Context, *stallGuard) {
	guarded, cancel := context.WithCancelCause(ctx)
	g := &stallGuard{ctx: guarded, cancel: cancel, limit: limit, left: limit}
	g.timer = time.AfterFunc(limit, func() { cancel(fmt.Errorf("%w (%s)", errStalled, limit)) })
	g.timer.Stop()
	return guarded, g
}

func (g *stallGuard) end() {
	g.timer.Stop()
	g.cancel(nil)
}

// guardedBody is a body under a stallGuard: what is sent, or what comes back.
type guardedBody struct {
	io.ReadCloser
	guard    *stallGuard
	incoming bool
	sent     int // by the last read of what is sent: the next one says that it has gone
}

func (b *guardedBody) Read(p []byte) (int, error) {
	// Sending: the other side waits while the source is read, and is waited
	// for from then until the next read. Receiving: the other way round.
	if b.incoming {
		b.guard.wait()
		n, err := b.ReadCloser.Read(p)
		b.guard.got(n)
		if cause := context.Cause(b.guard.ctx); err != nil && errors.Is(cause, errStalled) {
			err = cause // not "context canceled", which the caller's was not
		}
		return n, err
	}
	b.guard.got(b.sent)
	n, err := b.ReadCloser.Read(p)
	if b.sent = n; err == nil {
		b.guard.wait()
	}
	return n, err
}

func (b *guardedBody) Close() error {
	err := b.ReadCloser.Close()
	b.guard.timer.Stop()
	if b.incoming {
		b.guard.end()
	}
	return err
}
