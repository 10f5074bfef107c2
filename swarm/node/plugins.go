package node

import (
	"fmt"

	"github.com/docker/docker/pkg/plugingetter"
	"github.com/docker/docker/pkg/plugins"
	"github.com/moby/swarmkit/v2/node/plugin"
)

// noPlugins answers the allocator of networks, which asks for plugins: none exists.
type noPlugins struct{}

func (noPlugins) Get(name, capability string, _ int) (plugingetter.CompatPlugin, error) {
	return nil, fmt.Errorf("plugin %s (%s): services use no plugins yet", name, capability)
}

func (noPlugins) GetAllByCap(string) ([]plugingetter.CompatPlugin, error)      { return nil, nil }
func (noPlugins) GetAllManagedPluginsByCap(string) []plugingetter.CompatPlugin { return nil }
func (noPlugins) Handle(string, func(string, *plugins.Client))                 {}

// NoPlugins tells managers and agents the same.
type NoPlugins struct{}

func (NoPlugins) Get(name, capability string) (plugin.Plugin, error) {
	return nil, fmt.Errorf("plugin %s (%s): services use no plugins yet", name, capability)
}

func (NoPlugins) GetAllManagedPluginsByCap(string) []plugin.Plugin { return nil }
