package node

import (
	"context"
	"errors"
	"net"
	"time"

	"coracle.dev/swarm/refusal"
	types "github.com/docker/docker/api/types/swarm"
	"github.com/docker/docker/daemon/cluster/convert"
	"github.com/moby/swarmkit/v2/api"
)

// Init begins a swarm, and answers the node's id.
func (m *Member) Init(ctx context.Context, request types.InitRequest) (string, error) {
	m.turn.Lock()
	defer m.turn.Unlock()
	if !m.isOutside() {
		if !request.ForceNewCluster {
			return "", refusal.State(textMember)
		}
		if !m.isManager() {
			return "", refusal.State(textWorker)
		}
	}
	state, err := m.beginning(ctx, &request)
	if err != nil {
		return "", err
	}
	wasMember := !m.isOutside()
	if wasMember {
		m.end()
	}
	m.set(state)
	err = m.begin(how{force: request.ForceNewCluster, autolock: request.AutoLockManagers, availability: request.Availability})
	if err == nil {
		err = m.ready(ctx, patience)
	}
	if err == nil {
		err = m.firstSpec(ctx, request.Spec)
	}
	if err != nil {
		m.end()
		if !wasMember {
			err = errors.Join(err, m.forget())
		}
		return "", err
	}
	return m.NodeID(), nil
}

// beginning checks a request to begin a swarm.
func (m *Member) beginning(ctx context.Context, request *types.InitRequest) (*State, error) {
	spec := &request.Spec
	if spec.Annotations.Name == "" {
		spec.Annotations.Name = "default"
	}
	if spec.Annotations.Name != "default" {
		return nil, refusal.Invalid(`swarm spec must be named "default"`)
	}
	host, port, err := listenAddress(request.ListenAddr)
	if err != nil {
		return nil, err
	}
	advertise, err := m.advertise(ctx, request.AdvertiseAddr, host, port)
	if err != nil {
		return nil, err
	}
	path, err := dataPath(request.DataPathAddr)
	if err != nil {
		return nil, err
	}
	local, err := m.local(ctx, host, advertise)
	if err != nil {
		return nil, err
	}
	if err := checkPool(request.DefaultAddrPool, request.SubnetSize); err != nil {
		return nil, err
	}
	vxlan, err := dataPort(request.DataPathPort)
	if err != nil {
		return nil, err
	}
	if _, err := availability(request.Availability); err != nil {
		return nil, err
	}
	raft := spec.Raft
	if raft.ElectionTick != 0 && raft.HeartbeatTick != 0 && raft.ElectionTick <= raft.HeartbeatTick {
		const text = "invalid Raft: ElectionTick (%d) must be greater than HeartbeatTick (%d)"
		return nil, refusal.Invalid(text, raft.ElectionTick, raft.HeartbeatTick)
	}
	if raft.ElectionTick < 0 || raft.HeartbeatTick < 0 {
		return nil, refusal.Invalid("invalid Raft: ElectionTick and HeartbeatTick must not be negative")
	}
	return &State{
		ListenAddr: net.JoinHostPort(host, port), AdvertiseAddr: advertise, LocalAddr: local, DataPathAddr: path, DataPathPort: vxlan,
		DefaultAddrPool: request.DefaultAddrPool, SubnetSize: request.SubnetSize,
		HeartbeatTick: uint32(raft.HeartbeatTick), ElectionTick: uint32(raft.ElectionTick),
	}, nil
}

// advertise is the address that other nodes are told: the request's, the one that is listened at, or the machine's only one.
func (m *Member) advertise(ctx context.Context, asked, host, port string) (string, error) {
	if asked != "" {
		return advertised(asked, port)
	}
	if !net.ParseIP(host).IsUnspecified() {
		return net.JoinHostPort(host, port), nil
	}
	own, err := m.host.Networks(ctx)
	if err != nil {
		return "", err
	}
	found, err := systemAddress(own)
	if err != nil {
		return "", err
	}
	return net.JoinHostPort(found.String(), port), nil
}

// local is the machine's own address, as its info shows it.
func (m *Member) local(ctx context.Context, host, advertise string) (string, error) {
	if !net.ParseIP(host).IsUnspecified() {
		return host, nil
	}
	told, _, err := net.SplitHostPort(advertise)
	if err != nil {
		return "", err
	}
	if isOwn(net.ParseIP(told)) {
		return told, nil
	}
	own, err := m.host.Networks(ctx)
	if err != nil {
		return "", err
	}
	found, err := systemAddress(own)
	if err != nil {
		return "", refusal.Invalid(textListen)
	}
	return found.String(), nil
}

// firstSpec gives a new swarm the Spec of its init request.
func (m *Member) firstSpec(ctx context.Context, spec types.Spec) error {
	return m.Managers(ctx, func(ctx context.Context, control api.ControlClient) error {
		// A new swarm's object is made after its first leader's election.
		for {
			cluster, err := Cluster(ctx, control)
			if err != nil {
				return err
			}
			if cluster != nil {
				return m.updateSpec(ctx, control, cluster, spec)
			}
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(10 * time.Millisecond):
			}
		}
	})
}

func (m *Member) updateSpec(ctx context.Context, control api.ControlClient, cluster *api.Cluster, spec types.Spec) error {
	merged, err := convert.MergeSwarmSpecToGRPC(spec, cluster.Spec)
	if err != nil {
		return refusal.Invalid("%s", err)
	}
	request := &api.UpdateClusterRequest{ClusterID: cluster.ID, ClusterVersion: &cluster.Meta.Version, Spec: &merged}
	_, err = control.UpdateCluster(ctx, request)
	return err
}
