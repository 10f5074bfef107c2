package coracle

// Objects live as long as a caller uses a part of them, and calls end when nothing is left to wait for.

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// collect has the garbage collector run, and the finalizers of all that it found.
func collect(t *testing.T) {
	t.Helper()
	// Finalizers run one after the other: those of the first collection before that of the second one's mark.
	for range 2 {
		ran := make(chan struct{})
		runtime.SetFinalizer(&run{}, func(*run) { close(ran) })
		for end := time.Now().Add(long); ; {
			runtime.GC()
			select {
			case <-ran:
			case <-time.After(10 * time.Millisecond):
				if time.Now().After(end) {
					t.Fatal("no finalizer runs")
				}
				continue
			}
			break
		}
	}
}

// soon is the error of a call that must come to its end.
func soon(t *testing.T, call func() error) error {
	t.Helper()
	ended := make(chan error, 1)
	go func() { ended <- call() }()
	select {
	case err := <-ended:
		return err
	case <-time.After(long):
		t.Fatal("the call does not end")
		return nil
	}
}

// shell makes a container with stdin that runs a script.
func (r *run) shell(script string) *Container {
	r.t.Helper()
	c, err := r.engine.Containers.Create(context.Background(), "", M{
		"Image": r.values["image"], "Cmd": []string{"sh", "-c", script}, "OpenStdin": true, "StdinOnce": true, "HostConfig": M{"NetworkMode": "none"},
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return c
}

func (r *run) attached(c *Container) *Session {
	r.t.Helper()
	session, err := c.StartAttached(context.Background(), IO{})
	if err != nil {
		r.t.Fatal(err)
	}
	return session
}

// teller is a writer that tells when it has a text.
type teller struct {
	lock   sync.Mutex
	buffer bytes.Buffer
	text   string
	has    chan struct{}
}

func (w *teller) Write(data []byte) (int, error) {
	w.lock.Lock()
	defer w.lock.Unlock()
	before := strings.Contains(w.buffer.String(), w.text)
	w.buffer.Write(data)
	if !before && strings.Contains(w.buffer.String(), w.text) {
		close(w.has)
	}
	return len(data), nil
}

func TestHostServesUntilClose(t *testing.T) {
	r := newRun(t)
	defer r.end()
	addresses := func() []string {
		// The caller keeps nothing of the server.
		server, err := r.engine.Serve(ServeOptions{Addresses: []string{"tcp://127.0.0.1:0"}, InsecureTcp: true})
		if err != nil {
			t.Fatal(err)
		}
		all, err := server.Addresses()
		if err != nil {
			t.Fatal(err)
		}
		return all
	}()
	defer func() {
		servers.Range(func(server, _ any) bool { return server.(*Server).Close() == nil })
	}()
	collect(t)
	url := strings.Replace(addresses[0], "tcp://", "http://", 1)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Get(url + "/_ping")
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	servers.Range(func(server, _ any) bool {
		return errors.Join(server.(*Server).Close(), server.(*Server).Close()) == nil
	})
	if _, err := client.Get(url + "/_ping"); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Fatal(err)
	}
}

func TestHostReadsOutputOfCollectedSession(t *testing.T) {
	r := newRun(t)
	defer r.end()
	for _, redirect := range []string{"", " >&2"} {
		c := r.shell("exec" + redirect + "; trap 'echo end; exit' USR1; echo ready; while :; do sleep 0.05; done")
		out := func() io.Reader {
			session := r.attached(c)
			if redirect == "" {
				return session.Stdout()
			}
			return session.Stderr()
		}()
		to := &teller{text: "ready\n", has: make(chan struct{})}
		copied := make(chan error, 1)
		go func() {
			_, err := io.Copy(to, out)
			copied <- err
		}()
		<-to.has
		collect(t)
		if err := c.Kill(context.Background(), "USR1"); err != nil {
			t.Fatal(err)
		}
		if err := <-copied; err != nil || to.buffer.String() != "ready\nend\n" {
			t.Errorf("%q %v", to.buffer.String(), err)
		}
	}
}

func TestHostWritesInputOfCollectedSession(t *testing.T) {
	r := newRun(t)
	defer r.end()
	ctx, size := context.Background(), 1<<20
	c := r.shell("trap go=1 USR1; echo ready; while [ -z \"$go\" ]; do sleep 0.05; done; exit $(($(wc -c) / 10000))")
	in := func() io.WriteCloser {
		session := r.attached(c)
		if _, err := io.ReadFull(session.Stdout(), make([]byte, len("ready\n"))); err != nil {
			t.Fatal(err)
		}
		return session.Stdin()
	}()
	reader, writer := io.Pipe()
	copied := make(chan error, 1)
	go func() {
		_, err := io.Copy(in, reader)
		copied <- errors.Join(err, in.Close())
	}()
	// The process takes nothing yet: most of the input waits for it.
	if _, err := writer.Write(make([]byte, 1000)); err != nil {
		t.Fatal(err)
	}
	go func() {
		writer.Write(make([]byte, size-1000))
		writer.Close()
	}()
	collect(t)
	if err := c.Kill(ctx, "USR1"); err != nil {
		t.Fatal(err)
	}
	if err := soon(t, func() error { return <-copied }); err != nil {
		t.Fatal(err)
	}
	if code, err := c.Wait(ctx); err != nil || code != size/10000 {
		t.Fatal(code, err)
	}
}

// silent is an input that gives nothing until the test ends.
func silent(t *testing.T) io.Reader {
	reader, writer := io.Pipe()
	t.Cleanup(func() { writer.Close() })
	return reader
}

func TestHostCommunicateEndsWithTheProcess(t *testing.T) {
	r := newRun(t)
	defer r.end()
	ctx := context.Background()
	session := r.attached(r.shell("echo hi; exit 3"))
	defer session.Close()
	var out bytes.Buffer
	if err := soon(t, func() error { return session.Communicate(ctx, silent(t), &out, nil) }); err != nil || out.String() != "hi\n" {
		t.Fatal(out.String(), err)
	}
	if code, err := session.Wait(ctx); err != nil || code != 3 {
		t.Fatal(code, err)
	}
}

func TestHostCommunicateEndsWithTheContext(t *testing.T) {
	r := newRun(t)
	defer r.end()
	for _, script := range []string{"echo hi; cat", "echo hi; exec >&- 2>&-; cat"} {
		session := r.attached(r.shell(script))
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		to := &teller{text: "hi\n", has: make(chan struct{})}
		go func() {
			<-to.has
			cancel()
		}()
		if err := soon(t, func() error { return session.Communicate(ctx, silent(t), to, nil) }); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		if err := session.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestHostCommunicateFeedsAProcessWithoutOutput(t *testing.T) {
	r := newRun(t)
	defer r.end()
	ctx := context.Background()
	session := r.attached(r.shell(`exec >&- 2>&-; [ "$(cat)" = hello ]`))
	defer session.Close()
	reader, writer := io.Pipe()
	go func() {
		// Later than the end of the outputs.
		time.Sleep(300 * time.Millisecond)
		io.WriteString(writer, "hello")
		writer.Close()
	}()
	if err := soon(t, func() error { return session.Communicate(ctx, reader, nil, nil) }); err != nil {
		t.Fatal(err)
	}
	if code, err := session.Wait(ctx); err != nil || code != 0 {
		t.Fatal(code, err)
	}
}

// deep needs more stack than a goroutine has at first.
func deep(depth int) int {
	var room [256]byte
	room[depth%256] = byte(depth)
	if depth == 0 {
		return 0
	}
	return deep(depth-1) + int(room[depth%256])
}

func TestHostStackMovesDuringALoadOfAFile(t *testing.T) {
	r := newRun(t)
	defer r.end()
	told := 0
	load := func() error {
		file, err := os.Open(setting(t, "CORACLE_TEST_IMAGE"))
		if err != nil {
			return err
		}
		defer file.Close()
		// A stack that moves has no number in it that looks like a pointer; the collector looks, too.
		_, err = r.engine.Images.Load(context.Background(), file, func(Progress) error {
			told++
			deep(10_000)
			runtime.GC()
			return nil
		})
		return err
	}
	if err := soon(t, load); err != nil {
		t.Fatal(err)
	}
	if told == 0 {
		t.Fatal("no progress was told")
	}
}

func TestHostContextEndsOneWaitOnly(t *testing.T) {
	var fds [2]int
	if err := syscall.Pipe2(fds[:], syscall.O_CLOEXEC|syscall.O_NONBLOCK); err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(fds[0])
	defer syscall.Close(fds[1])
	poll, err := newPoller(int64(fds[0]))
	if err != nil {
		t.Fatal(err)
	}
	defer poll.close()
	for range 200 {
		ctx, cancel := context.WithCancel(context.Background())
		// The context ends while the wait does.
		if err := poll.until(ctx, func() bool { cancel(); return true }); err != nil {
			t.Fatal(err)
		}
		go func() {
			time.Sleep(time.Millisecond)
			syscall.Write(fds[1], []byte("x"))
		}()
		err := poll.until(context.Background(), func() bool {
			count, _ := syscall.Read(fds[0], make([]byte, 1))
			return count == 1
		})
		if err != nil {
			t.Fatalf("the end of another wait's context ended this one: %v", err)
		}
	}
}

func TestHostClosesAWaitThatEnded(t *testing.T) {
	r := newRun(t)
	defer r.end()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	c := r.shell("exit 3")
	pending, err := c.BeginWait(ctx, NextExit)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Start(ctx); err != nil {
		t.Fatal(err)
	}
	if code, err := pending.Wait(ctx); err != nil || code != 3 {
		t.Fatal(code, err)
	}
	if err := soon(t, pending.Close); err != nil {
		t.Fatal(err)
	}
}
