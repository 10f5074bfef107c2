package executor

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"

	"coracle.dev/swarm/engine"
)

// pull brings the image of a task here. An image that is named by its content, and is here, is not asked for.
func (c *controller) pull(ctx context.Context) error {
	image := c.task.Spec.GetContainer().Image
	if isContent(image) && c.has(ctx, image) {
		return nil
	}
	request := engine.Request{Method: http.MethodPost, Path: "/images/create", Query: url.Values{"fromImage": {withTag(image)}}}
	if login := c.task.Spec.GetContainer().PullOptions; login != nil && login.RegistryAuth != "" {
		request.Headers = map[string]string{"X-Registry-Auth": login.RegistryAuth}
	}
	progress, err := c.engine.Open(ctx, request)
	if err != nil {
		return err
	}
	defer progress.Close()
	return failedPull(progress)
}

// failedPull reads the progress of a pull to its end, and gives its error.
func failedPull(progress io.Reader) error {
	decoder := json.NewDecoder(progress)
	for {
		var record struct{ Error string }
		switch err := decoder.Decode(&record); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case record.Error != "":
			return errors.New(record.Error)
		}
	}
}

func (c *controller) has(ctx context.Context, image string) bool {
	request := engine.Request{Method: http.MethodGet, Path: "/images/" + image + "/json"}
	return c.engine.Call(ctx, request, nil) == nil
}

// isContent tells whether a reference is an id or has a digest.
func isContent(image string) bool { return strings.Contains(image, "sha256:") }

// withTag adds the usual tag to a reference without one: a pull without a tag would bring all tags.
func withTag(image string) string {
	name := image[strings.LastIndexByte(image, '/')+1:]
	if strings.ContainsAny(name, ":@") {
		return image
	}
	return image + ":latest"
}
