// Package engine is the door to the engine: its HTTP API over private connections of libcoracle in this process, or over a socket.
package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
)

// version is the API version that this program speaks.
const version = "v1.41"

// longestError bounds the text of an error that the engine gives.
const longestError = 64 << 10

// Dial makes a connection that speaks the engine's API.
type Dial func(ctx context.Context) (net.Conn, error)

// Engine is an engine that a Dial reaches, for any number of goroutines.
type Engine struct{ client *http.Client }

// New is the engine that dial reaches.
func New(dial Dial) *Engine {
	reach := func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) }
	return &Engine{&http.Client{Transport: &http.Transport{DialContext: reach, DisableCompression: true, MaxIdleConnsPerHost: 16}}}
}

// Failure is an error that the engine answered.
type Failure struct {
	Status  int
	Message string
}

func (f *Failure) Error() string { return f.Message }

// IsMissing tells whether the engine said that an object does not exist.
func IsMissing(err error) bool { return has(err, http.StatusNotFound) }

// IsConflict tells whether the engine said that an object stands in the way.
func IsConflict(err error) bool { return has(err, http.StatusConflict) }

func has(err error, status int) bool {
	var failure *Failure
	return errors.As(err, &failure) && failure.Status == status
}

// Request is one request of the engine's API.
type Request struct {
	Method string
	// Path is without the version, its names escaped.
	Path  string
	Query url.Values
	// Body is sent as JSON, unless it is nil.
	Body    any
	Headers map[string]string
}

// Call makes a request, and reads the document of its answer into answer, unless that is nil.
func (e *Engine) Call(ctx context.Context, request Request, answer any) error {
	body, err := e.Open(ctx, request)
	if err != nil {
		return err
	}
	defer body.Close()
	if answer == nil {
		_, err = io.Copy(io.Discard, body)
		return err
	}
	return json.NewDecoder(body).Decode(answer)
}

// Open makes a request, and gives the body of its answer, which is to be closed.
func (e *Engine) Open(ctx context.Context, request Request) (io.ReadCloser, error) {
	made, err := request.http(ctx)
	if err != nil {
		return nil, err
	}
	answer, err := e.client.Do(made)
	if err != nil {
		// The error of a call that was given up is the context's own.
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, err
	}
	if answer.StatusCode < 300 || answer.StatusCode == http.StatusNotModified {
		return answer.Body, nil
	}
	defer answer.Body.Close()
	return nil, failure(answer)
}

func (r Request) http(ctx context.Context) (*http.Request, error) {
	var body io.Reader
	if r.Body != nil {
		text, err := json.Marshal(r.Body)
		if err != nil {
			return nil, err
		}
		body = bytes.NewReader(text)
	}
	// The host of the address is passed over.
	made, err := http.NewRequestWithContext(ctx, r.Method, "http://engine/"+version+r.Path+"?"+r.Query.Encode(), body)
	if err != nil {
		return nil, err
	}
	if body != nil {
		made.Header.Set("Content-Type", "application/json")
	}
	for name, value := range r.Headers {
		made.Header.Set(name, value)
	}
	return made, nil
}

func failure(answer *http.Response) error {
	text, err := io.ReadAll(io.LimitReader(answer.Body, longestError))
	if err != nil {
		return fmt.Errorf("read the engine's error: %w", err)
	}
	var document struct{ Message string }
	if json.Unmarshal(text, &document) != nil || document.Message == "" {
		document.Message = strings.TrimSpace(string(text))
	}
	return &Failure{answer.StatusCode, document.Message}
}
