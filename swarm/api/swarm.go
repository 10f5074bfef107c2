package api

import (
	"context"
	"net/http"

	"coracle.dev/swarm/node"
	"coracle.dev/swarm/refusal"
	types "github.com/docker/docker/api/types/swarm"
	"github.com/docker/docker/daemon/cluster/convert"
	"github.com/moby/swarmkit/v2/api"
)

// info is the member Swarm of GET /info, and whether the node is in a swarm at all.
func (s *Server) info(c *call) (reply, error) {
	return reply{http.StatusOK, s.member.Info(c)}, nil
}

func (s *Server) init(c *call) (reply, error) {
	var request types.InitRequest
	if err := c.read(&request); err != nil {
		return reply{}, err
	}
	// Members of later versions.
	if c.version < 39 {
		request.DefaultAddrPool, request.SubnetSize = nil, 0
	}
	if c.version < 40 {
		request.DataPathPort = 0
	}
	// The swarm is begun as a whole, even if the client goes away.
	id, err := s.member.Init(context.WithoutCancel(c), request)
	return reply{http.StatusOK, id}, err
}

func (s *Server) join(c *call) (reply, error) {
	var request types.JoinRequest
	if err := c.read(&request); err != nil {
		return reply{}, err
	}
	return reply{status: http.StatusOK}, s.member.Join(context.WithoutCancel(c), request)
}

func (s *Server) leave(c *call) (reply, error) {
	if err := s.member.Leave(context.WithoutCancel(c), c.truth("force")); err != nil {
		return reply{}, err
	}
	s.left()
	return reply{status: http.StatusOK}, nil
}

// cluster gives the swarm's own object to a call.
func (s *Server) cluster(c *call, use func(context.Context, api.ControlClient, *api.Cluster) error) error {
	return s.managers(c, func(ctx context.Context, control api.ControlClient) error {
		found, err := node.Cluster(ctx, control)
		if err != nil {
			return err
		}
		if found == nil {
			return node.Electing()
		}
		return use(ctx, control, found)
	})
}

func (s *Server) inspect(c *call) (reply, error) {
	var shown types.Swarm
	err := s.cluster(c, func(_ context.Context, _ api.ControlClient, found *api.Cluster) error {
		shown = convert.SwarmFromGRPC(*found)
		return nil
	})
	return reply{http.StatusOK, shown}, err
}

func (s *Server) update(c *call) (reply, error) {
	var spec types.Spec
	if err := c.read(&spec); err != nil {
		return reply{}, err
	}
	index, err := c.index("swarm")
	if err != nil {
		return reply{}, err
	}
	rotation, err := c.rotation()
	if err != nil {
		return reply{}, err
	}
	if spec.Annotations.Name == "" {
		spec.Annotations.Name = "default"
	}
	if spec.Annotations.Name != "default" {
		return reply{}, refusal.Invalid(`swarm spec must be named "default"`)
	}
	made, err := convert.SwarmSpecToGRPC(spec)
	if err != nil {
		return reply{}, refusal.Invalid("%s", err)
	}
	err = s.cluster(c, func(ctx context.Context, control api.ControlClient, found *api.Cluster) error {
		request := &api.UpdateClusterRequest{ClusterID: found.ID, Spec: &made, ClusterVersion: index, Rotation: rotation}
		_, err := control.UpdateCluster(ctx, request)
		return err
	})
	return reply{status: http.StatusOK}, err
}

func (c *call) rotation() (made api.KeyRotation, err error) {
	for name, flag := range map[string]*bool{
		"rotateWorkerToken": &made.WorkerJoinToken, "rotateManagerToken": &made.ManagerJoinToken,
		"rotateManagerUnlockKey": &made.ManagerUnlockKey,
	} {
		if *flag, err = c.flag(name); err != nil {
			return made, err
		}
	}
	return made, nil
}
