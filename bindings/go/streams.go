package coracle

/*
#include <coracle.h>
#include <string.h>
*/
import "C"

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"runtime"
	"strings"
	"sync"
	"time"
	"unsafe"
)

// Raw is a part of a document.
type Raw = json.RawMessage

// stream is a stream of the library.
type stream struct{ pointer *C.coracle_stream }

func newStream(pointer *C.coracle_stream) *stream {
	made := &stream{pointer}
	runtime.SetFinalizer(made, func(s *stream) { s.close() })
	return made
}

func (s *stream) close() error {
	runtime.SetFinalizer(s, nil)
	rawStreamFree(s.pointer)
	return nil
}

// next is the next record with its channel and time; io.EOF at the end.
func (s *stream) next(made *op) (Channel, time.Time, []byte, error) {
	defer runtime.KeepAlive(s)
	frame := C.coracle_frame{size: C.size_t(unsafe.Sizeof(C.coracle_frame{}))}
	status, err := rawStreamNext(s.pointer, made.handle, &frame)
	if err != nil {
		return 0, time.Time{}, nil, made.err(err)
	}
	if status == numDone {
		return 0, time.Time{}, nil, io.EOF
	}
	at := time.Time{}
	if frame.time_ns != 0 {
		at = time.Unix(0, int64(frame.time_ns))
	}
	return Channel(frame.channel), at, C.GoBytes(unsafe.Pointer(frame.data), C.int(frame.len)), nil
}

func (s *stream) fd() (uintptr, error) {
	defer runtime.KeepAlive(s)
	fd := rawStreamFd(s.pointer)
	if fd < 0 {
		return 0, refused(Code(fd), "%s", Code(fd).String())
	}
	return uintptr(fd), nil
}

// Body is bytes out of the engine: an archive, the body of an answer.
type Body struct {
	stream *stream
	ctx    context.Context
}

func newBody(pointer *C.coracle_stream) *Body { return &Body{newStream(pointer), context.Background()} }

// WithContext has the context end the reads of the body.
func (b *Body) WithContext(ctx context.Context) *Body {
	b.ctx = ctx
	return b
}

// Read reads; an operation that failed gives its error in place of the end.
func (b *Body) Read(room []byte) (int, error) {
	if len(room) == 0 {
		return 0, nil
	}
	defer runtime.KeepAlive(b.stream)
	var count int64
	err := during(b.ctx, nil, func(op *C.coracle_op) (err error) {
		count, err = rawStreamRead(b.stream.pointer, room, op)
		return err
	})
	if err != nil {
		return 0, err
	}
	if count == 0 {
		return 0, io.EOF
	}
	return int(count), nil
}

// Close ends the stream, read to its end or not.
func (b *Body) Close() error { return b.stream.close() }

// LogsOptions says which lines of a log are read.
type LogsOptions struct {
	// Stdout and Stderr: only those; none: both.
	Stdout, Stderr bool
	// Since leaves out earlier lines.
	Since time.Time
	// Tail is how many lines from the end; 0: all.
	Tail int
	// Follow: also the lines to come, until the container ends.
	Follow bool
}

func (o LogsOptions) document() (text, error) {
	query := M{"follow": o.Follow}
	if o.Stdout || o.Stderr {
		query["stdout"], query["stderr"] = o.Stdout, o.Stderr
	}
	if !o.Since.IsZero() {
		query["since"] = seconds(o.Since)
	}
	if o.Tail != 0 {
		query["tail"] = o.Tail
	}
	return document(query)
}

// seconds is a time as the engine reads it.
func seconds(at time.Time) string {
	return fmt.Sprintf("%d.%09d", at.Unix(), at.Nanosecond())
}

// LogLine is a line of a log, with its newline.
type LogLine struct {
	Channel Channel
	Time    time.Time
	Data    []byte
}

// Text is the line without its newline.
func (l LogLine) Text() string { return strings.TrimRight(string(l.Data), "\n") }

// Logs are the lines of a log.
type Logs struct{ stream *stream }

// Logs reads the container's log.
func (c *Container) Logs(ctx context.Context, options LogsOptions) (*Logs, error) {
	query, err := options.document()
	if err != nil {
		return nil, err
	}
	var made *C.coracle_stream
	err = c.does(ctx, func(engine *C.coracle, id text, op *C.coracle_op) (err error) {
		_, made, err = rawContainerLogs(engine, id, query, op)
		return err
	})
	if err != nil {
		return nil, err
	}
	return &Logs{newStream(made)}, nil
}

// Next is the next line; io.EOF at the end.
func (l *Logs) Next(ctx context.Context) (LogLine, error) {
	made, err := begin(ctx, 0, nil)
	if err != nil {
		return LogLine{}, err
	}
	defer made.end()
	channel, at, data, err := l.stream.next(made)
	return LogLine{channel, at, data}, err
}

// All gives the lines to the end, or until the context ends; the loop may end early.
func (l *Logs) All(ctx context.Context) iter.Seq2[LogLine, error] {
	return func(yield func(LogLine, error) bool) {
		made, err := begin(ctx, 0, nil)
		if err != nil {
			yield(LogLine{}, err)
			return
		}
		defer made.end()
		for {
			channel, at, data, err := l.stream.next(made)
			if isEnd(err) {
				return
			}
			if !yield(LogLine{channel, at, data}, err) || err != nil {
				return
			}
		}
	}
}

// Lost counts the lines that this reader missed: the log's bounds deleted them before they were read.
func (l *Logs) Lost() (int64, error) {
	defer runtime.KeepAlive(l.stream)
	lost := rawStreamLost(l.stream.pointer)
	if lost < 0 {
		return 0, refused(Code(lost), "%s", Code(lost).String())
	}
	return lost, nil
}

// Fd is a descriptor that is readable while a line may be waiting, valid until Close.
func (l *Logs) Fd() (uintptr, error) { return l.stream.fd() }

// Close ends the reading.
func (l *Logs) Close() error { return l.stream.close() }

// Stats is a sample of the resources that the container uses now: the document of GET /containers/{id}/stats.
func (c *Container) Stats(ctx context.Context) (Document, error) {
	var sample Document
	for one, err := range c.samples(ctx, M{"stream": false, "one-shot": true}) {
		if err != nil {
			return nil, err
		}
		sample = one
	}
	return sample, nil
}

// Samples gives a sample at once and then one a second, until the container is removed or the context ends.
func (c *Container) Samples(ctx context.Context) iter.Seq2[Document, error] {
	return c.samples(ctx, M{"stream": true})
}

func (c *Container) samples(ctx context.Context, query M) iter.Seq2[Document, error] {
	return func(yield func(Document, error) bool) {
		which, err := document(query)
		if err != nil {
			yield(nil, err)
			return
		}
		made, err := begin(ctx, 0, nil)
		if err != nil {
			yield(nil, err)
			return
		}
		defer made.end()
		_, pointer, err := rawContainerStats(c.engine.pointer, given(c.ID), which, made.handle)
		if err != nil {
			yield(nil, made.err(err))
			return
		}
		stream := newStream(pointer)
		defer stream.close()
		for {
			_, _, data, err := stream.next(made)
			if isEnd(err) {
				return
			}
			if !yield(Document(data), err) || err != nil {
				return
			}
		}
	}
}

// EventsOptions says which events are followed.
type EventsOptions struct {
	// Since replays events from then on; Until ends.
	Since, Until time.Time
	// After goes on right after the event with that Sequence.
	After   uint64
	Filters map[string][]string
}

func (o EventsOptions) document() (text, error) {
	query := M{}
	if !o.Since.IsZero() {
		query["since"] = seconds(o.Since)
	}
	if !o.Until.IsZero() {
		query["until"] = seconds(o.Until)
	}
	if o.After != 0 {
		query["after"] = o.After
	}
	if len(o.Filters) != 0 {
		query["filters"] = o.Filters
	}
	return document(query)
}

// Event is an event of a root.
type Event struct {
	Type   string
	Action string
	Actor  struct {
		ID         string
		Attributes map[string]string
	}
	TimeNano int64 `json:"timeNano"`
	// Sequence rises from event to event: see EventsOptions.
	Sequence uint64 `json:"sequence"`
	// Document is the whole event.
	Document Document `json:"-"`
}

// Events are the events of a root, of any program. Waiting for one takes no thread.
type Events struct {
	pointer *C.coracle_events
	poll    *poller
	lock    sync.Mutex
}

// Events follows the events of the root: no event after this call is missed silently.
func (e *Engine) Events(_ context.Context, options EventsOptions) (*Events, error) {
	defer runtime.KeepAlive(e)
	query, err := options.document()
	if err != nil {
		return nil, err
	}
	_, pointer, err := rawEventsOpen(e.pointer, query)
	if err != nil {
		return nil, err
	}
	poll, err := newPoller(rawEventsFd(pointer))
	if err != nil {
		rawEventsFree(pointer)
		return nil, err
	}
	made := &Events{pointer: pointer, poll: poll}
	runtime.SetFinalizer(made, func(e *Events) { e.Close() })
	return made, nil
}

// Next waits for the next event; io.EOF when Until is reached.
func (e *Events) Next(ctx context.Context) (Event, error) {
	defer runtime.KeepAlive(e)
	var status int64
	var answer string
	var problem error
	err := e.poll.until(ctx, func() bool {
		status, answer, problem = rawEventsNext(e.pointer, 0)
		return status != numAgain
	})
	return event(status, answer, errors.Join(err, problem))
}

// Poll is the next event that is there already; false: there is none yet.
func (e *Events) Poll() (Event, bool, error) {
	defer runtime.KeepAlive(e)
	status, answer, err := rawEventsNext(e.pointer, 0)
	if status == numAgain {
		return Event{}, false, nil
	}
	made, err := event(status, answer, err)
	return made, err == nil, err
}

func event(status int64, answer string, err error) (Event, error) {
	if err != nil {
		return Event{}, err
	}
	if status == numDone {
		return Event{}, io.EOF
	}
	made, err := decoded[Event](answer, nil)
	made.Document = Document(answer)
	return made, err
}

// All gives the events until Until is reached or the context ends, whose error is the last.
func (e *Events) All(ctx context.Context) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		for {
			made, err := e.Next(ctx)
			if isEnd(err) {
				return
			}
			// Events that are no longer kept are an error once, and then the next ones come.
			if !yield(made, err) || (err != nil && !errors.Is(err, ErrUnavailable)) {
				return
			}
		}
	}
}

// Close ends following.
func (e *Events) Close() error {
	runtime.SetFinalizer(e, nil)
	e.lock.Lock()
	defer e.lock.Unlock()
	e.poll.close()
	rawEventsFree(e.pointer)
	return nil
}
