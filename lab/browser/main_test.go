package browser

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/outboxctl/outboxctl/internal/outboxtest"
)

func TestMain(m *testing.M) { os.Exit(outboxtest.Run(withChromium{m})) }

// withChromium closes the browser after the last test, before goroutines are counted.
type withChromium struct{ tests *testing.M }

func (w withChromium) Run() int {
	code := w.tests.Run()
	if err := chromium.close(); err != nil {
		fmt.Fprintln(os.Stderr, "browser:", err)
	}
	return code
}

// chromium is the one browser of all journeys; each has a profile of its own in it.
var chromium shared

type shared struct {
	once   sync.Once
	ctx    context.Context
	stop   context.CancelFunc
	dir    string
	err    error
	absent bool
}

// open starts the browser when the first journey needs it.
func (s *shared) open(t testing.TB) context.Context {
	t.Helper()
	s.once.Do(s.start)
	switch {
	case s.absent && os.Getenv("OUTBOXCTL_REQUIRE_BROWSER") == "":
		t.Skipf("NOT PROVEN: %v; install Debian's chromium-headless-shell or name the program in CHROMIUM", s.err)
	case s.err != nil:
		t.Fatalf("start the browser: %v", s.err)
	}
	return s.ctx
}

func (s *shared) start() {
	path, err := findChromium()
	if err != nil {
		s.err, s.absent = err, true
		return
	}
	if s.dir, s.err = os.MkdirTemp(outboxtest.TempDir(), "chromium"); s.err != nil {
		return
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path), chromedp.UserDataDir(s.dir), chromedp.WindowSize(1280, 800), chromedp.Env("TZ=UTC", "LANG=en_US.UTF-8"),
		// Text is drawn alike everywhere, and nothing of the machine's own taste is in a picture.
		chromedp.Flag("font-render-hinting", "none"), chromedp.Flag("lang", "en-US"), chromedp.Flag("disable-gpu", true))
	allocator, stopAllocator := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, stop := chromedp.NewContext(allocator)
	s.ctx, s.stop = ctx, func() { stop(); stopAllocator() }
	s.err = chromedp.Do(ctx)
}

func (s *shared) close() error {
	if s.ctx == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(s.ctx, time.Minute)
	defer cancel()
	err := chromedp.Cancel(ctx)
	s.stop()
	return errors.Join(err, os.RemoveAll(s.dir))
}

// findChromium prefers the shell, which draws no windows around the pages and needs half the time of the whole browser. Debian's
// programs are taken themselves: the scripts of their names on PATH load extensions and talk.
func findChromium() (string, error) {
	if path := os.Getenv("CHROMIUM"); path != "" {
		return path, nil
	}
	for _, name := range []string{
		"/usr/lib/chromium/chromium-headless-shell", "/usr/lib/chromium/chromium",
		"chromium-headless-shell", "chromium", "chromium-browser", "google-chrome",
	} {
		if path, err := exec.LookPath(filepath.FromSlash(name)); err == nil {
			return path, nil
		}
	}
	return "", errors.New("there is no Chromium on this machine")
}
