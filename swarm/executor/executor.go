// Package executor runs a swarm's tasks as containers of this machine's engine.
package executor

import (
	"context"
	"net"
	"net/http"
	"net/url"
	"sort"
	"strings"
	"sync"

	"coracle.dev/swarm/engine"
	"github.com/moby/swarmkit/v2/agent"
	"github.com/moby/swarmkit/v2/agent/exec"
	"github.com/moby/swarmkit/v2/api"
	"github.com/moby/swarmkit/v2/log"
	"github.com/moby/swarmkit/v2/node/plugin"
	"github.com/moby/swarmkit/v2/template"
)

// Labels of the containers of tasks.
const (
	labelTask        = "com.docker.swarm.task"
	labelTaskID      = "com.docker.swarm.task.id"
	labelTaskName    = "com.docker.swarm.task.name"
	labelNodeID      = "com.docker.swarm.node.id"
	labelServiceID   = "com.docker.swarm.service.id"
	labelServiceName = "com.docker.swarm.service.name"
)

// Executor runs tasks.
type Executor struct {
	exec.DependencyManager
	engine *engine.Engine
	ends   *changes

	mu sync.Mutex
	// node is what the managers know of this machine; a task's templates name parts of it.
	node *api.NodeDescription
}

// New is an executor by an engine; its watch of the containers ends with ctx.
func New(ctx context.Context, engine *engine.Engine, plugins plugin.Getter) *Executor {
	made := &Executor{DependencyManager: agent.NewDependencyManager(plugins), engine: engine, ends: newChanges()}
	go made.ends.watch(ctx, engine)
	return made
}

// Describe tells the managers what this machine is.
func (e *Executor) Describe(ctx context.Context) (*api.NodeDescription, error) {
	var info struct {
		Name, OSType, Architecture, ServerVersion string
		NCPU, MemTotal                            int64
		Labels                                    []string
		Plugins                                   struct{ Volume, Network, Log []string }
	}
	if err := e.engine.Call(ctx, engine.Request{Method: http.MethodGet, Path: "/info"}, &info); err != nil {
		return nil, err
	}
	labels := map[string]string{}
	for _, label := range info.Labels {
		key, value, _ := strings.Cut(label, "=")
		labels[key] = value
	}
	made := &api.NodeDescription{
		Hostname: info.Name, Platform: &api.Platform{Architecture: info.Architecture, OS: info.OSType},
		Resources: &api.Resources{NanoCPUs: info.NCPU * 1e9, MemoryBytes: info.MemTotal},
		Engine:    &api.EngineDescription{EngineVersion: info.ServerVersion, Labels: labels},
	}
	for kind, names := range map[string][]string{
		"Volume": info.Plugins.Volume, "Network": info.Plugins.Network, "Log": info.Plugins.Log,
	} {
		for _, name := range names {
			made.Engine.Plugins = append(made.Engine.Plugins, api.PluginDescription{Type: kind, Name: name})
		}
	}
	plugins := made.Engine.Plugins
	sort.Slice(plugins, func(i, j int) bool {
		if plugins[i].Type != plugins[j].Type {
			return plugins[i].Type < plugins[j].Type
		}
		return plugins[i].Name < plugins[j].Name
	})
	e.mu.Lock()
	e.node = made
	e.mu.Unlock()
	return made, nil
}

// Configure is told of changes of the node's object. Networks of the swarm would need them.
func (e *Executor) Configure(context.Context, *api.Node) error { return nil }

// SetNetworkBootstrapKeys gets the keys of overlay networks, which are not built yet.
func (e *Executor) SetNetworkBootstrapKeys([]*api.EncryptionKey) error { return nil }

// Controller is what runs one task.
func (e *Executor) Controller(task *api.Task) (exec.Controller, error) {
	if task.Spec.GetContainer() == nil {
		return nil, exec.ErrRuntimeUnsupported
	}
	e.mu.Lock()
	node := e.node
	e.mu.Unlock()
	if node == nil {
		node = &api.NodeDescription{}
	}
	expanded, err := template.ExpandContainerSpec(node, task)
	if err != nil {
		return nil, err
	}
	made, err := describe(task, expanded)
	if err != nil {
		return nil, err
	}
	return &controller{engine: e.engine, ends: e.ends, task: task, container: made, closed: make(chan struct{})}, nil
}

// containers lists the containers of tasks: those with a label.
func (e *Executor) containers(ctx context.Context, label string) ([]listed, error) {
	query := url.Values{"all": {"1"}, "filters": {`{"label":["` + label + `"]}`}}
	var found []listed
	err := e.engine.Call(ctx, engine.Request{Method: http.MethodGet, Path: "/containers/json", Query: query}, &found)
	return found, err
}

type listed struct {
	ID     string `json:"Id"`
	Labels map[string]string
}

// Forget removes the containers of all tasks of a node.
func (e *Executor) Forget(ctx context.Context, node string) error {
	found, err := e.containers(ctx, labelNodeID+"="+node)
	if err != nil {
		return err
	}
	return e.removeAll(ctx, found)
}

// Sweep removes the containers of tasks that known lacks.
func (e *Executor) Sweep(ctx context.Context, known map[string]bool) error {
	found, err := e.containers(ctx, labelTaskID)
	if err != nil {
		return err
	}
	var unknown []listed
	for _, one := range found {
		if !known[one.Labels[labelTaskID]] {
			log.G(ctx).WithField("container", one.ID).Warn("a container of a task that nobody knows is removed")
			unknown = append(unknown, one)
		}
	}
	return e.removeAll(ctx, unknown)
}

func (e *Executor) removeAll(ctx context.Context, found []listed) error {
	for _, one := range found {
		if err := remove(ctx, e.engine, one.ID); err != nil {
			return err
		}
	}
	return nil
}

func remove(ctx context.Context, to *engine.Engine, name string) error {
	query := url.Values{"force": {"1"}, "v": {"1"}}
	err := to.Call(ctx, engine.Request{Method: http.MethodDelete, Path: "/containers/" + name, Query: query}, nil)
	if engine.IsMissing(err) {
		return nil
	}
	return err
}

// Networks lists the subnets of the engine's own networks.
func (e *Executor) Networks(ctx context.Context) ([]*net.IPNet, error) {
	var found []struct {
		IPAM struct{ Config []struct{ Subnet string } }
	}
	if err := e.engine.Call(ctx, engine.Request{Method: http.MethodGet, Path: "/networks"}, &found); err != nil {
		return nil, err
	}
	var made []*net.IPNet
	for _, network := range found {
		for _, config := range network.IPAM.Config {
			if _, subnet, err := net.ParseCIDR(config.Subnet); err == nil {
				made = append(made, subnet)
			}
		}
	}
	return made, nil
}
