// Package api answers the swarm's part of the engine's HTTP API, by the swarm's control API.
package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"coracle.dev/swarm/engine"
	"coracle.dev/swarm/node"
	"coracle.dev/swarm/refusal"
	"github.com/moby/swarmkit/v2/api"
)

// longestBody bounds a request: raft takes 1.5 MB in one write, and JSON is larger than what is written.
const longestBody = 4 << 20

// Server answers requests for one member.
type Server struct {
	member *node.Member
	engine *engine.Engine
	routes *http.ServeMux
	// left is called after the member left its swarm.
	left func()
}

// New is a server for a member; left is called after the member left its swarm.
func New(member *node.Member, engine *engine.Engine, left func()) *Server {
	made := &Server{member, engine, http.NewServeMux(), left}
	for pattern, answer := range map[string]answer{
		"GET /member":                made.info,
		"GET /swarm":                 made.inspect,
		"POST /swarm/init":           made.init,
		"POST /swarm/join":           made.join,
		"POST /swarm/leave":          made.leave,
		"POST /swarm/update":         made.update,
		"GET /nodes":                 made.nodes,
		"GET /nodes/{id}":            made.node,
		"POST /nodes/{id}/update":    made.updateNode,
		"DELETE /nodes/{id}":         made.removeNode,
		"GET /services":              made.services,
		"POST /services/create":      made.createService,
		"GET /services/{id}":         made.service,
		"POST /services/{id}/update": made.updateService,
		"DELETE /services/{id}":      made.removeService,
		"GET /networks/{id}":         made.network,
		"GET /tasks":                 made.tasks,
		"GET /tasks/{id}":            made.task,
	} {
		made.routes.HandleFunc(pattern, made.routed(answer))
	}
	made.routes.HandleFunc("/", made.routed(func(*call) (reply, error) {
		return reply{}, made.need("this part of swarm mode is not built yet: secrets, configs, cluster volumes")
	}))
	return made
}

// call is a request of a client.
type call struct {
	context.Context
	version version
	query   url.Values
	// id is the name in the path.
	id   string
	body []byte
	auth string
}

// reply is an answer; document nil: it has no body.
type reply struct {
	status   int
	document any
}

type answer func(*call) (reply, error)

func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	prefix, rest, ok := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	asked, err := parseVersion(prefix)
	if !ok || err != nil {
		write(w, http.StatusBadRequest, fail{"the path has no version of the API"})
		return
	}
	r.URL.Path = "/" + rest
	s.routes.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), versionKey{}, asked)))
}

func (s *Server) routed(made answer) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		asked := r.Context().Value(versionKey{}).(version)
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, longestBody))
		if err != nil {
			write(w, http.StatusBadRequest, fail{fmt.Sprintf("the request body has more than %d bytes, or is cut off: %s", longestBody, err)})
			return
		}
		answer, err := made(&call{r.Context(), asked, r.URL.Query(), r.PathValue("id"), body, r.Header.Get("X-Registry-Auth")})
		if err != nil {
			write(w, refusal.Status(err, asked.isSpecified()), fail{err.Error()})
			return
		}
		write(w, answer.status, answer.document)
	}
}

type fail struct {
	Message string `json:"message"`
}

// write sends a document with its length, by which the other side sees whether it has all of it.
func write(w http.ResponseWriter, status int, document any) {
	var text []byte
	if document != nil {
		var err error
		if text, err = json.Marshal(document); err != nil {
			status, text = http.StatusInternalServerError, []byte(`{"message":"the answer cannot be written as JSON"}`)
		}
		text = append(text, '\n')
		w.Header().Set("Content-Type", "application/json")
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(text)))
	w.WriteHeader(status)
	w.Write(text)
}

// managers calls the managers.
func (s *Server) managers(c *call, ask func(context.Context, api.ControlClient) error) error {
	return s.member.Managers(c, ask)
}

// need refuses what is not built; outside of a swarm and on workers in the words for that.
func (s *Server) need(text string) error {
	err := s.member.Managers(context.Background(), func(context.Context, api.ControlClient) error { return nil })
	if err != nil {
		return err
	}
	return refusal.Unbuilt("%s", text)
}

// read reads the request's document.
func (c *call) read(document any) error {
	if len(strings.TrimSpace(string(c.body))) == 0 {
		return refusal.Invalid("got EOF while reading request body")
	}
	err := json.Unmarshal(c.body, document)
	var mismatch *json.UnmarshalTypeError
	switch {
	case errors.As(err, &mismatch):
		return refusal.Invalid("invalid JSON: %s: cannot take a JSON %s for a %s", mismatch.Field, mismatch.Value, mismatch.Type)
	case err != nil:
		return refusal.Invalid("invalid JSON: %s", err)
	}
	return nil
}

// index reads the parameter version: the index of the object's last change.
func (c *call) index(noun string) (*api.Version, error) {
	text := c.query.Get("version")
	index, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return nil, refusal.Invalid("invalid %s version '%s': %v", noun, text, err)
	}
	return &api.Version{Index: index}, nil
}

// flag reads a parameter that is a truth value; absent: false.
func (c *call) flag(name string) (bool, error) {
	text := c.query.Get(name)
	if text == "" {
		return false, nil
	}
	value, err := strconv.ParseBool(text)
	if err != nil {
		return false, refusal.Invalid("invalid value for %s: %s", name, text)
	}
	return value, nil
}

// truth reads a parameter in the way of the engine's own API, where every other word is true.
func (c *call) truth(name string) bool {
	text := strings.ToLower(strings.TrimSpace(c.query.Get(name)))
	return text != "" && text != "0" && text != "no" && text != "false" && text != "none"
}

type versionKey struct{}

// version is a version of the API: 1.24 is 24.
type version int

func parseVersion(prefix string) (version, error) {
	minor, err := strconv.Atoi(strings.TrimPrefix(prefix, "v1."))
	return version(minor), err
}

// isSpecified tells whether the version is one of the contract.
func (v version) isSpecified() bool { return v < 25 }
