package api

import (
	"context"
	"errors"
	"net/http"

	"coracle.dev/swarm/refusal"
	"github.com/docker/docker/api/types/network"
	"github.com/docker/docker/daemon/cluster/convert"
	"github.com/moby/swarmkit/v2/api"
)

// network is a network of the swarm. Clients ask for the ids of those that every machine has, before they name them in a service.
func (s *Server) network(c *call) (reply, error) {
	var shown network.Inspect
	err := s.managers(c, func(ctx context.Context, control api.ControlClient) error {
		found, err := findNetwork(ctx, control, c.id)
		if err != nil {
			return err
		}
		shown = convert.BasicNetworkFromGRPC(*found)
		return nil
	})
	// A worker knows no network of the swarm.
	var refused *refusal.Refusal
	if errors.As(err, &refused) && refused.Kind == refusal.KindState {
		err = refusal.Missing("network %s not found", c.id)
	}
	return reply{http.StatusOK, shown}, err
}

func findNetwork(ctx context.Context, control api.ControlClient, name string) (*api.Network, error) {
	if answer, err := control.GetNetwork(ctx, &api.GetNetworkRequest{NetworkID: name}); err == nil {
		return answer.Network, nil
	}
	for _, asked := range []*api.ListNetworksRequest_Filters{{Names: []string{name}}, {IDPrefixes: []string{name}}} {
		answer, err := control.ListNetworks(ctx, &api.ListNetworksRequest{Filters: asked}, longestList)
		if err != nil {
			return nil, err
		}
		if found, err := only(answer.Networks, "network", name); found != nil || err != nil {
			return found, err
		}
	}
	return nil, refusal.Missing("network %s not found", name)
}
