package coracle

/*
#include <coracle.h>
*/
import "C"

import (
	"context"
	"io"
	"os"
	"runtime"
	"time"
	"unsafe"
)

// Containers are the containers of an engine.
type Containers struct{ engine *Engine }

// Container is a container by its id or name; it outlives this value and the program.
type Container struct {
	engine *Engine
	// ID is the id, or the name by which the container was asked for.
	ID string
	// Warnings are the remarks of the engine about its creation.
	Warnings []string
}

// Create creates a container of a body of POST /containers/create; name "": the engine makes one up.
func (s Containers) Create(ctx context.Context, name string, body any) (*Container, error) {
	defer runtime.KeepAlive(s.engine)
	made, err := document(body)
	if err != nil {
		return nil, err
	}
	container := &Container{engine: s.engine}
	err = during(ctx, nil, func(op *C.coracle_op) error {
		_, id, answer, err := rawContainerCreate(s.engine.pointer, optional(name), made, op)
		if err != nil {
			return err
		}
		container.ID = id
		about, err := decoded[struct{ Warnings []string }](answer, nil)
		container.Warnings = about.Warnings
		return err
	})
	if err != nil {
		return nil, err
	}
	return container, nil
}

// Get is the container of an id, a name, or the beginning of an id; it asks nothing.
func (s Containers) Get(id string) *Container { return &Container{engine: s.engine, ID: id} }

// ListOptions says which containers a list has.
type ListOptions struct {
	// All: not only running ones.
	All bool `json:"all,omitempty"`
	// Limit: the newest ones; 0: all.
	Limit int `json:"limit,omitempty"`
	// Size: each has its sizes.
	Size bool `json:"size,omitempty"`
	// Since and Before name a container.
	Since   string              `json:"since,omitempty"`
	Before  string              `json:"before,omitempty"`
	Filters map[string][]string `json:"filters,omitempty"`
}

// List lists containers, newest first: the documents of GET /containers/json.
func (s Containers) List(_ context.Context, options ListOptions) ([]Document, error) {
	defer runtime.KeepAlive(s.engine)
	query, err := document(options)
	if err != nil {
		return nil, err
	}
	_, answer, err := rawContainerList(s.engine.pointer, query)
	return documents(answer, err)
}

// Prune removes the containers that do not run, or of them those that the filters of a list choose.
func (s Containers) Prune(ctx context.Context, filters map[string][]string) (Document, error) {
	made, err := filtering(filters)
	if err != nil {
		return nil, err
	}
	return s.engine.document(ctx, nil, func(op *C.coracle_op) (string, error) {
		_, answer, err := rawContainerPrune(s.engine.pointer, made, op)
		return answer, err
	})
}

// filtering is filters as a document; none is NULL.
func filtering(filters map[string][]string) (text, error) {
	if len(filters) == 0 {
		return text{}, nil
	}
	return document(filters)
}

// documents is a list of documents.
func documents(answer string, problem error) ([]Document, error) {
	made, err := decoded[[]Raw](answer, problem)
	if err != nil {
		return nil, err
	}
	out := make([]Document, len(made))
	for i, one := range made {
		out[i] = Document(one)
	}
	return out, nil
}

// does makes a call about the container that gives nothing.
func (c *Container) does(ctx context.Context, call func(*C.coracle, text, *C.coracle_op) error) error {
	defer runtime.KeepAlive(c.engine)
	return during(ctx, nil, func(op *C.coracle_op) error { return call(c.engine.pointer, given(c.ID), op) })
}

// gives makes a call about the container that gives a document.
func (c *Container) gives(ctx context.Context, call func(*C.coracle, text, *C.coracle_op) (string, error)) (Document, error) {
	return c.engine.document(ctx, nil, func(op *C.coracle_op) (string, error) { return call(c.engine.pointer, given(c.ID), op) })
}

// Inspect describes the container in full: the document of GET /containers/{id}/json.
func (c *Container) Inspect(context.Context) (Document, error) { return c.inspect(0) }

// InspectSize is Inspect with SizeRw and SizeRootFs.
func (c *Container) InspectSize(context.Context) (Document, error) { return c.inspect(1) }

func (c *Container) inspect(size int32) (Document, error) {
	defer runtime.KeepAlive(c.engine)
	_, answer, err := rawContainerInspect(c.engine.pointer, given(c.ID), size)
	return Document(answer), err
}

// Explain describes the container's launch in words, with the kernel's answer to the step at which the last start failed.
func (c *Container) Explain(context.Context) (Document, error) {
	defer runtime.KeepAlive(c.engine)
	_, answer, err := rawContainerExplain(c.engine.pointer, given(c.ID))
	return Document(answer), err
}

// Start starts the container, detached; false: it ran already.
func (c *Container) Start(ctx context.Context) (bool, error) {
	var status int64
	err := c.does(ctx, func(engine *C.coracle, id text, op *C.coracle_op) (err error) {
		status, _, err = rawContainerStart(engine, id, nil, op)
		return err
	})
	return status != numUnchanged && err == nil, err
}

// IO says where the standard streams of a process come from; the zero value: the library makes each.
type IO struct {
	// Stdin, Stdout and Stderr are files of the caller's in place of the session's own.
	Stdin, Stdout, Stderr *os.File
	// Rows and Cols are the size of a terminal; 0: not set.
	Rows, Cols uint16
	// Direct: the process itself gets the files that are given, without a copy of any byte.
	Direct bool
}

func (o IO) c() *C.coracle_io {
	made := &C.coracle_io{size: C.size_t(unsafe.Sizeof(C.coracle_io{})), fd_in: -1, fd_out: -1, fd_err: -1}
	made.rows, made.cols = C.uint16_t(o.Rows), C.uint16_t(o.Cols)
	if o.Direct {
		made.flags = numIoDirect
	}
	for _, one := range []struct {
		file *os.File
		to   *C.int32_t
	}{{o.Stdin, &made.fd_in}, {o.Stdout, &made.fd_out}, {o.Stderr, &made.fd_err}} {
		if one.file != nil {
			*one.to = C.int32_t(one.file.Fd())
		}
	}
	return made
}

// StartAttached starts the container with its streams in hand from the first byte on. Of a container that runs already it is Attach.
func (c *Container) StartAttached(ctx context.Context, io IO) (*Session, error) {
	defer runtime.KeepAlive(io)
	var session *C.coracle_session
	err := c.does(ctx, func(engine *C.coracle, id text, op *C.coracle_op) (err error) {
		_, session, err = rawContainerStart(engine, id, io.c(), op)
		return err
	})
	if err == nil && session == nil {
		return c.Attach(ctx, AttachOptions{IO: io})
	}
	return newSession(session, err)
}

// AttachOptions says which streams a session has; none: all.
type AttachOptions struct {
	Stdin  bool `json:"stdin,omitempty"`
	Stdout bool `json:"stdout,omitempty"`
	Stderr bool `json:"stderr,omitempty"`
	// Wait: the call returns before the container runs; the session has its output from the first byte on.
	Wait bool `json:"wait,omitempty"`
	// IO says where the streams come from.
	IO IO `json:"-"`
}

// Attach attaches to the container's standard streams.
func (c *Container) Attach(ctx context.Context, options AttachOptions) (*Session, error) {
	defer runtime.KeepAlive(options)
	query, err := document(options)
	if err != nil {
		return nil, err
	}
	var session *C.coracle_session
	err = c.does(ctx, func(engine *C.coracle, id text, op *C.coracle_op) (err error) {
		_, session, err = rawContainerAttach(engine, id, options.IO.c(), query, op)
		return err
	})
	return newSession(session, err)
}

// StopOptions says how a container is stopped.
type StopOptions struct {
	// Signal is a name or a number; "": the container's own stop signal.
	Signal string
	// Grace is the time until SIGKILL; nil: the container's own; below 0: SIGKILL is never sent.
	Grace *time.Duration
}

func (o StopOptions) document() (text, error) {
	how := M{}
	if o.Signal != "" {
		how["signal"] = o.Signal
	}
	if o.Grace != nil {
		how["grace_ms"] = o.Grace.Milliseconds()
	}
	return document(how)
}

// Stop stops the container: its stop signal and, if it still runs after grace, SIGKILL (below 0: never). False: it did not run.
func (c *Container) Stop(ctx context.Context, grace time.Duration) (bool, error) {
	var status int64
	err := c.does(ctx, func(engine *C.coracle, id text, op *C.coracle_op) (err error) {
		status, err = rawContainerStop(engine, id, grace.Milliseconds(), op)
		return err
	})
	return status != numUnchanged && err == nil, err
}

// StopWith is Stop with a signal and a time of its own.
func (c *Container) StopWith(ctx context.Context, options StopOptions) (bool, error) {
	how, err := options.document()
	if err != nil {
		return false, err
	}
	var status int64
	err = c.does(ctx, func(engine *C.coracle, id text, op *C.coracle_op) (err error) {
		status, err = rawContainerStopWith(engine, id, how, op)
		return err
	})
	return status != numUnchanged && err == nil, err
}

// Restart stops the container if it runs, as Stop does, and starts it.
func (c *Container) Restart(ctx context.Context, grace time.Duration) error {
	return c.does(ctx, func(engine *C.coracle, id text, op *C.coracle_op) error {
		_, err := rawContainerRestart(engine, id, grace.Milliseconds(), op)
		return err
	})
}

// RestartWith stops the container if it runs, as StopWith does, and starts it.
func (c *Container) RestartWith(ctx context.Context, options StopOptions) error {
	how, err := options.document()
	if err != nil {
		return err
	}
	return c.does(ctx, func(engine *C.coracle, id text, op *C.coracle_op) error {
		_, err := rawContainerRestartWith(engine, id, how, op)
		return err
	})
}

// Kill sends a signal, a name or a number; "": SIGKILL, whose effect the call waits for.
func (c *Container) Kill(ctx context.Context, signal string) error {
	return c.does(ctx, func(engine *C.coracle, id text, op *C.coracle_op) error {
		_, err := rawContainerKill(engine, id, optional(signal), op)
		return err
	})
}

// Pause freezes the container's processes.
func (c *Container) Pause(ctx context.Context) error {
	return c.does(ctx, func(engine *C.coracle, id text, op *C.coracle_op) error {
		_, err := rawContainerPause(engine, id, op)
		return err
	})
}

// Unpause thaws the container's processes.
func (c *Container) Unpause(ctx context.Context) error {
	return c.does(ctx, func(engine *C.coracle, id text, op *C.coracle_op) error {
		_, err := rawContainerUnpause(engine, id, op)
		return err
	})
}

// Condition is the state that a wait waits for.
type Condition string

// Conditions of waits.
const (
	NotRunning Condition = "not-running"
	NextExit   Condition = "next-exit"
	Removed    Condition = "removed"
)

// BeginWait begins a wait, which misses no end after this call: begin a wait for NextExit, start the container, wait.
func (c *Container) BeginWait(ctx context.Context, condition Condition) (*Pending, error) {
	defer runtime.KeepAlive(c.engine)
	return beginCall(ctx, func(op *C.coracle_op) error {
		_, _, _, err := rawContainerWait(c.engine.pointer, given(c.ID), optional(string(condition)), op)
		return err
	})
}

// Wait waits until the container does not run: its exit code, 128 + n if signal n ended it.
func (c *Container) Wait(ctx context.Context) (int, error) { return c.WaitFor(ctx, NotRunning) }

// WaitFor waits for a condition: the exit code.
func (c *Container) WaitFor(ctx context.Context, condition Condition) (int, error) {
	pending, err := c.BeginWait(ctx, condition)
	if err != nil {
		return -1, err
	}
	return pending.Wait(ctx)
}

// Pidfd is a file of the container's first process, which is readable when the process ended.
func (c *Container) Pidfd() (*os.File, error) {
	defer runtime.KeepAlive(c.engine)
	_, fd, err := rawContainerPidfd(c.engine.pointer, given(c.ID))
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), "pidfd"), nil
}

// RemoveOptions says how a container is removed.
type RemoveOptions struct {
	// Force kills the container first if it runs.
	Force bool
	// Volumes removes its anonymous volumes, too.
	Volumes bool
	// Link: the id is a link, which is removed.
	Link bool
}

// Remove removes the container.
func (c *Container) Remove(ctx context.Context, options RemoveOptions) error {
	var flags uint64
	if options.Force {
		flags |= numRemoveForce
	}
	if options.Volumes {
		flags |= numRemoveVolumes
	}
	if options.Link {
		flags |= numRemoveLink
	}
	return c.does(ctx, func(engine *C.coracle, id text, op *C.coracle_op) error {
		_, err := rawContainerRemove(engine, id, flags, op)
		return err
	})
}

// Rename gives the container another name.
func (c *Container) Rename(_ context.Context, name string) error {
	defer runtime.KeepAlive(c.engine)
	_, err := rawContainerRename(c.engine.pointer, given(c.ID), given(name))
	return err
}

// Processes are the processes of a container, as ps shows them.
type Processes struct {
	Titles    []string
	Processes [][]string
}

// Top lists the container's processes; arguments "": those of ps -ef.
func (c *Container) Top(_ context.Context, arguments string) (Processes, error) {
	defer runtime.KeepAlive(c.engine)
	_, answer, err := rawContainerTop(c.engine.pointer, given(c.ID), optional(arguments))
	return decoded[Processes](answer, err)
}

// Update changes limits and restart policy by a body of POST /containers/{id}/update; the answer has warnings.
func (c *Container) Update(ctx context.Context, body any) ([]string, error) {
	made, err := document(body)
	if err != nil {
		return nil, err
	}
	answer, err := c.gives(ctx, func(engine *C.coracle, id text, op *C.coracle_op) (string, error) {
		_, answer, err := rawContainerUpdate(engine, id, made, op)
		return answer, err
	})
	about, err := decoded[struct{ Warnings []string }](string(answer), err)
	return about.Warnings, err
}

// PathStat describes a file of a container.
type PathStat struct {
	Name       string    `json:"name"`
	Size       int64     `json:"size"`
	Mode       uint32    `json:"mode"`
	Mtime      time.Time `json:"mtime"`
	LinkTarget string    `json:"linkTarget"`
}

// StatPath describes the file at a path of the container.
func (c *Container) StatPath(ctx context.Context, path string) (PathStat, error) {
	answer, err := c.gives(ctx, func(engine *C.coracle, id text, op *C.coracle_op) (string, error) {
		_, answer, err := rawContainerStatPath(engine, id, given(path), op)
		return answer, err
	})
	return decoded[PathStat](string(answer), err)
}

// GetArchive copies files out of the container: a tar, to be read to its end and closed.
func (c *Container) GetArchive(ctx context.Context, path string) (*Body, PathStat, error) {
	var about string
	body, err := c.stream(ctx, func(engine *C.coracle, id text, op *C.coracle_op) (out *C.coracle_stream, err error) {
		_, out, about, err = rawContainerGetArchive(engine, id, given(path), op)
		return out, err
	})
	if err != nil {
		return nil, PathStat{}, err
	}
	stat, err := decoded[PathStat](about, nil)
	return body, stat, err
}

// PutOptions says how an archive is put into a container.
type PutOptions struct {
	// NoOverwriteDirNonDir: a directory does not replace another file, nor another file a directory.
	NoOverwriteDirNonDir bool `json:"noOverwriteDirNonDir,omitempty"`
	// CopyUIDGID: the files get the container's user.
	CopyUIDGID bool `json:"copyUIDGID,omitempty"`
}

// PutArchive extracts a tar, plain or compressed, into a directory of the container.
func (c *Container) PutArchive(ctx context.Context, path string, archive io.Reader, options PutOptions) error {
	query, err := document(options)
	if err != nil {
		return err
	}
	return c.does(ctx, func(engine *C.coracle, id text, op *C.coracle_op) error {
		return reading(archive, func(read C.coracle_read_fn, user uintptr) error {
			_, err := rawContainerPutArchive(engine, id, given(path), query, read, user, op)
			return err
		})
	})
}

// Export is the container's whole file system as a tar, without binds and volumes.
func (c *Container) Export(ctx context.Context) (*Body, error) {
	return c.stream(ctx, func(engine *C.coracle, id text, op *C.coracle_op) (out *C.coracle_stream, err error) {
		_, out, err = rawContainerExport(engine, id, op)
		return out, err
	})
}

// Change is a file that a container changed.
type Change struct {
	Path string
	// Kind is 0 for modified, 1 for added, 2 for deleted.
	Kind int
}

// Changes lists the files that the container changed, compared with its image.
func (c *Container) Changes(ctx context.Context) ([]Change, error) {
	answer, err := c.gives(ctx, func(engine *C.coracle, id text, op *C.coracle_op) (string, error) {
		_, answer, err := rawContainerChanges(engine, id, op)
		return answer, err
	})
	return decoded[[]Change](string(answer), err)
}

// CommitOptions says how an image is made of a container.
type CommitOptions struct {
	Repo    string `json:"repo,omitempty"`
	Tag     string `json:"tag,omitempty"`
	Comment string `json:"comment,omitempty"`
	Author  string `json:"author,omitempty"`
	// NoPause: the container is not frozen meanwhile.
	NoPause bool `json:"-"`
	// Changes are build instructions.
	Changes []string `json:"changes,omitempty"`
	// Config is a configuration that is laid over the container's.
	Config any `json:"-"`
}

// Commit makes an image of the container, without its volumes: the image's id.
func (c *Container) Commit(ctx context.Context, options CommitOptions) (string, error) {
	query, err := document(struct {
		CommitOptions
		Pause bool `json:"pause"`
	}{options, !options.NoPause})
	if err != nil {
		return "", err
	}
	config, err := document(options.Config)
	if err != nil {
		return "", err
	}
	var made string
	err = c.does(ctx, func(engine *C.coracle, id text, op *C.coracle_op) (err error) {
		_, made, err = rawContainerCommit(engine, id, query, config, op)
		return err
	})
	return made, err
}

// stream is a call that gives bytes.
func (c *Container) stream(ctx context.Context, call func(*C.coracle, text, *C.coracle_op) (*C.coracle_stream, error)) (*Body, error) {
	var made *C.coracle_stream
	err := c.does(ctx, func(engine *C.coracle, id text, op *C.coracle_op) (err error) {
		made, err = call(engine, id, op)
		return err
	})
	if err != nil {
		return nil, err
	}
	return newBody(made), nil
}
