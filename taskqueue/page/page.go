package page

import (
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/klauspost/compress/gzhttp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/pilotage-grid/pilotage/task"
)

// Backend is the queue, as the page sees it.
type Backend interface {
	// Call serves one unary method for whoever has the token; errors are those of
	// gRPC.
	Call(ctx context.Context, token, method string, request proto.Message) (proto.Message, error)
	// Admit tells whether the token may look at the page.
	Admit(token string) error
	// Sees tells whether whoever has the token may look into a workflow.
	Sees(ctx context.Context, token, workflow string) bool
	// LooksAfter tells whether whoever has the token is told what events of a site quote.
	LooksAfter(token, site string) bool
	// Look tells how everything is now.
	Look(ctx context.Context) (Look, error)
	// Events returns what has happened behind a number, of one site if one is named:
	// the newest, at most so many, oldest first; and the number of the newest of all.
	Events(after uint64, site string, most int) ([]Event, uint64)
}

//go:embed static
var static embed.FS

// Limits of what viewers send, and of viewers.
const (
	maxBody    = 64 << 10
	maxViewers = 200
	cookieName = "pilotage"
	// A stream carries streamRate bytes a second, and streamBurst at once: with many
	// sites a look comes every few seconds.
	streamRate  = 14 << 10
	streamBurst = 64 << 10
	cookieLife  = 12 * time.Hour
	// Viewers with one access share an answer for keepReply.
	keepReply   = 1500 * time.Millisecond
	mostReplies = 500
)

// Page is an http.Handler.
type Page struct {
	backend Backend
	live    *live
	replies *Answers[[]byte] // to calls, each for the access that made it
	routes  *http.ServeMux
}

// New makes the page of a backend.
func New(backend Backend) *Page {
	p := &Page{backend: backend, live: newLive(), replies: NewAnswers[[]byte](mostReplies), routes: http.NewServeMux()}
	files, err := fs.Sub(static, "static")
	if err != nil {
		panic(err) // the folder is embedded
	}
	small := func(h http.HandlerFunc) http.Handler { return gzhttp.GzipHandler(h) }
	p.routes.Handle("GET /", gzhttp.GzipHandler(http.FileServerFS(files)))
	p.routes.HandleFunc("POST /login", p.login)
	p.routes.HandleFunc("POST /logout", p.logout)
	p.routes.Handle("POST /call/{service}/{method}", small(p.viewer(p.call)))
	p.routes.Handle("GET /history", small(p.viewer(p.history)))
	p.routes.HandleFunc("GET /live", p.viewer(p.stream))
	p.routes.Handle("GET /files", small(p.viewer(p.files)))
	return p
}

// ServeHTTP forbids the browser everything that the page does not need: no script
// but its own, no frame, nothing from elsewhere.
func (p *Page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'; object-src 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-store")
	if site := r.Header.Get("Sec-Fetch-Site"); r.Method == http.MethodPost && site != "" && site != "same-origin" {
		http.Error(w, "the page takes calls from itself only", http.StatusForbidden)
		return
	}
	p.routes.ServeHTTP(w, r)
}

func (p *Page) login(w http.ResponseWriter, r *http.Request) {
	var sent struct {
		Token string `json:"token"` // alone, or within a whole access file
	}
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody)).Decode(&sent); err != nil {
		http.Error(w, "send {\"token\": \"pil_...\"}, or an access file", http.StatusBadRequest)
		return
	}
	token := strings.TrimSpace(sent.Token)
	if err := p.backend.Admit(token); err != nil {
		http.Error(w, words(err), http.StatusUnauthorized)
		return
	}
	http.SetCookie(w, cookie(token, int(cookieLife.Seconds())))
	w.WriteHeader(http.StatusNoContent)
}

func (p *Page) logout(w http.ResponseWriter, _ *http.Request) {
	http.SetCookie(w, cookie("", -1))
	w.WriteHeader(http.StatusNoContent)
}

// cookie holds the token itself, out of reach of scripts and of other pages: so any
// server of the queue knows the viewer, and a revoked token is worth nothing at once.
func cookie(token string, seconds int) *http.Cookie {
	return &http.Cookie{Name: cookieName, Value: token, Path: "/", MaxAge: seconds, HttpOnly: true, Secure: true, SameSite: http.SameSiteStrictMode}
}

// viewer lets those in who have logged in.
func (p *Page) viewer(serve func(w http.ResponseWriter, r *http.Request, token string)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		sent, err := r.Cookie(cookieName)
		if err != nil {
			http.Error(w, "log in: send the content of an access file by POST to /login, and with each call the cookie that it sets", http.StatusUnauthorized)
			return
		}
		if err = p.backend.Admit(sent.Value); err != nil {
			http.Error(w, "log in: "+words(err), http.StatusUnauthorized)
			return
		}
		serve(w, r, sent.Value)
	}
}

// words is an error without gRPC's wrapping.
func words(err error) string {
	if s, is := status.FromError(err); is {
		return s.Message()
	}
	return err.Error()
}

// reads tells whether a method only reads.
func reads(method string) bool {
	for _, verb := range []string{"Get", "List", "Locate", "Explain"} {
		if strings.HasPrefix(method, verb) && method != "ListAccess" {
			return true
		}
	}
	return false
}

// call serves a method of the protos in JSON.
func (p *Page) call(w http.ResponseWriter, r *http.Request, token string) {
	service, name := r.PathValue("service"), r.PathValue("method")
	found, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName("pilotage.v1." + service))
	described, isService := found.(protoreflect.ServiceDescriptor)
	if err != nil || !isService || !reads(name) || described.Methods().ByName(protoreflect.Name(name)) == nil {
		http.Error(w, fmt.Sprintf("the page has no method %.60q", service+"/"+name), http.StatusNotFound)
		return
	}
	method := described.Methods().ByName(protoreflect.Name(name))
	kind, err := protoregistry.GlobalTypes.FindMessageByName(method.Input().FullName())
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		http.Error(w, err.Error(), http.StatusRequestEntityTooLarge)
		return
	}
	request := kind.New().Interface()
	if err := protojson.Unmarshal(body, request); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	until := time.Now().Add(keepReply)
	text, err := p.replies.Get(r.Context(), token+" "+service+"/"+name+" "+string(body), func() ([]byte, time.Time, error) {
		reply, err := p.backend.Call(r.Context(), token, "/pilotage.v1."+service+"/"+name, request)
		if err != nil {
			return nil, until, err
		}
		text, err := protojson.MarshalOptions{EmitDefaultValues: true}.Marshal(reply)
		return text, until, err
	})
	if err != nil {
		http.Error(w, words(err), httpStatus(err))
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(text)
}

func httpStatus(err error) int {
	switch status.Code(err) {
	case codes.NotFound:
		return http.StatusNotFound
	case codes.InvalidArgument:
		return http.StatusBadRequest
	case codes.Unauthenticated:
		return http.StatusUnauthorized
	case codes.PermissionDenied:
		return http.StatusForbidden
	case codes.ResourceExhausted:
		return http.StatusTooManyRequests
	case codes.Unavailable:
		return http.StatusServiceUnavailable
	}
	return http.StatusInternalServerError
}

// history sends the looks of the last hour and the attempts that are remembered.
func (p *Page) history(w http.ResponseWriter, r *http.Request, token string) {
	w.Header().Set("Content-Type", "application/json")
	site := r.URL.Query().Get("site")
	history := p.live.history(site)
	if pilot := r.URL.Query().Get("pilot"); pilot != "" {
		history.Looks = nil
		history.Bars = slices.DeleteFunc(history.Bars, func(b Bar) bool { return b.Pilot != pilot })
	}
	history.Events, history.Told = p.backend.Events(0, site, historyEvents)
	sees := p.sight(r.Context(), token)
	history.Bars, history.Outs, history.Events = sees.bars(history.Bars), sees.outs(history.Outs), sees.events(history.Events)
	_ = json.NewEncoder(w).Encode(history)
}

// files sends the files that were read most since the queue began.
func (p *Page) files(w http.ResponseWriter, r *http.Request, token string) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(p.sight(r.Context(), token).files(p.live.hottest(4 * hottestFiles)))
}

// stream sends a look each second, and the attempts of one site as they begin and
// end, if one is named.
func (p *Page) stream(w http.ResponseWriter, r *http.Request, token string) {
	if !p.live.enter() {
		http.Error(w, fmt.Sprintf("%d viewers look at the page already", maxViewers), http.StatusTooManyRequests)
		return
	}
	defer p.live.leave()
	out := http.NewResponseController(w)
	w.Header().Set("Content-Type", "text/event-stream")
	site, from := r.URL.Query().Get("site"), p.live.newest()
	_, told := p.backend.Events(0, site, 0)
	from, told = behind(r, "after", from), behind(r, "told", told)
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	budget, sees := streamBurst, p.sight(r.Context(), token)
	for {
		if err := p.backend.Admit(token); err != nil {
			return
		}
		var messages [][]byte
		if budget = min(budget+streamRate, streamBurst); budget > 0 { // else the viewer has had more than its share
			messages, from, told = p.news(r.Context(), sees, site, from, told)
		}
		for _, message := range messages {
			budget -= len(message)
			if _, err := w.Write(message); err != nil {
				return
			}
		}
		// The server bounds every answer in time; a stream goes on as long as it
		// gets something sent.
		if err := errors.Join(out.SetWriteDeadline(time.Now().Add(time.Minute)), out.Flush()); err != nil {
			return
		}
		select {
		case <-tick.C:
		case <-r.Context().Done():
			return
		}
	}
}

// behind is the number behind which a viewer goes on: what it has from the history, or
// else the newest.
func behind(r *http.Request, name string, newest uint64) uint64 {
	known, err := strconv.ParseUint(r.URL.Query().Get(name), 10, 64)
	if err != nil {
		return newest
	}
	return min(known, newest)
}

// news is what a viewer is sent next: a look, attempts behind a number, and events
// behind another one. A queue that cannot be looked at now sends what it has.
func (p *Page) news(ctx context.Context, sees *sight, site string, from, told uint64) (messages [][]byte, nowFrom, nowTold uint64) {
	if _, look, err := p.look(ctx); err == nil {
		messages = append(messages, look)
	}
	add := func(event string, value any) {
		if message, err := sseMessage(event, value); err == nil {
			messages = append(messages, message)
		}
	}
	if site != "" {
		var bars []Bar
		var outs []Out
		if bars, outs, from = p.live.since(site, from, barsASecond); len(bars) > 0 {
			add("bars", sees.bars(bars))
		}
		if outs = sees.outs(outs); len(outs) > 0 {
			add("outs", outs)
		}
	}
	events, told := p.backend.Events(told, site, eventsASecond)
	if events = sees.events(events); len(events) > 0 {
		add("events", events)
	}
	return messages, from, told
}

func sseMessage(event string, value any) ([]byte, error) {
	text, err := json.Marshal(value)
	return fmt.Appendf(nil, "event: %s\ndata: %s\n\n", event, text), err
}

// look is taken once for all viewers.
func (p *Page) look(ctx context.Context) (Look, []byte, error) {
	return p.live.look(time.Now(), lookEvery, func() (Look, error) { return p.backend.Look(ctx) })
}

// Record keeps a look for the charts of those who come later. The server calls it
// every few seconds.
func (p *Page) Record(ctx context.Context) (Look, error) {
	look, _, err := p.look(ctx)
	if err == nil {
		p.live.keep(look)
	}
	return look, err
}

// Before returns the look that is kept of about so long ago, as far back as there is
// one.
func (p *Page) Before(ago time.Duration) (Look, bool) { return p.live.before(ago) }

// Read notes what an attempt read.
func (p *Page) Read(reads []task.Read) { p.live.read(reads) }

// Began and Ended note attempts for the chart of slots.
func (p *Page) Began(bars ...Bar) { p.live.began(bars) }

// Ended notes attempts that have ended.
func (p *Page) Ended(bars ...Bar) { p.live.ended(bars) }

// Stored notes attempts whose outputs are on a storage element.
func (p *Page) Stored(outs ...Out) { p.live.stored(outs) }
