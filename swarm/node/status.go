package node

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"sort"

	"coracle.dev/swarm/refusal"
	types "github.com/docker/docker/api/types/swarm"
	"github.com/docker/docker/daemon/cluster/convert"
	"github.com/moby/swarmkit/v2/api"
)

func exists(path string) bool {
	_, err := os.Lstat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

// NodeID is the node's id; empty: it has none.
func (m *Member) NodeID() string {
	m.mu.Lock()
	state, r := m.state, m.run
	m.mu.Unlock()
	if r != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.node != nil && r.node.NodeID() != "" {
			return r.node.NodeID()
		}
	}
	if state != nil {
		return state.NodeID
	}
	return ""
}

// isManager tells whether the node is a manager, or is becoming one.
func (m *Member) isManager() bool {
	r := m.current()
	if r == nil {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.conn != nil || (r.node != nil && r.node.Manager() != nil)
}

// Managers calls the managers through this node, which has to be one of them.
func (m *Member) Managers(ctx context.Context, call func(context.Context, api.ControlClient) error) error {
	control, err := m.control()
	if err != nil {
		return err
	}
	bounded, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	return call(bounded, control)
}

func (m *Member) control() (api.ControlClient, error) {
	r := m.current()
	if r == nil {
		return nil, refusal.State(textNone)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.conn != nil:
		return api.NewControlClient(r.conn), nil
	case r.err != nil && r.node == nil:
		return nil, refusal.State("%s %s", textElecting, r.err)
	case r.node != nil && r.node.Manager() != nil:
		return nil, Electing()
	case !r.wasReady():
		return nil, Electing()
	}
	return nil, refusal.State(textWorker)
}

// Electing refuses a request while the managers have no leader yet.
func Electing() error { return refusal.State(textElecting) }

// Cluster is the swarm's own object; nil: it does not exist yet.
func Cluster(ctx context.Context, control api.ControlClient) (*api.Cluster, error) {
	answer, err := control.ListClusters(ctx, &api.ListClustersRequest{})
	if err != nil || len(answer.Clusters) == 0 {
		return nil, err
	}
	return answer.Clusters[0], nil
}

// Info describes the membership: the member Swarm of GET /info.
func (m *Member) Info(ctx context.Context) types.Info {
	info := types.Info{LocalNodeState: types.LocalNodeStateInactive}
	m.mu.Lock()
	state, r := m.state, m.run
	m.mu.Unlock()
	if state == nil {
		return info
	}
	info.NodeID, info.NodeAddr = m.NodeID(), m.address(state)
	info.LocalNodeState = types.LocalNodeStatePending
	if r != nil {
		r.describe(&info)
	}
	if info.LocalNodeState != types.LocalNodeStateActive || !m.isManager() {
		return info
	}
	if err := m.Managers(ctx, func(ctx context.Context, control api.ControlClient) error { return counts(ctx, control, &info) }); err != nil {
		info.ControlAvailable = false
		info.Error = err.Error()
	}
	return info
}

// address is the one that other nodes reach this one at.
func (m *Member) address(state *State) string {
	if host, _, err := net.SplitHostPort(state.AdvertiseAddr); err == nil {
		return host
	}
	return state.LocalAddr
}

func (r *run) describe(info *types.Info) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err != nil {
		info.LocalNodeState, info.Error = types.LocalNodeStateError, r.err.Error()
	}
	if r.node == nil {
		return
	}
	if r.wasReady() && r.err == nil {
		info.LocalNodeState = types.LocalNodeStateActive
	}
	info.ControlAvailable = r.conn != nil
	for _, peer := range r.node.Remotes() {
		info.RemoteManagers = append(info.RemoteManagers, types.Peer{NodeID: peer.NodeID, Addr: peer.Addr})
	}
	sort.Slice(info.RemoteManagers, func(i, j int) bool { return info.RemoteManagers[i].NodeID < info.RemoteManagers[j].NodeID })
}

// counts adds what only managers know.
func counts(ctx context.Context, control api.ControlClient, info *types.Info) error {
	cluster, err := Cluster(ctx, control)
	if err != nil {
		return err
	}
	if cluster != nil {
		shown := convert.SwarmFromGRPC(*cluster)
		info.Cluster = &shown.ClusterInfo
	}
	answer, err := control.ListNodes(ctx, &api.ListNodesRequest{})
	if err != nil {
		return err
	}
	info.Nodes = len(answer.Nodes)
	for _, node := range answer.Nodes {
		if node.ManagerStatus != nil {
			info.Managers++
		}
	}
	return nil
}
