//go:build site

package site

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"image"
	_ "image/png"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	cdppage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// picturesIn is where the pictures of the documents are written, if it is set.
const picturesIn = "PILOTAGE_PICTURES"

// evil is markup that a script would show by running it.
const evil = `<img src=x onerror=hacked()><script>hacked()</script>"'><svg onload=hacked()>`

// browser is a Chromium that shows the page of a lab's queue.
type browser struct {
	t   *testing.T
	ctx context.Context

	mu    sync.Mutex
	wrong []string // what the console and the page's scripts complained of
	bytes int64    // that came from the queue, as they went over the network
}

func (l *lab) browse(width, height int) *browser {
	l.t.Helper()
	need(l.t, "chromium")
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.NoSandbox,
		chromedp.Flag("ignore-certificate-errors", true), chromedp.WindowSize(width, height))
	b := &browser{t: l.t}
	ctx, stop := chromedp.NewExecAllocator(context.Background(), options...)
	l.t.Cleanup(stop)
	ctx, stop = chromedp.NewContext(ctx, chromedp.WithListener(b.hear))
	l.t.Cleanup(stop)
	b.ctx, stop = context.WithTimeout(ctx, 2*patience)
	l.t.Cleanup(stop)
	var phone []chromedp.EmulateViewportOption
	if width < 600 {
		phone = append(phone, chromedp.EmulateMobile, chromedp.EmulateTouch)
	}
	do(b, chromedp.EmulateViewport(int64(width), int64(height), phone...))
	return b
}

// hear notes complaints and what was sent.
func (b *browser) hear(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := event.(type) {
	case *runtime.EventConsoleAPICalled:
		for _, argument := range e.Args {
			b.wrong = append(b.wrong, fmt.Sprintf("console %s: %s %s", e.Type, argument.Value, argument.Description))
		}
	case *runtime.EventExceptionThrown:
		b.wrong = append(b.wrong, fmt.Sprintf("exception: %s %v", e.ExceptionDetails.Text, e.ExceptionDetails.Exception))
	case *cdppage.EventJavascriptDialogOpening:
		b.wrong = append(b.wrong, fmt.Sprint("a dialog: ", e.Message))
	case *network.EventDataReceived:
		b.bytes += e.EncodedDataLength
	}
}

// received returns the bytes that came since the last time.
func (b *browser) received() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	got := b.bytes
	b.bytes = 0
	return got
}

func (b *browser) complaints() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.wrong
}

// do runs one action and gives its result.
func do[T any](b *browser, action chromedp.Action[T]) T {
	b.t.Helper()
	got, err := chromedp.Run(b.ctx, action)
	if err != nil {
		b.t.Fatal(err)
	}
	return got
}

// value evaluates an expression.
func value[T any](b *browser, expression string) T {
	b.t.Helper()
	return do(b, chromedp.Evaluate[T](expression))
}

// logIn opens the page with an access file.
func (b *browser) logIn(url, access string) {
	b.t.Helper()
	content, err := os.ReadFile(access)
	if err != nil {
		b.t.Fatal(err)
	}
	do(b, chromedp.Navigate("https://"+url+"/"))
	do(b, chromedp.WaitVisible("#token"))
	do(b, chromedp.SetValue("#token", string(content)))
	do(b, chromedp.Click("button[type=submit]"))
	b.until("the page is shown", `document.querySelector("h1")?.textContent === "Overview" && looks.length > 0`)
}

// until waits for an expression to hold.
func (b *browser) until(what, expression string) {
	b.t.Helper()
	again := time.NewTicker(100 * time.Millisecond)
	defer again.Stop()
	for deadline := time.Now().Add(patience); !value[bool](b, "Boolean("+expression+")"); <-again.C {
		if time.Now().After(deadline) {
			b.t.Fatalf("not within %s: %s; the page shows:\n%.3000s", patience, what, value[string](b, "document.body.innerText"))
		}
	}
}

// shows goes to a screen and waits for words on it.
func (b *browser) shows(hash string, words ...string) {
	b.t.Helper()
	value[string](b, fmt.Sprintf("location.hash = %q", hash))
	for _, word := range words {
		b.until(hash+" shows "+word, fmt.Sprintf(`location.hash === %q && document.querySelector("main").innerText.includes(%q)`, hash, word))
	}
}

// picture takes the screen as it is, and keeps it for the documents if asked to.
func (b *browser) picture(name string) image.Image {
	b.t.Helper()
	content := do(b, chromedp.FullScreenshot(100))
	if folder := os.Getenv(picturesIn); folder != "" {
		if err := os.WriteFile(filepath.Join(folder, name+".png"), content, 0o600); err != nil {
			b.t.Fatal(err)
		}
	}
	shown, _, err := image.Decode(bytes.NewReader(content))
	if err != nil {
		b.t.Fatal(err)
	}
	return shown
}

// brightness is the mean of a picture's corner, from 0 to 1.
func brightness(shown image.Image) float64 {
	r, g, b, _ := shown.At(3, shown.Bounds().Dy()-3).RGBA()
	return float64(r+g+b) / (3 * 0xffff)
}

// grid is a live one for the page: two sites with pilots, a workflow with markup in
// every name, failures, and tasks that wait.
func newGrid(t *testing.T) (l *lab, web, workflow string) {
	t.Helper()
	l = newLab(t)
	web = l.webAddress()
	l.must("site", "add", "siteB")
	for i, site := range []string{"siteA", "siteA", "siteB"} {
		name := fmt.Sprintf("pilot%d", i)
		l.env = []string{"PILOTAGE_BATCH_JOB=" + evil}
		pilot := l.start(name, "pilot", "--access", l.path("queue", "access", "pilot-"+site+".json"), "--cache", l.path(name), "--slots", "2", "--lifetime", "1h")
		l.until(name+" is there", func() bool { return strings.Contains(pilot.said(), "ready pilot=") })
	}
	l.env = nil
	l.must("access", "create", "--role", "read-only", "--to", l.path("look.json"))
	l.must("access", "create", "--role", "submit", "--label", evil, "--to", l.path("evil.json"))
	quoted, err := json.Marshal(evil)
	if err != nil {
		t.Fatal(err)
	}
	content := `apiVersion: pilotage/v1
kind: Workflow
name: markup
defaults: {retries: 0, env: {MARKUP: ` + string(quoted) + `}}
tasks:
  make:
    shell: "seq 1000 > numbers"
    outputs: [numbers]
  use:
    foreach: {p: "{00..11}"}
    inputs: [numbers]
    shell: "sleep 0.3; echo \"$MARKUP\"; md5sum numbers > out.{p}"
    outputs: ["out.{p}"]
  fail:
    foreach: {p: "{00..02}"}
    inputs: ["out.{p}"]
    shell: "echo \"$MARKUP\" >&2; exit 3"
  wait:
    shell: "true"
    require: 'pilot.site == "<script>hacked()</script>"'
`
	if err := os.WriteFile(l.path("workflow.yaml"), []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	out := l.must("--access", l.path("evil.json"), "submit", "-f", l.path("workflow.yaml"), "--parsable")
	workflow, _, _ = strings.Cut(strings.TrimSpace(out), " ")
	l.until("the workflow has gone so far", func() bool {
		out, _ := l.run(binary, "workflow", "show", workflow, "-o", "json")
		return strings.Contains(out, `"done": 13`) && strings.Contains(out, `"failed": 3`)
	})
	return l, web, workflow
}

// webAddress is where the lab's queue serves the page.
func (l *lab) webAddress() string {
	l.t.Helper()
	content, err := os.ReadFile(l.path("queue", "run.json"))
	if err != nil {
		l.t.Fatal(err)
	}
	var run struct {
		HTTP string `json:"http"`
	}
	if err := json.Unmarshal(content, &run); err != nil || run.HTTP == "" {
		l.t.Fatalf("run.json: %s, %v", content, err)
	}
	return run.HTTP
}

// Every screen shows what a live grid does, as text whatever it is called; nothing
// is complained of.
func TestEveryScreenInChromium(t *testing.T) {
	l, web, workflow := newGrid(t)
	b := l.browse(1280, 900)
	b.logIn(web, l.path("look.json"))
	pilot := strings.Fields(l.must("pilot", "list", "--site", "siteA"))
	id := ""
	for _, word := range pilot {
		if strings.HasPrefix(word, "p-") {
			id = word
			break
		}
	}
	screens := []struct {
		name, hash string
		words      []string
	}{
		{"overview", "#/", []string{"siteA", "siteB", "pilot-joined", "tasks done", "step-failed"}},
		{"workflows", "#/workflows", []string{workflow, "markup", evil}},
		{"workflow", "#/workflow/" + workflow, []string{evil, "12 / 12", "exit code 3"}},
		{"data", "#/data", []string{"total hit ratio", "numbers", "files that only caches have"}},
		{"site", "#/site/siteA", []string{id, "Slots, by node and pilot", "first pilot", "All nodes get tasks", "suffice"}},
		{"task", "#/task/" + workflow + "%2Fuse%5B03%5D", []string{"DONE", ":numbers", evil, "Attempts"}},
		{"failed-task", "#/task/" + workflow + "%2Ffail%5B01%5D", []string{"FAILED", "exit code 3", evil}},
		{"waiting-task", "#/task/" + workflow + "%2Fwait", []string{"READY", "<script>hacked()</script>", "Why it waits"}},
		{"pilot", "#/pilot/" + id, []string{"siteA", "alive", "Its newest attempts"}},
	}
	for _, screen := range screens {
		b.shows(screen.hash, screen.words...)
		b.picture(screen.name)
		if over := value[int](b, "document.documentElement.scrollWidth - innerWidth"); over > 0 {
			t.Errorf("%s is %d pixels too wide", screen.name, over)
		}
		if n := value[int](b, `document.querySelectorAll("main img, main script, main svg [onload], iframe").length`); n > 0 {
			t.Errorf("%s has %d elements that names have made", screen.name, n)
		}
	}
	b.byKeys()
	b.chartOfSlots()
	dark := emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: "dark"}}}
	do(b, chromedp.Action[cdp.Empty](func(ctx context.Context, target *chromedp.Target) (cdp.Empty, error) {
		return cdp.Call(ctx, target, emulation.SetEmulatedMedia, dark)
	}))
	b.shows("#/site/siteA", "Slots, by node and pilot")
	if bright := brightness(b.picture("site-dark")); bright > .3 {
		t.Errorf("the dark page has brightness %.2f", bright)
	}
	l.must("workflow", "report", workflow, "--to", l.path("report.html"))
	do(b, chromedp.Navigate("file://"+l.path("report.html")))
	for _, word := range []string{"tasks done", "12 / 12", "use[", "fail[", "exit code 3", "Wasted work", "own cache"} {
		b.until("the report shows "+word, fmt.Sprintf(`document.body.innerText.includes(%q)`, word))
	}
	b.picture("report")
	for _, wrong := range b.complaints() {
		t.Error(wrong)
	}

	phone := l.browse(390, 844)
	phone.logIn(web, l.path("look.json"))
	for _, screen := range screens {
		phone.shows(screen.hash, screen.words[0])
		if over := value[int](phone, "document.documentElement.scrollWidth - innerWidth"); over > 0 {
			t.Errorf("on a phone %s is %d pixels too wide", screen.name, over)
		}
		if screen.name == "site" || screen.name == "task" {
			phone.picture(screen.name + "-phone")
		}
	}
	for _, wrong := range phone.complaints() {
		t.Error(wrong)
	}
}

// byKeys goes through the page without a mouse.
func (b *browser) byKeys() {
	b.t.Helper()
	b.shows("#/", "Overview")
	do(b, chromedp.KeyEvent("2"))
	b.until("key 2 opens the workflows", `location.hash === "#/workflows"`)
	do(b, chromedp.KeyEvent("?"))
	b.until("? lists the keys", `document.querySelector("dialog")?.open`)
	do(b, chromedp.KeyEvent(kb.Escape))
	b.until("Escape closes the list", `!document.querySelector("dialog")`)
	do(b, chromedp.KeyEvent("4"))
	b.until("key 4 opens the first site", `location.hash === "#/site/siteA"`)
	b.until("pilots are listed", `document.querySelectorAll("main tbody tr").length > 2`)
	do(b, chromedp.KeyEvent("/"))
	do(b, chromedp.KeyEvent("nothing is called so"))
	b.until("the filter hides all rows", `[...document.querySelectorAll("main tbody tr")].every((row) => row.hidden)`)
	do(b, chromedp.KeyEvent(kb.Escape))
	b.until("Escape ends the filter", `[...document.querySelectorAll("main tbody tr")].every((row) => !row.hidden)`)
	seen := make(map[string]bool)
	value[bool](b, `(document.activeElement.blur(), scrollTo(0, 0), true)`)
	for range 60 {
		do(b, chromedp.KeyEvent(kb.Tab))
		seen[value[string](b, `document.activeElement.tagName + " " + (document.activeElement.textContent || document.activeElement.id)`)] = true
	}
	for _, wanted := range []string{"A Overview", "A Data", "BUTTON closer", "CANVAS "} {
		if !seen[wanted] {
			b.t.Errorf("the tab key does not reach %q, but %d others", wanted, len(seen))
		}
	}
}

// chartOfSlots zooms, moves, and opens tasks by key and by mouse.
func (b *browser) chartOfSlots() {
	b.t.Helper()
	b.shows("#/site/siteA", "Slots, by node and pilot")
	b.until("bars are drawn", `shown.gantt.hits?.length > 3`)
	value[bool](b, `(document.querySelector("figure canvas").focus(), true)`)
	whole := value[float64](b, `shown.gantt.shown[1] - shown.gantt.shown[0]`)
	do(b, chromedp.KeyEvent("+"))
	if closer := value[float64](b, `shown.gantt.shown[1] - shown.gantt.shown[0]`); closer > .7*whole {
		b.t.Errorf("+ shows %.0f ms of %.0f", closer, whole)
	}
	do(b, chromedp.KeyEvent(kb.ArrowLeft))
	if !value[bool](b, `shown.gantt.range !== null`) {
		b.t.Error("the left arrow does not move the chart")
	}
	do(b, chromedp.KeyEvent(kb.Home))
	if !value[bool](b, `shown.gantt.range === null`) {
		b.t.Error("Home does not follow the time again")
	}
	type point struct{ X, Y float64 }
	at := value[point](b, `(() => { const h = shown.gantt.hits[0], box = shown.gantt.canvas.getBoundingClientRect(); return {X: box.x + (h[0] + h[2]) / 2, Y: box.y + (h[1] + h[3]) / 2}; })()`)
	do(b, chromedp.MouseClickXY(at.X, at.Y))
	b.until("a click opens the task", `location.hash.startsWith("#/task/")`)
	b.shows("#/site/siteA", "Slots, by node and pilot")
	b.until("bars are drawn again", `shown.gantt.hits?.length > 3`)
	value[bool](b, `(document.querySelector("figure canvas").focus(), true)`)
	do(b, chromedp.KeyEvent(kb.Enter))
	b.until("Enter opens a task", `location.hash.startsWith("#/task/")`)
}
