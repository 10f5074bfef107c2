package coracle

/*
#include <coracle.h>
#include <stdlib.h>
*/
import "C"

import (
	"context"
	"os"
	"runtime"
	"unsafe"
)

// OpenOptions says how a root is opened; the zero value is the defaults.
type OpenOptions struct {
	// RunDir is a directory on tmpfs for data that a reboot ends; "": one under /run/coracle.
	RunDir string
	// Config has members such as "durability", "log-driver", "labels", "insecure-registries": the header lists them.
	Config any
	// Existing: no new root is made.
	Existing bool
	// Lenient: unknown members of documents are passed over, and named by the warnings of answers.
	Lenient bool
	// Ephemeral: containers that are created by this engine end when it is closed or the program ends.
	Ephemeral bool
}

// c is the options in C's form, and the function that frees them.
func (o *OpenOptions) c(root string) (*C.coracle_open_options, func(), error) {
	if o == nil {
		o = &OpenOptions{}
	}
	config, err := document(o.Config)
	if err != nil {
		return nil, nil, err
	}
	run := optional(o.RunDir)
	if err = whole(given(root), run, config); err != nil {
		return nil, nil, err
	}
	made := &C.coracle_open_options{size: C.size_t(unsafe.Sizeof(C.coracle_open_options{})), run_dir: run.c(), config_json: config.c()}
	for _, flag := range []struct {
		set  bool
		flag C.uint64_t
	}{{o.Existing, numOpenExisting}, {o.Lenient, numOpenLenient}, {o.Ephemeral, numOpenEphemeral}} {
		if flag.set {
			made.flags |= flag.flag
		}
	}
	return made, func() {
		C.free(unsafe.Pointer(made.run_dir))
		C.free(unsafe.Pointer(made.config_json))
	}, nil
}

// Engine is an opened root, for any number of goroutines. Closing it leaves its containers running.
type Engine struct {
	pointer *C.coracle
	// Containers, Images, Volumes, Networks and Plugins are those of the root.
	Containers Containers
	Images     Images
	Volumes    Volumes
	Networks   Networks
	Plugins    Plugins
}

func opened(pointer *C.coracle) *Engine {
	made := &Engine{pointer: pointer}
	made.Containers.engine, made.Images.engine, made.Volumes.engine, made.Networks.engine = made, made, made, made
	made.Plugins.engine = made
	// A forgotten engine ends with its object.
	runtime.SetFinalizer(made, func(e *Engine) { e.Close() })
	return made
}

// Open opens a root, a directory, and makes it if it is not there.
func Open(root string, options *OpenOptions) (*Engine, error) {
	made, free, err := options.c(root)
	if err != nil {
		return nil, err
	}
	defer free()
	_, pointer, err := rawOpen(given(root), made)
	if err != nil {
		return nil, err
	}
	return opened(pointer), nil
}

// HostReport describes everything that an engine needs of the host; it opens nothing.
func HostReport(root string, options *OpenOptions) (Document, error) {
	made, free, err := options.c(root)
	if err != nil {
		return nil, err
	}
	defer free()
	_, report, err := rawHostReport(given(root), made)
	return Document(report), err
}

// Close ends the engine's handle. Containers run on; sessions, streams and events that came from it stay valid.
func (e *Engine) Close() error {
	// The library knows its handles: a call with one that ended is ErrMisuse.
	runtime.SetFinalizer(e, nil)
	rawClose(e.pointer)
	return nil
}

// Again gives another handle of the same engine, which stays open when this one is closed.
func (e *Engine) Again() (*Engine, error) {
	defer runtime.KeepAlive(e)
	pointer := rawRef(e.pointer)
	if pointer == nil {
		return nil, refused(ErrMisuse, "the engine is closed")
	}
	return opened(pointer), nil
}

// Info describes the engine and the host: the document of GET /info.
func (e *Engine) Info(ctx context.Context) (Document, error) {
	return e.document(ctx, nil, func(op *C.coracle_op) (string, error) {
		_, answer, err := rawEngineInfo(e.pointer, op)
		return answer, err
	})
}

// Version has the versions of the library, the API and the kernel.
func (e *Engine) Version() (Document, error) {
	defer runtime.KeepAlive(e)
	_, answer, err := rawEngineVersion(e.pointer)
	return Document(answer), err
}

// DiskUsage counts the bytes that images, containers and volumes take; kinds: "image", "container", "volume"; none: all.
func (e *Engine) DiskUsage(ctx context.Context, kinds ...string) (Document, error) {
	query, err := document(M{"type": list(kinds)})
	if err != nil {
		return nil, err
	}
	return e.document(ctx, nil, func(op *C.coracle_op) (string, error) {
		_, answer, err := rawEngineDiskUsage(e.pointer, query, op)
		return answer, err
	})
}

// Metrics counts the root's objects, and this engine's work since it was opened.
func (e *Engine) Metrics() (Document, error) {
	defer runtime.KeepAlive(e)
	_, answer, err := rawEngineMetrics(e.pointer)
	return Document(answer), err
}

// Reload replaces the engine's labels, and reports to all followers of events that settings were read again.
func (e *Engine) Reload(labels []string, settings map[string]string) error {
	defer runtime.KeepAlive(e)
	made, err := document(list(labels))
	if err != nil {
		return err
	}
	var more text
	if settings != nil {
		if more, err = document(settings); err != nil {
			return err
		}
	}
	_, err = rawEngineReload(e.pointer, made, more)
	return err
}

// Lease holds a lease: containers with the label "coracle.lease" of that name end when no process has its file open any more.
func (e *Engine) Lease(name string) (*os.File, error) {
	defer runtime.KeepAlive(e)
	_, fd, err := rawLeaseHold(e.pointer, given(name))
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), "lease "+name), nil
}

// VerifyOptions says how a root is verified.
type VerifyOptions struct {
	// Repair puts damage right where that is possible.
	Repair bool
	// Progress gets the records.
	Progress ProgressFunc
}

// Verify reads every layer and image of the store; the member "Damage" of the answer lists damaged ones.
func (e *Engine) Verify(ctx context.Context, options VerifyOptions) (Document, error) {
	query, err := document(M{"repair": options.Repair})
	if err != nil {
		return nil, err
	}
	return e.document(ctx, options.Progress, func(op *C.coracle_op) (string, error) {
		_, answer, err := rawRootVerify(e.pointer, query, op)
		return answer, err
	})
}

// Leftover is a file that could not be removed.
type Leftover struct{ Path, Reason string }

// Leftovers lists files that removals could not remove.
func (e *Engine) Leftovers() ([]Leftover, error) {
	defer runtime.KeepAlive(e)
	_, answer, err := rawRootLeftovers(e.pointer)
	return decoded[[]Leftover](answer, err)
}

// Sweep tries again to remove files that removals left; the answer has those that stay.
func (e *Engine) Sweep(ctx context.Context) ([]Leftover, error) {
	defer runtime.KeepAlive(e)
	return asked[[]Leftover](ctx, nil, func(op *C.coracle_op) (string, error) {
		_, answer, err := rawRootSweep(e.pointer, op)
		return answer, err
	})
}

// CopyOptions says how a root is copied.
type CopyOptions struct {
	// Pause freezes each container while its files are copied.
	Pause bool
	// Progress gets the records.
	Progress ProgressFunc
}

// CopyRoot copies the whole root into a directory that is absent or empty.
func (e *Engine) CopyRoot(ctx context.Context, directory string, options CopyOptions) (Document, error) {
	query, err := document(M{"pause": options.Pause})
	if err != nil {
		return nil, err
	}
	return e.document(ctx, options.Progress, func(op *C.coracle_op) (string, error) {
		_, answer, err := rawRootCopy(e.pointer, given(directory), query, op)
		return answer, err
	})
}

// ImportOptions says where a dockerd's content is.
type ImportOptions struct {
	Directory string   `json:"directory,omitempty"`
	Socket    string   `json:"socket,omitempty"`
	Names     []string `json:"names,omitempty"`
	// Progress gets the records.
	Progress ProgressFunc `json:"-"`
}

// ImportDocker imports images, volumes and stopped containers of a dockerd.
func (e *Engine) ImportDocker(ctx context.Context, options ImportOptions) (Document, error) {
	query, err := document(options)
	if err != nil {
		return nil, err
	}
	return e.document(ctx, options.Progress, func(op *C.coracle_op) (string, error) {
		_, answer, err := rawRootImportDocker(e.pointer, query, op)
		return answer, err
	})
}

// document is a call that gives a document.
func (e *Engine) document(ctx context.Context, progress ProgressFunc, call func(*C.coracle_op) (string, error)) (Document, error) {
	defer runtime.KeepAlive(e)
	var answer Document
	err := during(ctx, progress, func(op *C.coracle_op) error {
		made, err := call(op)
		answer = Document(made)
		return err
	})
	if err != nil {
		return nil, err
	}
	return answer, nil
}

// list is a list that is never null.
func list(texts []string) []string {
	if texts == nil {
		return []string{}
	}
	return texts
}
