package coracle

/*
#include <coracle.h>
#include <stdlib.h>

int32_t coracleGoProgress(void *user, char *record);
int64_t coracleGoRead(void *user, void *buffer, size_t length);
void coracleGoLog(void *user, int32_t level, char *target, char *message);
void coracleGoDrop(void *user);

static coracle_progress_fn go_progress(void) { return (coracle_progress_fn)coracleGoProgress; }
static coracle_read_fn go_read(void) { return coracleGoRead; }
static coracle_log_fn go_log(void) { return (coracle_log_fn)coracleGoLog; }
static coracle_drop_fn go_drop(void) { return coracleGoDrop; }
static coracle_read_fn go_read_fd(void) { return coracle_read_fd; }
*/
import "C"

import (
	"context"
	"errors"
	"io"
	"os"
	"runtime"
	"runtime/cgo"
	"sync"
	"syscall"
	"time"
	"unsafe"
)

// Progress is a record of a call that lasts.
type Progress struct {
	// Stream is text of a build or a load.
	Stream string `json:"stream"`
	// Status is the step that a part is at.
	Status string `json:"status"`
	// ID is the part, such as a layer's short id.
	ID string `json:"id"`
	// Detail has bytes so far and in all; 0: they are not known.
	Detail struct {
		Current int64 `json:"current"`
		Total   int64 `json:"total"`
	} `json:"progressDetail"`
	// Record is the whole record.
	Record Document `json:"-"`
}

// ProgressFunc gets the records of a call, on a thread of that call. An error from it ends the call, and is the call's error.
type ProgressFunc func(Progress) error

// newCell is memory of C with a handle of Go's in it: C may keep its address.
func newCell(value any) unsafe.Pointer {
	cell := C.malloc(C.size_t(unsafe.Sizeof(cgo.Handle(0))))
	*(*cgo.Handle)(cell) = cgo.NewHandle(value)
	return cell
}

func dropCell(cell unsafe.Pointer) {
	(*(*cgo.Handle)(cell)).Delete()
	C.free(cell)
}

// op is the operation of one call.
type op struct {
	ctx    context.Context
	handle *C.coracle_op
	told   *told
	cell   unsafe.Pointer
	stop   func()
}

// begin makes the operation of a call: the context ends it.
func begin(ctx context.Context, flags uint64, progress ProgressFunc) (*op, error) {
	if err := ctx.Err(); err != nil {
		return nil, ofContext(err)
	}
	made := &op{ctx: ctx}
	if ctx.Done() == nil && progress == nil && flags == 0 {
		return made, nil
	}
	_, handle, err := rawOpNew(flags)
	if err != nil {
		return nil, err
	}
	made.handle = handle
	if progress != nil {
		made.told = &told{progress: progress}
		made.cell = newCell(made.told)
		rawOpSetProgress(handle, C.go_progress(), made.cell, nil, 0)
	}
	if deadline, ok := ctx.Deadline(); ok {
		// Rounded up, so that the context's deadline has passed, too, when the library's has.
		rawOpSetTimeout(handle, max(0, time.Until(deadline).Milliseconds()+1))
	}
	if ctx.Done() != nil {
		made.stop = whenDone(ctx, func() { rawOpCancel(handle) })
	}
	return made, nil
}

// whenDone has work done when the context ends. After the function that it gives, work neither runs nor will.
func whenDone(ctx context.Context, work func()) (stop func()) {
	ended := make(chan struct{})
	before := context.AfterFunc(ctx, func() {
		defer close(ended)
		work()
	})
	return sync.OnceFunc(func() {
		if !before() {
			<-ended
		}
	})
}

// end frees the operation.
func (o *op) end() {
	if o.stop != nil {
		o.stop()
	}
	if o.handle != nil {
		rawOpFree(o.handle)
		o.handle = nil
	}
	if o.cell != nil {
		dropCell(o.cell)
		o.cell = nil
	}
}

// err is the error of the call as its caller sees it: the context's, or the one of the caller's own function, stands behind it.
func (o *op) err(problem error) error {
	var failed *Error
	if !errors.As(problem, &failed) {
		return problem
	}
	if o.told != nil && o.told.refused != nil {
		failed.cause = o.told.refused
	} else if failed.Code == ErrCancelled || failed.Code == ErrTimeout {
		if err := o.ctx.Err(); err != nil {
			failed.cause, failed.Code = err, codeOf(err)
		} else if failed.Code == ErrTimeout {
			failed.cause = context.DeadlineExceeded
		}
	}
	return failed
}

func codeOf(err error) Code {
	if errors.Is(err, context.DeadlineExceeded) {
		return ErrTimeout
	}
	return ErrCancelled
}

func ofContext(err error) error {
	made := refused(codeOf(err), "%s", err.Error())
	made.cause = err
	return made
}

// during makes a call with an operation of its own.
func during(ctx context.Context, progress ProgressFunc, call func(*C.coracle_op) error) error {
	made, err := begin(ctx, 0, progress)
	if err != nil {
		return err
	}
	defer made.end()
	return made.err(call(made.handle))
}

// asked is a call that gives a document.
func asked[T any](ctx context.Context, progress ProgressFunc, call func(*C.coracle_op) (string, error)) (T, error) {
	var answer T
	err := during(ctx, progress, func(op *C.coracle_op) error {
		text, err := call(op)
		if err == nil {
			answer, err = decoded[T](text, nil)
		}
		return err
	})
	return answer, err
}

// reading makes a call that reads an archive: a file of the system is read by the library itself.
//
// The user argument of a read function is a number for Go: the memory of C at that address, or a descriptor.
func reading(archive io.Reader, call func(C.coracle_read_fn, uintptr) error) error {
	if file, ok := archive.(*os.File); ok && file != nil {
		if about, err := file.Stat(); err == nil && about.Mode().IsRegular() {
			defer runtime.KeepAlive(file)
			return call(C.go_read_fd(), file.Fd())
		}
	}
	if archive == nil {
		return call(nil, 0)
	}
	from := &source{reader: archive}
	cell := newCell(from)
	defer dropCell(cell)
	err := call(C.go_read(), uintptr(cell))
	var failed *Error
	if from.failed != nil && errors.As(err, &failed) {
		failed.cause = from.failed
	}
	return err
}

// poller waits for a descriptor of the library by Go's own poller, so without a thread.
type poller struct {
	file *os.File
	raw  syscall.RawConn
}

// newPoller takes a duplicate of a borrowed descriptor.
func newPoller(fd int64) (*poller, error) {
	if fd < 0 {
		return nil, refused(Code(fd), "%s", Code(fd).String())
	}
	own, _, errno := syscall.Syscall(syscall.SYS_FCNTL, uintptr(fd), syscall.F_DUPFD_CLOEXEC, 0)
	if errno != 0 {
		return nil, errno
	}
	// Without this mark os.NewFile does not use the poller; nobody reads the descriptor.
	if err := syscall.SetNonblock(int(own), true); err != nil {
		syscall.Close(int(own))
		return nil, err
	}
	file := os.NewFile(own, "coracle")
	raw, err := file.SyscallConn()
	if err != nil {
		file.Close()
		return nil, err
	}
	return &poller{file, raw}, nil
}

// until calls try until it is true, each time the descriptor is readable.
func (p *poller) until(ctx context.Context, try func() bool) error {
	if err := ctx.Err(); err != nil {
		return ofContext(err)
	}
	if err := p.file.SetReadDeadline(time.Time{}); err != nil {
		return err
	}
	// A deadline that came later would end the next wait.
	defer whenDone(ctx, func() { p.file.SetReadDeadline(time.Unix(1, 0)) })()
	err := p.raw.Read(func(uintptr) bool { return try() })
	if err != nil && ctx.Err() != nil {
		return ofContext(ctx.Err())
	}
	if errors.Is(err, os.ErrClosed) {
		return refused(ErrMisuse, "it was closed before")
	}
	return err
}

func (p *poller) close() { p.file.Close() }

// Pending is a wait that was begun. It takes no thread.
type Pending struct {
	made *op
	poll *poller
}

// beginCall begins a call with CORACLE_OP_NONBLOCK.
func beginCall(ctx context.Context, call func(*C.coracle_op) error) (*Pending, error) {
	made, err := begin(ctx, numOpNonblock, nil)
	if err != nil {
		return nil, err
	}
	if err = made.err(call(made.handle)); err == nil {
		var poll *poller
		if poll, err = newPoller(rawOpFd(made.handle)); err == nil {
			return &Pending{made, poll}, nil
		}
	}
	made.end()
	return nil, err
}

// Wait waits for the exit code and ends the wait. The context of the wait's begin ends the wait, too.
func (p *Pending) Wait(ctx context.Context) (int, error) {
	if p.made.handle == nil {
		return -1, refused(ErrMisuse, "the wait has ended before")
	}
	defer p.Close()
	result := C.coracle_result{size: C.size_t(unsafe.Sizeof(C.coracle_result{})), code: -1}
	var answer error
	err := p.poll.until(ctx, func() bool {
		status, err := rawOpResult(p.made.handle, &result)
		answer = err
		return status != numAgain
	})
	if err != nil {
		return -1, err
	}
	C.coracle_free(unsafe.Pointer(result.id))
	C.coracle_free(unsafe.Pointer(result.json))
	return int(result.code), p.made.err(answer)
}

// Close ends the wait, waited for or not.
func (p *Pending) Close() error {
	p.poll.close()
	p.made.end()
	return nil
}

// waited begins a wait and waits for its end.
func waited(ctx context.Context, call func(*C.coracle_op) error) (int, error) {
	pending, err := beginCall(ctx, call)
	if err != nil {
		return -1, err
	}
	return pending.Wait(ctx)
}

// Level is the gravity of a message of the library.
type Level int32

// Levels of messages.
const (
	LevelError Level = numLogError
	LevelWarn  Level = numLogWarn
	LevelInfo  Level = numLogInfo
	LevelDebug Level = numLogDebug
)

// Sink takes a message of the library: from any thread; it must not call the library.
type Sink func(level Level, target, message string)

// SetLog has a function called with the messages of that level and graver; nil: none is called any more.
func SetLog(level Level, sink Sink) error {
	if sink == nil {
		_, err := rawSetLog(int32(level), nil, nil, nil)
		return err
	}
	cell := newCell(sink)
	_, err := rawSetLog(int32(level), C.go_log(), cell, C.go_drop())
	if err != nil {
		dropCell(cell)
	}
	return err
}
