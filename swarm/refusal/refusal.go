// Package refusal has the errors that a client of the API gets, and their statuses.
package refusal

import (
	"errors"
	"fmt"
	"net/http"

	"coracle.dev/swarm/engine"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Kind is what an error is about.
type Kind int

// The kinds of errors.
const (
	// KindInvalid: the request is wrong.
	KindInvalid Kind = iota
	// KindMissing: the object does not exist.
	KindMissing
	// KindForbidden: the object is not for this use.
	KindForbidden
	// KindUnbuilt: this program cannot do it.
	KindUnbuilt
	// KindState: the node is not in the state that the request needs, such as a manager's.
	KindState
)

// Refusal is an error with a kind.
type Refusal struct {
	Kind Kind
	Text string
}

func (r *Refusal) Error() string { return r.Text }

func made(kind Kind, text string, values []any) error {
	return &Refusal{kind, fmt.Sprintf(text, values...)}
}

// Invalid refuses a wrong request.
func Invalid(text string, values ...any) error { return made(KindInvalid, text, values) }

// Missing refuses a request for an object that does not exist.
func Missing(text string, values ...any) error { return made(KindMissing, text, values) }

// Forbidden refuses a use that an object is not for.
func Forbidden(text string, values ...any) error { return made(KindForbidden, text, values) }

// Unbuilt refuses what this program cannot do.
func Unbuilt(text string, values ...any) error { return made(KindUnbuilt, text, values) }

// State refuses what a node in another state could do.
func State(text string, values ...any) error { return made(KindState, text, values) }

// byCode has the statuses of the control API's codes; all others are 500.
var byCode = map[codes.Code]int{
	codes.InvalidArgument:    http.StatusBadRequest,
	codes.FailedPrecondition: http.StatusBadRequest,
	codes.NotFound:           http.StatusNotFound,
	codes.AlreadyExists:      http.StatusConflict,
	codes.PermissionDenied:   http.StatusForbidden,
	codes.Unimplemented:      http.StatusNotImplemented,
}

// Status is the HTTP status of an error. A state is 406 for clients of the specified versions (to 1.24), and 503 for later ones.
func Status(err error, specified bool) int {
	var refused *Refusal
	var failed *engine.Failure
	switch {
	case errors.As(err, &refused):
		switch refused.Kind {
		case KindInvalid:
			return http.StatusBadRequest
		case KindMissing:
			return http.StatusNotFound
		case KindForbidden:
			return http.StatusForbidden
		case KindUnbuilt:
			return http.StatusNotImplemented
		}
		if specified {
			return http.StatusNotAcceptable
		}
		return http.StatusServiceUnavailable
	case errors.As(err, &failed):
		return failed.Status
	}
	if answer, ok := status.FromError(err); ok {
		if found, ok := byCode[answer.Code()]; ok {
			return found
		}
	}
	return http.StatusInternalServerError
}
