package executor

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"sync"
	"time"

	"coracle.dev/swarm/engine"
	"github.com/moby/swarmkit/v2/log"
)

// again is the pause before the engine's events are asked for again.
const again = 200 * time.Millisecond

// changes tells those who wait for containers that a container changed: one stream of events for all of them.
type changes struct {
	mu      sync.Mutex
	waiters map[string]map[chan struct{}]bool
}

func newChanges() *changes { return &changes{waiters: map[string]map[chan struct{}]bool{}} }

// of gives a channel that gets a value after each change of the container with that name, and the end of it.
func (c *changes) of(name string) (<-chan struct{}, func()) {
	channel := make(chan struct{}, 1)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.waiters[name] == nil {
		c.waiters[name] = map[chan struct{}]bool{}
	}
	c.waiters[name][channel] = true
	return channel, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.waiters[name], channel)
		if len(c.waiters[name]) == 0 {
			delete(c.waiters, name)
		}
	}
}

func (c *changes) tell(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	wake(c.waiters[name])
}

func (c *changes) tellAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, channels := range c.waiters {
		wake(channels)
	}
}

func wake(channels map[chan struct{}]bool) {
	for channel := range channels {
		select {
		case channel <- struct{}{}:
		default:
		}
	}
}

// watch follows the engine's events until the end of ctx. After each gap everybody looks anew.
func (c *changes) watch(ctx context.Context, from *engine.Engine) {
	for ctx.Err() == nil {
		if err := c.follow(ctx, from); err != nil && ctx.Err() == nil {
			log.G(ctx).WithError(err).Warn("the engine's events broke off")
		}
		select {
		case <-ctx.Done():
		case <-time.After(again):
		}
	}
}

func (c *changes) follow(ctx context.Context, from *engine.Engine) error {
	query := url.Values{"filters": {`{"type":["container"],"label":["` + labelTask + `"]}`}}
	stream, err := from.Open(ctx, engine.Request{Method: http.MethodGet, Path: "/events", Query: query})
	if err != nil {
		return err
	}
	defer stream.Close()
	c.tellAll()
	decoder := json.NewDecoder(stream)
	for {
		var event struct {
			Actor struct{ Attributes map[string]string }
		}
		if err := decoder.Decode(&event); err != nil {
			return err
		}
		c.tell(event.Actor.Attributes["name"])
	}
}
