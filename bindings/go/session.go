package coracle

/*
#include <coracle.h>
*/
import "C"

import (
	"context"
	"errors"
	"io"
	"iter"
	"os"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// Channel is a standard stream of a process.
type Channel int32

// The standard streams.
const (
	Stdin  Channel = numStdin
	Stdout Channel = numStdout
	Stderr Channel = numStderr
)

// String is stdin, stdout or stderr.
func (c Channel) String() string { return [...]string{"stdin", "stdout", "stderr"}[c] }

// Session is an attached process. Closing it detaches: the process runs on.
//
// Either the files Stdin, Stdout and Stderr are used, or Write and Output: a stream that was asked for as a file belongs to the caller.
type Session struct {
	pointer *C.coracle_session
	lock    sync.Mutex
	files   map[Channel]*os.File
}

func newSession(pointer *C.coracle_session, err error) (*Session, error) {
	if err != nil {
		return nil, err
	}
	made := &Session{pointer: pointer, files: map[Channel]*os.File{}}
	runtime.SetFinalizer(made, func(s *Session) { s.Close() })
	return made, nil
}

// file takes a stream out of the session; nil: the session does not have it.
func (s *Session) file(channel Channel) *os.File {
	s.lock.Lock()
	defer s.lock.Unlock()
	if file, ok := s.files[channel]; ok {
		return file
	}
	var file *os.File
	if fd := rawSessionTakeFd(s.pointer, int32(channel)); fd >= 0 {
		// So that Go's poller waits for it, and no thread.
		if err := syscall.SetNonblock(int(fd), true); err != nil {
			syscall.Close(int(fd))
			return nil
		}
		file = os.NewFile(uintptr(fd), channel.String())
	}
	s.files[channel] = file
	return file
}

// taken is a stream that a caller has. Its calls keep the session, whose finalizer would close the file under them.
type taken struct {
	*os.File
	session *Session
}

func (f taken) Read(room []byte) (int, error) {
	defer runtime.KeepAlive(f.session)
	return f.File.Read(room)
}

// WriteTo is what io.Copy reads by.
func (f taken) WriteTo(to io.Writer) (int64, error) {
	defer runtime.KeepAlive(f.session)
	return f.File.WriteTo(to)
}

type stdin struct{ taken }

func (f stdin) Write(data []byte) (int, error) {
	defer runtime.KeepAlive(f.session)
	return f.File.Write(data)
}

// WriteString is what io.WriteString writes by.
func (f stdin) WriteString(text string) (int, error) {
	defer runtime.KeepAlive(f.session)
	return f.File.WriteString(text)
}

// ReadFrom is what io.Copy writes by.
func (f stdin) ReadFrom(from io.Reader) (int64, error) {
	defer runtime.KeepAlive(f.session)
	return f.File.ReadFrom(from)
}

// Close ends the process's stdin, also if it is kept open over sessions.
func (f stdin) Close() error {
	err := f.session.CloseStdin()
	return errors.Join(err, f.File.Close())
}

// Stdin is the process's stdin; nil: the session does not have it. Closing it ends the process's input.
func (s *Session) Stdin() io.WriteCloser {
	if file := s.file(Stdin); file != nil {
		return stdin{taken{file, s}}
	}
	return nil
}

// Stdout is the process's stdout, of a terminal all output; nil: the session does not have it.
func (s *Session) Stdout() io.ReadCloser { return s.output(Stdout) }

// Stderr is the process's stderr; nil: the session does not have it.
func (s *Session) Stderr() io.ReadCloser { return s.output(Stderr) }

// output keeps a nil file a nil reader.
func (s *Session) output(channel Channel) io.ReadCloser {
	if file := s.file(channel); file != nil {
		return taken{file, s}
	}
	return nil
}

// Has tells whether the session has a stream that was not taken as a file.
func (s *Session) Has(channel Channel) bool {
	defer runtime.KeepAlive(s)
	return rawSessionFd(s.pointer, int32(channel)) >= 0
}

// Piece is a piece of a process's output.
type Piece struct {
	Channel Channel
	Data    []byte
}

// Output gives pieces of either output as they come, until both have ended; the data is valid until the next piece.
func (s *Session) Output(ctx context.Context) iter.Seq2[Piece, error] {
	return func(yield func(Piece, error) bool) {
		defer runtime.KeepAlive(s)
		made, err := begin(ctx, 0, nil)
		if err != nil {
			yield(Piece{}, err)
			return
		}
		defer made.end()
		room := make([]byte, 64<<10)
		for {
			count, channel, err := rawSessionRead(s.pointer, room, made.handle)
			if err != nil {
				yield(Piece{}, made.err(err))
				return
			}
			if count == 0 || !yield(Piece{Channel(channel), room[:count]}, nil) {
				return
			}
		}
	}
}

// Write writes to the process's stdin, all of it.
func (s *Session) Write(ctx context.Context, data []byte) (int, error) {
	defer runtime.KeepAlive(s)
	written := 0
	err := during(ctx, nil, func(op *C.coracle_op) error {
		for {
			count, err := rawSessionWrite(s.pointer, data[written:], op)
			if err != nil {
				return err
			}
			written += int(count)
			if written == len(data) {
				return nil
			}
		}
	})
	return written, err
}

// CloseStdin ends the process's stdin: the process reads the bytes that were written, then the end.
func (s *Session) CloseStdin() error {
	defer runtime.KeepAlive(s)
	_, err := rawSessionCloseStdin(s.pointer)
	return err
}

// Communicate copies input to the process's stdin and ends it, and both outputs to their writers until they end; nil: none.
//
// An input that gives nothing more is not waited for once the process or the context has ended: a read of it may outlast the call.
func (s *Session) Communicate(ctx context.Context, input io.Reader, stdout, stderr io.Writer) error {
	if err := ctx.Err(); err != nil {
		return ofContext(err)
	}
	defer runtime.KeepAlive(s)
	in, out, problems := s.file(Stdin), s.file(Stdout), s.file(Stderr)
	defer whenDone(ctx, func() {
		for _, file := range []*os.File{in, out, problems} {
			if file != nil {
				file.SetDeadline(time.Unix(1, 0))
			}
		}
	})()
	fed := s.feeding(in, input)
	var jobs sync.WaitGroup
	failed := make([]error, 3)
	copying := func(at int, to io.Writer, from *os.File) {
		if from == nil {
			return
		}
		if to == nil {
			to = io.Discard
		}
		jobs.Add(1)
		go func() {
			defer jobs.Done()
			_, failed[at] = io.Copy(to, from)
		}()
	}
	copying(1, stdout, out)
	copying(2, stderr, problems)
	jobs.Wait()
	failed[0] = s.fed(ctx, in, fed)
	if err := ctx.Err(); err != nil && errors.Join(failed...) != nil {
		return ofContext(err)
	}
	return errors.Join(failed...)
}

// feeding feeds the process on another goroutine, and tells its error.
func (s *Session) feeding(in *os.File, input io.Reader) <-chan error {
	fed := make(chan error, 1)
	if in == nil {
		fed <- nil
	} else {
		go func() { fed <- feed(stdin{taken{in, s}}, input) }()
	}
	return fed
}

// fed waits, after the outputs' end, until the process has its input, has ended, or the context has: then nobody takes the input.
func (s *Session) fed(ctx context.Context, in *os.File, fed <-chan error) error {
	select {
	case err := <-fed:
		return err
	default:
	}
	waiting, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		_, err := s.Wait(waiting)
		ended <- err
	}()
	select {
	case err := <-fed:
		return err
	case err := <-ended:
		err = errors.Join(err, s.CloseStdin())
		// The feeding goroutine may have closed it a moment before.
		in.Close()
		return err
	}
}

// feed writes the input; a process may end without reading all of it.
func feed(to io.WriteCloser, input io.Reader) error {
	var err error
	if input != nil {
		_, err = io.Copy(to, input)
	}
	if errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET) {
		err = nil
	}
	return errors.Join(err, to.Close())
}

// Resize sets the size of the process's terminal.
func (s *Session) Resize(rows, cols uint16) error {
	defer runtime.KeepAlive(s)
	_, err := rawSessionResize(s.pointer, rows, cols)
	return err
}

// Wait waits for the process's end: its exit code, 128 + n if signal n ended it.
func (s *Session) Wait(ctx context.Context) (int, error) {
	defer runtime.KeepAlive(s)
	return waited(ctx, func(op *C.coracle_op) error {
		_, _, err := rawSessionWait(s.pointer, op)
		return err
	})
}

// Close detaches: the process runs on.
func (s *Session) Close() error {
	runtime.SetFinalizer(s, nil)
	s.lock.Lock()
	defer s.lock.Unlock()
	for _, file := range s.files {
		if file != nil {
			// A caller may have closed it before.
			file.Close()
		}
	}
	rawSessionFree(s.pointer)
	return nil
}
