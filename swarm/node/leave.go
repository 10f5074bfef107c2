package node

import (
	"context"
	"fmt"
	"path/filepath"

	"coracle.dev/swarm/refusal"
	"github.com/moby/swarmkit/v2/agent"
	"github.com/moby/swarmkit/v2/api"
	"go.etcd.io/bbolt"
)

// Leave ends this machine's membership: its tasks' containers are removed, its state is erased.
func (m *Member) Leave(ctx context.Context, force bool) error {
	m.turn.Lock()
	defer m.turn.Unlock()
	if m.isOutside() {
		return refusal.State(textOutside)
	}
	if !force && m.isManager() {
		return refusal.State("%s", m.losses(ctx))
	}
	id := m.NodeID()
	m.end()
	if id != "" {
		if err := m.host.Forget(ctx, id); err != nil {
			return err
		}
	}
	return m.forget()
}

// losses says what a swarm loses with this manager.
func (m *Member) losses(ctx context.Context) string {
	const first = "You are attempting to leave the swarm on a node that is participating as a manager. "
	const last = "The only way to restore a swarm that has lost consensus is to reinitialize it with `--force-new-cluster`. " +
		"Use `--force` to suppress this message."
	own := m.NodeID()
	reachable, unreachable, isActive := 0, 0, false
	err := m.Managers(ctx, func(ctx context.Context, control api.ControlClient) error {
		answer, err := control.ListNodes(ctx, &api.ListNodesRequest{})
		if err != nil {
			return err
		}
		for _, node := range answer.Nodes {
			switch {
			case node.ManagerStatus == nil:
			case node.ManagerStatus.Reachability == api.RaftMemberStatus_REACHABLE:
				reachable++
				isActive = isActive || node.ID == own
			default:
				unreachable++
			}
		}
		return nil
	})
	all := reachable + unreachable
	switch {
	case err != nil:
		return first + "Doing so may lose the consensus of your cluster. " + last
	case isActive && all == 1:
		return first + "Removing the last manager erases all current state of the swarm. Use `--force` to ignore this message. "
	case isActive && reachable-2 <= unreachable:
		const text = "Removing this node leaves %d managers out of %d. Without a Raft quorum your swarm will be inaccessible. "
		return first + fmt.Sprintf(text, reachable-1, all) + last
	}
	return first + last
}

// sweep removes the containers of tasks that the node's own list lacks: a killed program may have left them.
func (m *Member) sweep(ctx context.Context) error {
	known, err := knownTasks(filepath.Join(m.places.State, "worker", "tasks.db"))
	if err != nil || known == nil {
		return err
	}
	return m.host.Sweep(ctx, known)
}

// knownTasks lists the tasks of an agent's database; nil: there is none.
func knownTasks(path string) (map[string]bool, error) {
	if !exists(path) {
		return nil, nil
	}
	tasks, err := bbolt.Open(path, 0o600, &bbolt.Options{ReadOnly: true, Timeout: deadline})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	defer tasks.Close()
	known := map[string]bool{}
	err = tasks.View(func(tx *bbolt.Tx) error {
		return agent.WalkTasks(tx, func(task *api.Task) error {
			if agent.TaskAssigned(tx, task.ID) {
				known[task.ID] = true
			}
			return nil
		})
	})
	return known, err
}
