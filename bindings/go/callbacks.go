package coracle

/*
#include <stdint.h>
#include <stddef.h>
*/
import "C"

import (
	"encoding/json"
	"io"
	"runtime/cgo"
	"unsafe"
)

// told gets the progress records of a call.
type told struct {
	progress func(Progress) error
	refused  error
}

//export coracleGoProgress
func coracleGoProgress(user unsafe.Pointer, record *C.char) C.int32_t {
	if record == nil {
		return 0
	}
	to := (*(*cgo.Handle)(user)).Value().(*told)
	var made Progress
	text := C.GoString(record)
	if json.Unmarshal([]byte(text), &made) != nil {
		// A record of a form that this package does not know.
		made = Progress{}
	}
	made.Record = Document(text)
	if to.refused == nil {
		to.refused = to.progress(made)
	}
	if to.refused != nil {
		return 1
	}
	return 0
}

// source is a reader of the caller's.
type source struct {
	reader io.Reader
	failed error
}

//export coracleGoRead
func coracleGoRead(user unsafe.Pointer, buffer unsafe.Pointer, length C.size_t) C.int64_t {
	from := (*(*cgo.Handle)(user)).Value().(*source)
	room := unsafe.Slice((*byte)(buffer), int(length))
	for {
		count, err := from.reader.Read(room)
		if count > 0 {
			return C.int64_t(count)
		}
		if err == io.EOF {
			return 0
		}
		if err != nil {
			from.failed = err
			return -1
		}
	}
}

//export coracleGoLog
func coracleGoLog(user unsafe.Pointer, level C.int32_t, target *C.char, message *C.char) {
	sink := (*(*cgo.Handle)(user)).Value().(Sink)
	sink(Level(level), C.GoString(target), C.GoString(message))
}

//export coracleGoDrop
func coracleGoDrop(user unsafe.Pointer) { dropCell(user) }
