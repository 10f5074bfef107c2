package api

import (
	"context"
	"net/http"

	"coracle.dev/swarm/refusal"
	types "github.com/docker/docker/api/types/swarm"
	"github.com/docker/docker/daemon/cluster/convert"
	"github.com/moby/swarmkit/v2/api"
	"google.golang.org/grpc"
)

// longestList bounds an answer of the managers to a request for a list.
var longestList = grpc.MaxCallRecvMsgSize(128 << 20)

func (s *Server) nodes(c *call) (reply, error) {
	given, err := c.filters("name", "id", "label", "node.label", "role", "membership")
	if err != nil {
		return reply{}, err
	}
	asked := &api.ListNodesRequest_Filters{
		NamePrefixes: given["name"], IDPrefixes: given["id"], Labels: pairs(given["label"]), NodeLabels: pairs(given["node.label"]),
	}
	if asked.Roles, err = words[api.NodeRole](given["role"], api.NodeRole_value, "role"); err != nil {
		return reply{}, err
	}
	asked.Memberships, err = words[api.NodeSpec_Membership](given["membership"], api.NodeSpec_Membership_value, "membership")
	if err != nil {
		return reply{}, err
	}
	shown := []types.Node{}
	err = s.managers(c, func(ctx context.Context, control api.ControlClient) error {
		answer, err := control.ListNodes(ctx, &api.ListNodesRequest{Filters: asked}, longestList)
		if err != nil {
			return err
		}
		for _, one := range answer.Nodes {
			shown = append(shown, convert.NodeFromGRPC(*one))
		}
		return nil
	})
	return reply{http.StatusOK, shown}, err
}

// aNode gives the node with an id, a host name or a prefix of an id to a call.
func (s *Server) aNode(c *call, use func(context.Context, api.ControlClient, *api.Node) error) error {
	return s.managers(c, func(ctx context.Context, control api.ControlClient) error {
		found, err := findNode(ctx, control, c.id)
		if err != nil {
			return err
		}
		return use(ctx, control, found)
	})
}

func findNode(ctx context.Context, control api.ControlClient, name string) (*api.Node, error) {
	get := func() (*api.Node, error) {
		answer, err := control.GetNode(ctx, &api.GetNodeRequest{NodeID: name})
		if err != nil {
			return nil, err
		}
		return answer.Node, nil
	}
	list := func(names, prefixes []string) ([]*api.Node, error) {
		asked := &api.ListNodesRequest{Filters: &api.ListNodesRequest_Filters{Names: names, IDPrefixes: prefixes}}
		answer, err := control.ListNodes(ctx, asked, longestList)
		if err != nil {
			return nil, err
		}
		return answer.Nodes, nil
	}
	return find("node", name, get, list)
}

func (s *Server) node(c *call) (reply, error) {
	var shown types.Node
	err := s.aNode(c, func(_ context.Context, _ api.ControlClient, found *api.Node) error {
		shown = convert.NodeFromGRPC(*found)
		return nil
	})
	return reply{http.StatusOK, shown}, err
}

func (s *Server) updateNode(c *call) (reply, error) {
	var spec types.NodeSpec
	if err := c.read(&spec); err != nil {
		return reply{}, err
	}
	index, err := c.index("node")
	if err != nil {
		return reply{}, err
	}
	made, err := convert.NodeSpecToGRPC(spec)
	if err != nil {
		return reply{}, refusal.Invalid("%s", err)
	}
	err = s.aNode(c, func(ctx context.Context, control api.ControlClient, found *api.Node) error {
		_, err := control.UpdateNode(ctx, &api.UpdateNodeRequest{NodeID: found.ID, NodeVersion: index, Spec: &made})
		return err
	})
	return reply{status: http.StatusOK}, err
}

func (s *Server) removeNode(c *call) (reply, error) {
	err := s.aNode(c, func(ctx context.Context, control api.ControlClient, found *api.Node) error {
		_, err := control.RemoveNode(ctx, &api.RemoveNodeRequest{NodeID: found.ID, Force: c.truth("force")})
		return err
	})
	return reply{status: http.StatusOK}, err
}
