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
	get := func() (*api.Network, error) {
		answer, err := control.GetNetwork(ctx, &api.GetNetworkRequest{NetworkID: name})
		if err != nil {
			return nil, err
		}
		return answer.Network, nil
	}
	list := func(names, prefixes []string) ([]*api.Network, error) {
		asked := &api.ListNetworksRequest{Filters: &api.ListNetworksRequest_Filters{Names: names, IDPrefixes: prefixes}}
		answer, err := control.ListNetworks(ctx, asked, longestList)
		if err != nil {
			return nil, err
		}
		return answer.Networks, nil
	}
	return find("network", name, get, list)
}
