package coracle

// The host program stays as it was: descriptors, threads, children, memory; and clients of others work in process.

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"
)

// looked counts what a process may leak.
func looked(t *testing.T) (descriptors, children int) {
	t.Helper()
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range tasks {
		text, err := os.ReadFile("/proc/self/task/" + task.Name() + "/children")
		if err == nil {
			children += len(strings.Fields(string(text)))
		}
	}
	return len(fds), children
}

// open lists the files that the process has open, with how many times each.
func open(t *testing.T) map[string]int {
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]int{}
	for _, fd := range fds {
		// The descriptor of the directory itself is gone.
		if name, err := os.Readlink("/proc/self/fd/" + fd.Name()); err == nil {
			all[strings.Join(strings.FieldsFunc(name, func(c rune) bool { return c >= '0' && c <= '9' }), "N")]++
		}
	}
	return all
}

// signals are the lines of /proc/self/status that a library may change.
func signals(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, line := range strings.Split(string(text), "\n") {
		for _, name := range []string{"SigBlk", "SigIgn", "SigCgt", "Umask", "NoNewPrivs", "Seccomp:", "CapEff", "Uid", "Gid"} {
			if strings.HasPrefix(line, name) {
				lines = append(lines, line)
			}
		}
	}
	return strings.Join(lines, "\n")
}

// same waits until the counts are again as they were: the library's threads end a moment after their work.
func same(t *testing.T, descriptors, children int) {
	t.Helper()
	end := time.Now().Add(long)
	for {
		runtime.GC()
		nowDescriptors, nowChildren := looked(t)
		if nowDescriptors <= descriptors && nowChildren <= children {
			return
		}
		if time.Now().After(end) {
			t.Log(open(t))
			t.Fatalf("%d descriptors and %d children, before %d and %d", nowDescriptors, nowChildren, descriptors, children)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func TestHostAfterLives(t *testing.T) {
	r := newRun(t)
	defer r.end()
	ctx := context.Background()
	life := func() {
		c, err := r.engine.Containers.Create(ctx, "", M{"Image": r.values["image"], "Cmd": []string{"sh", "-c", "echo hi; exit 3"}, "HostConfig": M{"NetworkMode": "none"}})
		if err != nil {
			t.Fatal(err)
		}
		session, err := c.StartAttached(ctx, IO{})
		if err != nil {
			t.Fatal(err)
		}
		if text, err := io.ReadAll(session.Stdout()); err != nil || string(text) != "hi\n" {
			t.Fatalf("%q %v", text, err)
		}
		if code, err := session.Wait(ctx); err != nil || code != 3 {
			t.Fatalf("%d %v", code, err)
		}
		session.Close()
		if err := c.Remove(ctx, RemoveOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	life()
	descriptors, children := looked(t)
	before := signals(t)
	for range 30 {
		life()
	}
	same(t, descriptors, children)
	if after := signals(t); after != before {
		t.Errorf("before:\n%s\nafter:\n%s", before, after)
	}
}

func TestTenThousandShortCallsAtOnce(t *testing.T) {
	descriptors, children := looked(t)
	r := newRun(t)
	tenThousand(t, r)
	r.end()
	// The engine keeps connections to its database for calls at once; without the engine nothing is left.
	same(t, descriptors, children)
}

func tenThousand(t *testing.T, r *run) {
	c, err := r.engine.Containers.Create(context.Background(), "many", M{"Image": r.values["image"], "HostConfig": M{"NetworkMode": "none"}})
	if err != nil {
		t.Fatal(err)
	}
	call := func(ctx context.Context, number int) error {
		switch number % 4 {
		case 0:
			_, err := c.StatPath(ctx, "/bin")
			return err
		case 1:
			_, err := r.engine.Version()
			return err
		case 2:
			if err := r.engine.Containers.Get("nobody").Pause(ctx); !errors.Is(err, ErrNotFound) {
				return fmt.Errorf("not found: %w", err)
			}
			return nil
		}
		_, err := c.Inspect(ctx)
		return err
	}
	round := func(calls int) error {
		failed := make(chan error, 20)
		for range 20 {
			go func() {
				// A context that can end has an operation for each call.
				ctx, cancel := context.WithCancel(context.Background())
				defer cancel()
				var err error
				for number := 0; number < calls && err == nil; number++ {
					err = call(ctx, number)
				}
				failed <- err
			}()
		}
		var all error
		for range 20 {
			all = errors.Join(all, <-failed)
		}
		return all
	}
	// The first round makes the threads and the library's caches.
	if err := round(50); err != nil {
		t.Fatal(err)
	}
	began, resident := time.Now(), residentKB(t)
	if err := round(500); err != nil {
		t.Fatal(err)
	}
	grown := residentKB(t) - resident
	t.Logf("10000 calls in %v, %d KB more", time.Since(began).Round(time.Millisecond), grown)
	if grown > 50_000 {
		t.Errorf("%d KB more after 10000 calls", grown)
	}
}

func residentKB(t *testing.T) int {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "VmRSS:")
	var kb int
	if _, err := fmt.Sscan(rest, &kb); err != nil {
		t.Fatal(err)
	}
	return kb
}

func TestHundredWaitsTakeNoThread(t *testing.T) {
	r := newRun(t)
	defer r.end()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	c, err := r.engine.Containers.Create(ctx, "", M{"Image": r.values["image"], "Cmd": []string{"sleep", "1000"}, "HostConfig": M{"NetworkMode": "none"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err = c.Start(ctx); err != nil {
		t.Fatal(err)
	}
	tasks := func() int {
		all, err := os.ReadDir("/proc/self/task")
		if err != nil {
			t.Fatal(err)
		}
		return len(all)
	}
	before := tasks()
	var waits []*Pending
	for range 100 {
		pending, err := c.BeginWait(ctx, NotRunning)
		if err != nil {
			t.Fatal(err)
		}
		waits = append(waits, pending)
	}
	ended := make(chan error, 100)
	for _, pending := range waits {
		go func() {
			_, err := pending.Wait(context.Background())
			ended <- err
		}()
	}
	for range 10 {
		time.Sleep(10 * time.Millisecond)
	}
	// Some for Go itself, and the library's thread that all waits share.
	if now := tasks(); now > before+20 {
		t.Errorf("%d threads, before %d", now, before)
	}
	cancel()
	for range 100 {
		if err := <-ended; !errors.Is(err, context.Canceled) || !errors.Is(err, ErrCancelled) {
			t.Fatal(err)
		}
	}
}

func TestRoundTripper(t *testing.T) {
	r := newRun(t)
	defer r.end()
	transport := r.engine.Transport()
	client := &http.Client{Transport: transport}
	for range 100 {
		answer, err := client.Get("http://coracle/v1.24/containers/json?all=1")
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(answer.Body)
		if err != nil || strings.TrimSpace(string(text)) != "[]" || answer.StatusCode != 200 {
			t.Fatalf("%d %q %v", answer.StatusCode, text, err)
		}
		answer.Body.Close()
	}
	transport.CloseIdleConnections()
}

func TestErrorsAreErrorsOfGo(t *testing.T) {
	r := newRun(t)
	defer r.end()
	_, err := r.engine.Containers.Create(context.Background(), "", M{"Image": "x", "HostConfig": M{"Memory": "lots"}})
	var failed *Error
	if !errors.As(err, &failed) || !errors.Is(err, ErrInvalid) || errors.Is(err, ErrNotFound) || failed.Field != "HostConfig.Memory" || failed.Status != 400 {
		t.Fatalf("%#v", err)
	}
	_, err = r.engine.Containers.Create(context.Background(), "", func() {})
	if !errors.Is(err, ErrInvalid) {
		t.Fatal(err)
	}
	for wait, code := range map[time.Duration]Code{-time.Second: ErrInvalid, math.MaxInt64: ErrInvalid, time.Millisecond: ErrNotFound} {
		if err = r.engine.Plugins.Enable(context.Background(), "none", wait); !errors.Is(err, code) {
			t.Fatalf("%v: %v", wait, err)
		}
	}
	ctx, cancel := context.WithDeadline(context.Background(), time.Unix(1, 0))
	defer cancel()
	_, err = r.engine.Info(ctx)
	if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, ErrTimeout) {
		t.Fatal(err)
	}
}
