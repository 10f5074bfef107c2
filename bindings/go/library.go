package coracle

/*
#cgo pkg-config: coracle
#include <coracle.h>
#include <stdlib.h>
*/
import "C"

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"
	"unsafe"
)

// Code is the coarse reason of an error, as the C interface has it. A Code is an error for errors.Is.
type Code int32

// The codes of errors.
const (
	ErrInvalid      Code = numEinvalid
	ErrUnauthorized Code = numEunauthorized
	ErrForbidden    Code = numEforbidden
	ErrNotFound     Code = numEnotFound
	ErrConflict     Code = numEconflict
	ErrInternal     Code = numEinternal
	ErrUnsupported  Code = numEunsupported
	ErrUnavailable  Code = numEunavailable
	ErrIO           Code = numEio
	ErrNoMemory     Code = numEnomem
	ErrTimeout      Code = numEtimeout
	ErrCancelled    Code = numEcancelled
	ErrCallback     Code = numEcallback
	ErrForked       Code = numEforked
	ErrPanic        Code = numEpanic
	ErrMisuse       Code = numEmisuse
	ErrCorrupt      Code = numEcorrupt
)

// String is the name of a code, such as "NOT_FOUND".
func (c Code) String() string { return rawStatusName(int32(c)) }

// Error makes a Code a target of errors.Is.
func (c Code) Error() string {
	return "coracle: " + strings.ToLower(strings.ReplaceAll(c.String(), "_", " "))
}

// Error is an error of the engine.
type Error struct {
	// Code is the coarse reason.
	Code Code
	// Status is the HTTP status of such an error.
	Status int
	// Errno is the kernel's number if the kernel refused, else 0.
	Errno syscall.Errno
	// Area is the part of the engine that failed, or "".
	Area string
	// Message is one line for people.
	Message string
	// Field is the path of the member of a document that is wrong, such as HostConfig.Memory, or "".
	Field string
	// Detail has more for programs.
	Detail map[string]any
	// cause is the context's error, or the error of the caller's own reader or progress function.
	cause error
}

// Error is the message.
func (e *Error) Error() string { return e.Message }

// Is tells whether target is the error's code.
func (e *Error) Is(target error) bool {
	code, ok := target.(Code)
	return ok && code == e.Code
}

// Unwrap gives the error behind it: of the context, of the caller's own function, of the kernel.
func (e *Error) Unwrap() []error {
	var all []error
	if e.cause != nil {
		all = append(all, e.cause)
	}
	if e.Errno != 0 {
		all = append(all, e.Errno)
	}
	return all
}

// Timeout makes the error one of net.Error's kind.
func (e *Error) Timeout() bool { return e.Code == ErrTimeout }

// failure is the error of a call, whose error object is freed.
func failure(status int64, failed *C.coracle_error) error {
	if status >= 0 {
		return nil
	}
	if failed == nil {
		return refused(Code(status), Code(status).String())
	}
	defer rawErrorFree(failed)
	made := &Error{
		Code:    Code(rawErrorCode(failed)),
		Status:  int(rawErrorHttpStatus(failed)),
		Errno:   syscall.Errno(rawErrorErrno(failed)),
		Area:    rawErrorArea(failed),
		Message: rawErrorMessage(failed),
	}
	// Only an object has members for programs.
	if json.Unmarshal([]byte(rawErrorDetail(failed)), &made.Detail) == nil {
		made.Field, _ = made.Detail["field"].(string)
	}
	return made
}

// refused is an error of this package's own.
func refused(code Code, format string, arguments ...any) *Error {
	status := 500
	if code == ErrInvalid {
		status = 400
	}
	return &Error{Code: code, Status: status, Message: fmt.Sprintf(format, arguments...)}
}

// text is a string for the library, or NULL.
type text struct {
	value string
	given bool
}

func given(value string) text    { return text{value, true} }
func optional(value string) text { return text{value, value != ""} }

func (t text) c() *C.char {
	if !t.given {
		return nil
	}
	return C.CString(t.value)
}

// whole refuses texts that C would cut.
func whole(texts ...text) error {
	for _, one := range texts {
		if strings.ContainsRune(one.value, 0) {
			return refused(ErrInvalid, "a text has a NUL in it: %q", one.value)
		}
	}
	return nil
}

// takeText copies a string that the library gave, and frees the string.
func takeText(given *C.char) string {
	if given == nil {
		return ""
	}
	defer C.coracle_free(unsafe.Pointer(given))
	return C.GoString(given)
}

// M is a document, or a part of one.
type M = map[string]any

// document is a value as a document for the library, which gets NULL for nil.
func document(value any) (text, error) {
	if value == nil {
		return text{}, nil
	}
	made, err := json.Marshal(value)
	if err != nil {
		return text{}, refused(ErrInvalid, "a document cannot be written: %v", err)
	}
	return given(string(made)), nil
}

// Document is a JSON document that came out of the engine.
type Document json.RawMessage

// Decode reads the document into a value, as json.Unmarshal does.
func (d Document) Decode(into any) error { return json.Unmarshal(d, into) }

// MarshalJSON gives the document as it is.
func (d Document) MarshalJSON() ([]byte, error) { return json.RawMessage(d).MarshalJSON() }

// String is the document's text.
func (d Document) String() string { return string(d) }

// decoded is a document in Go's form.
func decoded[T any](answer string, problem error) (T, error) {
	var value T
	if problem != nil {
		return value, problem
	}
	return value, json.Unmarshal([]byte(answer), &value)
}

// Version is the library's version.
func Version() string { return rawVersionString() }

// VersionNumber is the library's version as a number: major<<16 | minor<<8 | patch.
func VersionNumber() uint32 { return rawVersion() }

// BuildInfo describes how the library was built.
func BuildInfo() Document { return Document(rawBuildInfo()) }

// HasFeature tells whether the library has a feature, such as "registry" or "leases".
func HasFeature(name string) bool {
	return whole(given(name)) == nil && rawHasFeature(given(name)) == 1
}

// Done is the error of a stream that has ended, or of events that have reached their end.
var Done = io.EOF

// isEnd tells whether an error is the end of a stream.
func isEnd(err error) bool { return errors.Is(err, io.EOF) }
