// Package node is this machine's membership of a swarm: how it begins, joins, runs and leaves one.
package node

import (
	"context"
	"net"
	"os"
	"sync"
	"time"

	"github.com/moby/swarmkit/v2/agent/exec"
)

// Texts of refusals; clients look for some of them.
const (
	textOutside  = "This node is not part of a swarm"
	textMember   = `This node is already part of a swarm. Use "docker swarm leave" to leave this swarm and join another one.`
	textNone     = `This node is not a swarm manager. Use "docker swarm init" or "docker swarm join" to connect this node to swarm and try again.`
	textWorker   = "This node is not a swarm manager. Worker nodes can't be used to view or modify cluster state. Please run this command on a manager node or promote the current node to a manager."
	textElecting = "This node is not a swarm manager. Manager is being prepared or has trouble connecting to the cluster."
	textTimeout  = "Timeout was reached before node was joined. The attempt to join the swarm will continue in the background. Use the \"docker info\" command to see the current swarm status of your node."
	textListen   = "must specify a listening address because the address to advertise is not recognized as a system address, and a system's IP address to use could not be uniquely identified"
)

const (
	// deadline bounds a request to the managers.
	deadline = 20 * time.Second
	// patience bounds the start of a node of a known swarm.
	patience = 60 * time.Second
	// reach bounds the look whether a manager's address answers.
	reach = 2 * time.Second
	// The pauses between two starts of a node that ended grow from the first of these to the second.
	firstPause, longestPause = 100 * time.Millisecond, 30 * time.Second
	// API 1.24's ticks.
	heartbeatTick, electionTick = 1, 3
)

// Places is where a member keeps its files.
type Places struct {
	// State is durable; Run ends with a reboot.
	State, Run string
}

// Host is what a member needs of the machine's engine.
type Host struct {
	// Executor runs tasks.
	Executor exec.Executor
	// Networks lists the engine's own networks, whose addresses others do not reach.
	Networks func(context.Context) ([]*net.IPNet, error)
	// Forget removes the containers of all tasks of a node.
	Forget func(context.Context, string) error
	// Sweep removes the containers of tasks that are not in a list.
	Sweep func(context.Context, map[string]bool) error
}

// Member is this machine's membership of a swarm. It may be of none.
type Member struct {
	places Places
	host   Host
	// turn lets one init, join or leave through at a time.
	turn sync.Mutex

	mu sync.Mutex
	// state is nil outside of a swarm.
	state *State
	run   *run
}

// Open reads the state of a member; Resume starts its node.
func Open(places Places, host Host) (*Member, error) {
	for _, dir := range []string{places.State, places.Run} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, err
		}
	}
	state, err := readState(places.State)
	if err != nil {
		return nil, err
	}
	return &Member{places: places, host: host, state: state}, nil
}

// Resume starts the node of a swarm that this machine is in. The node becomes ready afterwards.
func (m *Member) Resume(ctx context.Context) error {
	m.turn.Lock()
	defer m.turn.Unlock()
	if m.isOutside() {
		return nil
	}
	if err := m.sweep(ctx); err != nil {
		return err
	}
	return m.begin(how{})
}

func (m *Member) isOutside() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.state == nil
}

// IsMember tells whether this machine is in a swarm, or joins one.
func (m *Member) IsMember() bool { return !m.isOutside() }

func (m *Member) set(state *State) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.state = state
}

func (m *Member) current() *run {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.run
}

// end stops the node and waits for its end.
func (m *Member) end() {
	m.mu.Lock()
	r := m.run
	m.run = nil
	m.mu.Unlock()
	if r != nil {
		r.stop()
		<-r.over
	}
}

// Close stops the node. The machine stays a member, its containers run on.
func (m *Member) Close() {
	m.turn.Lock()
	defer m.turn.Unlock()
	m.end()
}

// forget erases the state.
func (m *Member) forget() error {
	m.set(nil)
	return erase(m.places.State)
}
