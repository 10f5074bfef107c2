package coracle

/*
#include <coracle.h>
*/
import "C"

import (
	"context"
	"net"
	"net/http"
	"os"
	"runtime"
	"sync"
	"time"
)

// Response is an answer of the HTTP API.
type Response struct {
	Status int
	// Body is to be closed.
	Body *Body
}

// Request answers a request of the HTTP API in process; a status that reports a failure is an answer, too.
func (e *Engine) Request(ctx context.Context, method, target string, headers map[string]string, body []byte) (*Response, error) {
	defer runtime.KeepAlive(e)
	var lines text
	if headers != nil {
		var err error
		if lines, err = document(headers); err != nil {
			return nil, err
		}
	}
	var status int32
	var stream *C.coracle_stream
	err := during(ctx, nil, func(op *C.coracle_op) (err error) {
		_, status, stream, err = rawHttpRequest(e.pointer, given(method), given(target), lines, body, op)
		return err
	})
	if err != nil {
		return nil, err
	}
	return &Response{int(status), newBody(stream)}, nil
}

// Dial opens a private connection that speaks the HTTP API: no listening socket, no path, no port.
func (e *Engine) Dial(ctx context.Context) (net.Conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, ofContext(err)
	}
	defer runtime.KeepAlive(e)
	_, fd, err := rawHttpConnect(e.pointer)
	if err != nil {
		return nil, err
	}
	file := os.NewFile(uintptr(fd), "coracle")
	// The connection has a duplicate.
	defer file.Close()
	return net.FileConn(file)
}

// DialContext is Dial with the arguments of net.Dialer.DialContext, which are passed over: for clients that take such a function.
func (e *Engine) DialContext(ctx context.Context, _, _ string) (net.Conn, error) { return e.Dial(ctx) }

// Transport is an http.RoundTripper over private connections of the engine: the host of a URL is passed over.
func (e *Engine) Transport() *http.Transport {
	return &http.Transport{DialContext: e.DialContext, DisableCompression: true, IdleConnTimeout: 30 * time.Second}
}

// ServeOptions says where the HTTP API is served to others.
type ServeOptions struct {
	// Addresses are "unix:///path" or "tcp://IP:PORT".
	Addresses []string
	// Files are sockets that listen already; the server takes duplicates.
	Files []*os.File `json:"-"`
	// InsecureTcp serves TCP without TLS: each client that reaches the port is root here.
	InsecureTcp bool
	// HostNames are names that requests over TCP may give as Host.
	HostNames []string
}

// Server serves the HTTP API to others, on a thread of the library, until Close or the end of the program: also if the program keeps
// no reference to it.
type Server struct{ pointer *C.coracle_http_server }

// servers are those that serve, so that the garbage collector finds none.
var servers sync.Map

// Serve begins to serve the HTTP API.
func (e *Engine) Serve(options ServeOptions) (*Server, error) {
	defer runtime.KeepAlive(e)
	options.Addresses, options.HostNames = list(options.Addresses), list(options.HostNames)
	made, err := document(options)
	if err != nil {
		return nil, err
	}
	fds := make([]int32, len(options.Files))
	for i, file := range options.Files {
		fds[i] = int32(file.Fd())
	}
	_, pointer, err := rawHttpServe(e.pointer, made, fds)
	if err != nil {
		return nil, err
	}
	server := &Server{pointer}
	servers.Store(server, true)
	return server, nil
}

// Addresses lists the addresses of the server, with the ports that were chosen.
func (s *Server) Addresses() ([]string, error) {
	defer runtime.KeepAlive(s)
	_, answer, err := rawHttpServerAddresses(s.pointer)
	return decoded[[]string](answer, err)
}

// Shutdown ends serving; answers under way have grace to come to their end.
func (s *Server) Shutdown(ctx context.Context, grace time.Duration) error {
	defer runtime.KeepAlive(s)
	return during(ctx, nil, func(op *C.coracle_op) error {
		_, err := rawHttpServerShutdown(s.pointer, grace.Milliseconds(), op)
		return err
	})
}

// Close ends the server, without grace.
func (s *Server) Close() error {
	if _, open := servers.LoadAndDelete(s); open {
		rawHttpServerFree(s.pointer)
	}
	return nil
}
