package executor

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"coracle.dev/swarm/engine"
	"github.com/moby/swarmkit/v2/agent/exec"
	"github.com/moby/swarmkit/v2/api"
	"github.com/moby/swarmkit/v2/log"
)

// look is the longest time between two looks at a container that is waited for: an event may be lost with a stream.
const look = 30 * time.Second

var (
	errUnhealthy = errors.New("container unhealthy")
	errDestroyed = errors.New("container destroyed")
)

// exitError is the end of a task with a code other than 0, or for a cause.
type exitError struct {
	code  int
	cause error
}

func (e *exitError) Error() string {
	if e.cause != nil {
		return fmt.Sprintf("task: non-zero exit (%d): %s", e.code, e.cause)
	}
	return fmt.Sprintf("task: non-zero exit (%d)", e.code)
}

// ExitCode is the code that the task's status shows.
func (e *exitError) ExitCode() int { return e.code }

func (e *exitError) Unwrap() error { return e.cause }

// controller is the life of one task: prepare, start, wait, shut down, remove.
type controller struct {
	engine    *engine.Engine
	ends      *changes
	task      *api.Task
	container *container

	once   sync.Once
	closed chan struct{}
}

// inspected is what the controller reads of a container.
type inspected struct {
	ID    string `json:"Id"`
	State struct {
		Status        string
		Running       bool
		Pid, ExitCode int
		Error         string
		Health        *struct{ Status string }
	}
	Config          struct{ Labels map[string]string }
	NetworkSettings struct {
		Ports map[string][]struct{ HostIP, HostPort string }
	}
}

func (c *controller) path(rest string) string { return "/containers/" + c.container.name + rest }

func (c *controller) inspect(ctx context.Context) (*inspected, error) {
	found := new(inspected)
	err := c.engine.Call(ctx, engine.Request{Method: http.MethodGet, Path: c.path("/json")}, found)
	if err != nil {
		return nil, err
	}
	return found, nil
}

// Update is told of changes of the task's metadata, of which none changes its container.
func (c *controller) Update(context.Context, *api.Task) error { return nil }

// Prepare brings the image and creates the container. A container of the same task that is there already is taken over.
func (c *controller) Prepare(ctx context.Context) error {
	if err := c.pull(ctx); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		// The image may be here; if it is not, the creation says so.
		log.G(ctx).WithError(err).Warn("the image cannot be pulled")
	}
	for _, volume := range c.container.volumes {
		if err := c.engine.Call(ctx, engine.Request{Method: http.MethodPost, Path: "/volumes/create", Body: volume}, nil); err != nil {
			return err
		}
	}
	query := url.Values{"name": {c.container.name}}
	err := c.engine.Call(ctx, engine.Request{Method: http.MethodPost, Path: "/containers/create", Query: query, Body: c.container.body}, nil)
	if !engine.IsConflict(err) {
		return err
	}
	found, look := c.inspect(ctx)
	switch {
	case look != nil:
		return look
	case found.Config.Labels[labelTaskID] == c.task.ID:
		return exec.ErrTaskPrepared
	}
	return err
}

// Start starts the container. If its image or the service has a health check, it returns when the container is healthy.
func (c *controller) Start(ctx context.Context) error {
	found, err := c.inspect(ctx)
	if err != nil {
		return err
	}
	if found.State.Status != "created" {
		return exec.ErrTaskStarted
	}
	if err := c.engine.Call(ctx, engine.Request{Method: http.MethodPost, Path: c.path("/start")}, nil); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return fmt.Errorf("starting container failed: %w", err)
	}
	return c.follow(ctx, func(now *inspected) (bool, error) {
		health := now.State.Health
		switch {
		case health == nil || health.Status == "none" || health.Status == "healthy":
			return true, nil
		case now.isOver():
			return true, now.end(nil)
		case health.Status == "unhealthy":
			return true, c.unhealthy(ctx)
		}
		return false, nil
	})
}

// Wait returns when the container has ended, with an error if its code is not 0.
func (c *controller) Wait(ctx context.Context) error {
	return c.follow(ctx, func(now *inspected) (bool, error) {
		switch {
		case now.isOver():
			return true, now.end(nil)
		case now.State.Health != nil && now.State.Health.Status == "unhealthy":
			return true, c.unhealthy(ctx)
		}
		return false, nil
	})
}

// follow looks at the container after each change until judge says that this is it.
func (c *controller) follow(ctx context.Context, judge func(*inspected) (bool, error)) error {
	changed, done := c.ends.of(c.container.name)
	defer done()
	for {
		now, err := c.inspect(ctx)
		switch {
		case engine.IsMissing(err):
			return errDestroyed
		case err != nil:
			return err
		}
		if isIt, err := judge(now); isIt {
			return err
		}
		select {
		case <-changed:
		case <-time.After(look):
		case <-ctx.Done():
			return ctx.Err()
		case <-c.closed:
			return exec.ErrControllerClosed
		}
	}
}

func (i *inspected) isOver() bool {
	return !i.State.Running && (i.State.Status == "exited" || i.State.Status == "dead")
}

func (i *inspected) end(cause error) error {
	if i.State.ExitCode == 0 && cause == nil {
		return nil
	}
	if cause == nil && i.State.Error != "" {
		cause = errors.New(i.State.Error)
	}
	return &exitError{i.State.ExitCode, cause}
}

// unhealthy stops an unhealthy container; the error is the end of its task.
func (c *controller) unhealthy(ctx context.Context) error {
	if err := c.Shutdown(ctx); err != nil {
		return fmt.Errorf("unhealthy container shutdown failed: %w", err)
	}
	now, err := c.inspect(ctx)
	if err != nil {
		return err
	}
	return now.end(errUnhealthy)
}

// Shutdown asks the program to end, and kills it after the service's grace period.
func (c *controller) Shutdown(ctx context.Context) error {
	query := url.Values{}
	if grace := c.container.grace; grace != nil {
		query.Set("t", strconv.Itoa(int((*grace+time.Second-1)/time.Second)))
	}
	return c.without(ctx, engine.Request{Method: http.MethodPost, Path: c.path("/stop"), Query: query})
}

// Terminate kills the program.
func (c *controller) Terminate(ctx context.Context) error {
	err := c.without(ctx, engine.Request{Method: http.MethodPost, Path: c.path("/kill")})
	// The container does not run.
	if engine.IsConflict(err) {
		return nil
	}
	return err
}

// without makes a request to a container that may not exist.
func (c *controller) without(ctx context.Context, request engine.Request) error {
	err := c.engine.Call(ctx, request, nil)
	if engine.IsMissing(err) {
		return nil
	}
	return err
}

// Remove stops the container and removes it with its anonymous volumes.
func (c *controller) Remove(ctx context.Context) error {
	if err := c.Shutdown(ctx); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		log.G(ctx).WithError(err).Warn("a container does not stop before its removal")
	}
	return remove(ctx, c.engine, c.container.name)
}

// Close ends waiting.
func (c *controller) Close() error {
	c.once.Do(func() { close(c.closed) })
	return nil
}

// ContainerStatus is what the task's status shows of its container; nil: there is none.
func (c *controller) ContainerStatus(ctx context.Context) (*api.ContainerStatus, error) {
	found, err := c.inspect(ctx)
	if engine.IsMissing(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	state := found.State
	return &api.ContainerStatus{ContainerID: found.ID, PID: int32(state.Pid), ExitCode: int32(state.ExitCode)}, nil
}

// PortStatus lists the ports that this machine publishes for the task.
func (c *controller) PortStatus(ctx context.Context) (*api.PortStatus, error) {
	found, err := c.inspect(ctx)
	if engine.IsMissing(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	status := &api.PortStatus{}
	for _, port := range c.container.ports {
		for _, binding := range found.NetworkSettings.Ports[portKey(port)] {
			number, err := strconv.ParseUint(binding.HostPort, 10, 16)
			if err != nil {
				return nil, fmt.Errorf("published port %q: %w", binding.HostPort, err)
			}
			shown := *port
			shown.PublishedPort = uint32(number)
			status.Ports = append(status.Ports, &shown)
			break
		}
	}
	return status, nil
}
