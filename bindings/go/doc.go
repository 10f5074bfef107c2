// Package coracle runs containers in process: no daemon, no helper programs, no socket.
//
//	engine, err := coracle.Open("/var/lib/app/containers", nil)
//	if err != nil {
//		return err
//	}
//	defer engine.Close()
//	container, err := engine.Containers.Create(ctx, "", coracle.M{"Image": "busybox", "Cmd": []string{"echo", "hello"}})
//
// A call that may last takes a context: the call ends when the context is cancelled or its deadline passes, and its error then
// is the context's error, too (errors.Is(err, context.Canceled)). An error of the engine is an *Error with the code, the HTTP status
// and the field that is wrong; errors.Is(err, coracle.ErrNotFound) asks for the code.
//
// A document that goes in is any value that encoding/json writes with the members of the Docker API: an M, a struct of your own, a
// struct of a Docker client, a json.RawMessage. A document that comes out is a Document.
//
// Waits and events use Go's poller, so that they take no thread. Any other call that blocks takes one.
//
// The package links the C library by pkg-config (coracle.pc), so it needs cgo, and libcoracle with its header.
package coracle
