package coracle

/*
#include <coracle.h>
*/
import "C"

import (
	"bytes"
	"context"
	"runtime"
)

// Exec is a further process of a container, by its id.
type Exec struct {
	engine *Engine
	// ID is the id.
	ID string
}

// Exec prepares a process of a body of POST /containers/{id}/exec: "Cmd", "AttachStdout", "Tty", ...
func (c *Container) Exec(_ context.Context, body any) (*Exec, error) {
	defer runtime.KeepAlive(c.engine)
	made, err := document(body)
	if err != nil {
		return nil, err
	}
	_, id, err := rawExecCreate(c.engine.pointer, given(c.ID), made)
	if err != nil {
		return nil, err
	}
	return &Exec{c.engine, id}, nil
}

// Exec is the further process of an id; it asks nothing.
func (s Containers) Exec(id string) *Exec { return &Exec{s.engine, id} }

// Start starts the process, detached.
func (x *Exec) Start(ctx context.Context) error {
	_, err := x.start(ctx, nil)
	return err
}

// StartAttached starts the process with its streams in hand.
func (x *Exec) StartAttached(ctx context.Context, io IO) (*Session, error) {
	defer runtime.KeepAlive(io)
	session, err := x.start(ctx, io.c())
	return newSession(session, err)
}

func (x *Exec) start(ctx context.Context, io *C.coracle_io) (session *C.coracle_session, err error) {
	defer runtime.KeepAlive(x.engine)
	err = during(ctx, nil, func(op *C.coracle_op) (err error) {
		_, session, err = rawExecStart(x.engine.pointer, given(x.ID), io, op)
		return err
	})
	return session, err
}

// Wait waits for the process's end: its exit code, 128 + n if signal n ended it.
func (x *Exec) Wait(ctx context.Context) (int, error) {
	defer runtime.KeepAlive(x.engine)
	return waited(ctx, func(op *C.coracle_op) error {
		_, _, err := rawExecWait(x.engine.pointer, given(x.ID), op)
		return err
	})
}

// Inspect describes the process in full: the document of GET /exec/{id}/json.
func (x *Exec) Inspect(context.Context) (Document, error) {
	defer runtime.KeepAlive(x.engine)
	_, answer, err := rawExecInspect(x.engine.pointer, given(x.ID))
	return Document(answer), err
}

// Output is the result of a command in a container.
type Output struct {
	Code           int
	Stdout, Stderr []byte
}

// Run runs a command in the container to its end.
func (c *Container) Run(ctx context.Context, command ...string) (Output, error) {
	var output Output
	made, err := c.Exec(ctx, M{"Cmd": command, "AttachStdout": true, "AttachStderr": true})
	if err != nil {
		return output, err
	}
	session, err := made.StartAttached(ctx, IO{})
	if err != nil {
		return output, err
	}
	defer session.Close()
	var stdout, stderr bytes.Buffer
	if err = session.Communicate(ctx, nil, &stdout, &stderr); err != nil {
		return output, err
	}
	output.Stdout, output.Stderr = stdout.Bytes(), stderr.Bytes()
	output.Code, err = session.Wait(ctx)
	return output, err
}
