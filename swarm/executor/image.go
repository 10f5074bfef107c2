package executor

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"

	"coracle.dev/swarm/engine"
	"coracle.dev/swarm/image"
)

// pull brings the image of a task here. An image that is named by its content, and is here, is not asked for.
func (c *controller) pull(ctx context.Context) error {
	reference := c.task.Spec.GetContainer().Image
	if image.IsContent(reference) && c.has(ctx, reference) {
		return nil
	}
	// A pull without a tag would bring all tags.
	request := engine.Request{Method: http.MethodPost, Path: "/images/create", Query: url.Values{"fromImage": {image.WithTag(reference)}}}
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

func (c *controller) has(ctx context.Context, reference string) bool {
	request := engine.Request{Method: http.MethodGet, Path: "/images/" + reference + "/json"}
	return c.engine.Call(ctx, request, nil) == nil
}
