package coracle

/*
#include <coracle.h>
*/
import "C"

import (
	"context"
	"io"
	"os"
	"runtime"
)

// Images are the images of an engine.
type Images struct{ engine *Engine }

// ImageListOptions says which images a list has.
type ImageListOptions struct {
	// All: also images in between.
	All     bool                `json:"all,omitempty"`
	Filters map[string][]string `json:"filters,omitempty"`
}

// List lists images, newest first: the documents of GET /images/json.
func (s Images) List(_ context.Context, options ImageListOptions) ([]Document, error) {
	defer runtime.KeepAlive(s.engine)
	query, err := document(options)
	if err != nil {
		return nil, err
	}
	_, answer, err := rawImageList(s.engine.pointer, query)
	return documents(answer, err)
}

// Inspect describes an image in full: the document of GET /images/{name}/json.
func (s Images) Inspect(_ context.Context, ref string) (Document, error) {
	defer runtime.KeepAlive(s.engine)
	_, answer, err := rawImageInspect(s.engine.pointer, given(ref))
	return Document(answer), err
}

// History lists the steps by which an image was made, newest first.
func (s Images) History(_ context.Context, ref string) ([]Document, error) {
	defer runtime.KeepAlive(s.engine)
	_, answer, err := rawImageHistory(s.engine.pointer, given(ref))
	return documents(answer, err)
}

// Tag gives an image another name.
func (s Images) Tag(_ context.Context, ref, name string) error {
	defer runtime.KeepAlive(s.engine)
	_, err := rawImageTag(s.engine.pointer, given(ref), given(name))
	return err
}

// ImageRemoveOptions says how an image is removed.
type ImageRemoveOptions struct {
	// Force untags, whatever stopped container uses the image.
	Force bool
	// NoPrune keeps untagged parents.
	NoPrune bool
}

// Removal is a name that is gone, or an image.
type Removal struct{ Untagged, Deleted string }

// Remove removes a name of an image and, if nothing else holds the image, deletes it.
func (s Images) Remove(ctx context.Context, ref string, options ImageRemoveOptions) ([]Removal, error) {
	defer runtime.KeepAlive(s.engine)
	var flags uint64
	if options.Force {
		flags |= numImageRemoveForce
	}
	if options.NoPrune {
		flags |= numImageRemoveNoPrune
	}
	return asked[[]Removal](ctx, nil, func(op *C.coracle_op) (string, error) {
		_, answer, err := rawImageRemove(s.engine.pointer, given(ref), flags, op)
		return answer, err
	})
}

// Prune removes images that nothing uses: those without a name, or all with the filter dangling=false.
func (s Images) Prune(ctx context.Context, filters map[string][]string) (Document, error) {
	made, err := filtering(filters)
	if err != nil {
		return nil, err
	}
	return s.engine.document(ctx, nil, func(op *C.coracle_op) (string, error) {
		_, answer, err := rawImagePrune(s.engine.pointer, made, op)
		return answer, err
	})
}

// PruneCaches removes the caches of builds that no step uses.
func (s Images) PruneCaches(ctx context.Context, filters map[string][]string) (Document, error) {
	made, err := filtering(filters)
	if err != nil {
		return nil, err
	}
	return s.engine.document(ctx, nil, func(op *C.coracle_op) (string, error) {
		_, answer, err := rawBuildPrune(s.engine.pointer, made, op)
		return answer, err
	})
}

// Load loads every image of an archive (docker save, OCI layout; plain or compressed): their names.
func (s Images) Load(ctx context.Context, archive io.Reader, progress ProgressFunc) ([]string, error) {
	defer runtime.KeepAlive(s.engine)
	return asked[[]string](ctx, progress, func(op *C.coracle_op) (answer string, err error) {
		err = reading(archive, func(read C.coracle_read_fn, user uintptr) (err error) {
			_, answer, err = rawImageLoad(s.engine.pointer, read, user, op)
			return err
		})
		return answer, err
	})
}

// Save writes images as an archive; layout: "docker" or "oci".
func (s Images) Save(ctx context.Context, layout string, names ...string) (*Body, error) {
	defer runtime.KeepAlive(s.engine)
	which, err := document(M{"names": list(names), "layout": layout})
	if err != nil {
		return nil, err
	}
	var made *C.coracle_stream
	err = during(ctx, nil, func(op *C.coracle_op) (err error) {
		_, made, err = rawImageSave(s.engine.pointer, which, op)
		return err
	})
	if err != nil {
		return nil, err
	}
	return newBody(made), nil
}

// ImageImportOptions says how an image is made of a root file system.
type ImageImportOptions struct {
	Repo    string `json:"repo,omitempty"`
	Tag     string `json:"tag,omitempty"`
	Message string `json:"message,omitempty"`
	// Changes are build instructions.
	Changes []string `json:"changes,omitempty"`
	// URL has the archive, in place of a reader.
	URL string `json:"url,omitempty"`
	// Progress gets the records.
	Progress ProgressFunc `json:"-"`
}

// Import makes an image of a tar of a root file system: its id.
func (s Images) Import(ctx context.Context, archive io.Reader, options ImageImportOptions) (string, error) {
	query, err := document(options)
	if err != nil {
		return "", err
	}
	return s.made(ctx, options.Progress, archive, func(read C.coracle_read_fn, user uintptr, op *C.coracle_op) (string, error) {
		_, id, err := rawImageImport(s.engine.pointer, query, read, user, op)
		return id, err
	})
}

// made is a call that reads an archive and gives an id.
func (s Images) made(ctx context.Context, progress ProgressFunc, archive io.Reader,
	call func(C.coracle_read_fn, uintptr, *C.coracle_op) (string, error)) (id string, err error) {
	defer runtime.KeepAlive(s.engine)
	err = during(ctx, progress, func(op *C.coracle_op) error {
		return reading(archive, func(read C.coracle_read_fn, user uintptr) (err error) {
			id, err = call(read, user, op)
			return err
		})
	})
	return id, err
}

// Build builds an image of a context, a tar, plain or compressed: its id.
//
// query has the parameters of POST /build by their names: "t" (names), "dockerfile", "buildargs", ...
func (s Images) Build(ctx context.Context, archive io.Reader, query any, progress ProgressFunc) (string, error) {
	which, err := document(query)
	if err != nil {
		return "", err
	}
	return s.made(ctx, progress, archive, func(read C.coracle_read_fn, user uintptr, op *C.coracle_op) (string, error) {
		_, id, err := rawImageBuild(s.engine.pointer, which, read, user, op)
		return id, err
	})
}

// BuildDir builds an image of a directory, without a tar of it: its id; query as of Build.
func (s Images) BuildDir(ctx context.Context, directory string, query any, progress ProgressFunc) (string, error) {
	defer runtime.KeepAlive(s.engine)
	which, err := document(query)
	if err != nil {
		return "", err
	}
	file, err := os.Open(directory)
	if err != nil {
		return "", err
	}
	defer file.Close()
	var id string
	err = during(ctx, progress, func(op *C.coracle_op) (err error) {
		_, id, err = rawImageBuildDir(s.engine.pointer, which, int32(file.Fd()), op)
		return err
	})
	return id, err
}

// Auth is the credentials for a registry; nil: none.
type Auth struct {
	Username      string `json:"username,omitempty"`
	Password      string `json:"password,omitempty"`
	IdentityToken string `json:"identitytoken,omitempty"`
	RegistryToken string `json:"registrytoken,omitempty"`
	// ServerAddress names the registry, for CheckLogin.
	ServerAddress string `json:"serveraddress,omitempty"`
}

func (a *Auth) document() (text, error) {
	if a == nil {
		return text{}, nil
	}
	return document(a)
}

// Pull pulls an image from its registry: its id.
func (s Images) Pull(ctx context.Context, ref string, auth *Auth, progress ProgressFunc) (string, error) {
	return s.pull(ctx, auth, progress, func(credentials text, op *C.coracle_op) (id string, err error) {
		_, id, err = rawImagePull(s.engine.pointer, given(ref), credentials, op)
		return id, err
	})
}

// PullPlatform pulls the image of a platform, such as "linux/arm64", from its registry: its id. An empty platform is this machine's.
func (s Images) PullPlatform(ctx context.Context, ref, platform string, auth *Auth, progress ProgressFunc) (string, error) {
	if platform == "" {
		return s.Pull(ctx, ref, auth, progress)
	}
	return s.pull(ctx, auth, progress, func(credentials text, op *C.coracle_op) (id string, err error) {
		_, id, err = rawImagePullPlatform(s.engine.pointer, given(ref), given(platform), credentials, op)
		return id, err
	})
}

func (s Images) pull(
	ctx context.Context, auth *Auth, progress ProgressFunc, call func(text, *C.coracle_op) (string, error),
) (string, error) {
	defer runtime.KeepAlive(s.engine)
	credentials, err := auth.document()
	if err != nil {
		return "", err
	}
	var id string
	err = during(ctx, progress, func(op *C.coracle_op) (err error) {
		id, err = call(credentials, op)
		return err
	})
	return id, err
}

// Pushed is the manifest that a registry has now.
type Pushed struct {
	Tag, Digest string
	Size        int64
}

// Push pushes an image to the registry that its name says.
func (s Images) Push(ctx context.Context, ref string, auth *Auth, progress ProgressFunc) (Pushed, error) {
	defer runtime.KeepAlive(s.engine)
	credentials, err := auth.document()
	if err != nil {
		return Pushed{}, err
	}
	return asked[Pushed](ctx, progress, func(op *C.coracle_op) (string, error) {
		_, answer, err := rawImagePush(s.engine.pointer, given(ref), credentials, op)
		return answer, err
	})
}

// SearchOptions says what a search looks for.
type SearchOptions struct {
	Term    string              `json:"term"`
	Limit   int                 `json:"limit,omitempty"`
	Filters map[string][]string `json:"filters,omitempty"`
	Auth    *Auth               `json:"-"`
}

// Found is an image that a registry has.
type Found struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	Official    bool   `json:"is_official"`
	Stars       int    `json:"star_count"`
}

// Search searches a registry for images.
func (s Images) Search(ctx context.Context, options SearchOptions) ([]Found, error) {
	defer runtime.KeepAlive(s.engine)
	query, err := document(options)
	if err != nil {
		return nil, err
	}
	credentials, err := options.Auth.document()
	if err != nil {
		return nil, err
	}
	return asked[[]Found](ctx, nil, func(op *C.coracle_op) (string, error) {
		_, answer, err := rawImageSearch(s.engine.pointer, query, credentials, op)
		return answer, err
	})
}

// InspectRemote asks a registry for an image's manifest, without a pull.
func (s Images) InspectRemote(ctx context.Context, ref string, auth *Auth) (Document, error) {
	credentials, err := auth.document()
	if err != nil {
		return nil, err
	}
	return s.engine.document(ctx, nil, func(op *C.coracle_op) (string, error) {
		_, answer, err := rawRegistryInspect(s.engine.pointer, given(ref), credentials, op)
		return answer, err
	})
}

// CheckLogin asks a registry whether credentials, any document with its "serveraddress", are good.
func (s Images) CheckLogin(ctx context.Context, auth any) (Document, error) {
	credentials, err := document(auth)
	if err != nil {
		return nil, err
	}
	return s.engine.document(ctx, nil, func(op *C.coracle_op) (string, error) {
		_, answer, err := rawRegistryAuth(s.engine.pointer, credentials, op)
		return answer, err
	})
}
