package engine

import (
	"context"
	"encoding/json"
	"net"

	coracle "coracle.dev/go"
)

// Library opens a root by libcoracle in this process. The function that it gives closes the root; the containers run on.
// The configuration has the members of the library's open configuration; nil is the defaults.
func Library(root, runDir string, config json.RawMessage) (*Engine, func(), error) {
	options := &coracle.OpenOptions{RunDir: runDir, Existing: true}
	if config != nil {
		options.Config = config
	}
	opened, err := coracle.Open(root, options)
	if err != nil {
		return nil, nil, err
	}
	return New(opened.Dial), func() { opened.Close() }, nil
}

// Socket is the engine that serves at the path of a socket.
func Socket(path string) *Engine {
	return New(func(ctx context.Context) (net.Conn, error) {
		var dialer net.Dialer
		return dialer.DialContext(ctx, "unix", path)
	})
}
