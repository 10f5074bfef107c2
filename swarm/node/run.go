package node

import (
	"context"
	"errors"
	"path/filepath"
	"sync"
	"time"

	types "github.com/docker/docker/api/types/swarm"
	"github.com/docker/docker/libnetwork/cnmallocator"
	"github.com/moby/swarmkit/v2/log"
	"github.com/moby/swarmkit/v2/manager/allocator/networkallocator"
	swarmkit "github.com/moby/swarmkit/v2/node"
	"google.golang.org/grpc"
)

// run is the life of a node in this process.
type run struct {
	member *Member
	stop   context.CancelFunc
	// isKnown: the node was a member before, and is started again and again until it is ready.
	isKnown bool
	// first is closed at the first readiness; over at the end of the run.
	first, over chan struct{}

	mu   sync.Mutex
	node *swarmkit.Node
	conn *grpc.ClientConn
	err  error
}

// how has what only the first start of a node needs.
type how struct {
	token        string
	force        bool
	autolock     bool
	availability types.NodeAvailability
}

// begin starts the node; the member's state is on disk before.
func (m *Member) begin(first how) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.state.write(m.places.State); err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	made := &run{member: m, stop: stop, isKnown: m.state.NodeID != "", first: make(chan struct{}), over: make(chan struct{})}
	config, err := m.config(first)
	if err == nil {
		err = made.start(ctx, config)
	}
	if err != nil && made.isKnown {
		made.failed(err)
		err = nil
	}
	if err != nil {
		stop()
		return err
	}
	m.run = made
	go made.keep(ctx, config)
	return nil
}

func (m *Member) config(first how) (*swarmkit.Config, error) {
	state := m.state
	wanted, err := availability(first.availability)
	if err != nil {
		return nil, err
	}
	config := &swarmkit.Config{
		StateDir: m.places.State, ListenControlAPI: filepath.Join(m.places.Run, "control.sock"),
		ListenRemoteAPI: state.ListenAddr, AdvertiseRemoteAPI: state.AdvertiseAddr,
		JoinAddr: state.RemoteAddr, JoinToken: first.token, ForceNewCluster: first.force, AutoLockManagers: first.autolock,
		Availability: wanted, Executor: m.host.Executor, HeartbeatTick: state.HeartbeatTick, ElectionTick: state.ElectionTick,
		NetworkProvider: cnmallocator.NewProvider(noPlugins{}), PluginGetter: NoPlugins{},
		NetworkConfig: &networkallocator.Config{
			DefaultAddrPool: state.DefaultAddrPool, SubnetSize: state.SubnetSize, VXLANUDPPort: state.DataPathPort,
		},
	}
	if config.HeartbeatTick == 0 {
		config.HeartbeatTick = heartbeatTick
	}
	if config.ElectionTick == 0 {
		config.ElectionTick = electionTick
	}
	return config, nil
}

// start makes one node and starts it.
func (r *run) start(ctx context.Context, config *swarmkit.Config) error {
	made, err := swarmkit.New(config)
	if err != nil {
		return err
	}
	// The node's own end is asked for by Stop, not by a context.
	if err := made.Start(context.WithoutCancel(ctx)); err != nil {
		return err
	}
	r.mu.Lock()
	r.node = made
	r.mu.Unlock()
	return nil
}

// keep follows the node, and starts it again after it ended by itself, until the run is stopped.
func (r *run) keep(ctx context.Context, config *swarmkit.Config) {
	defer close(r.over)
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		began := time.Now()
		r.follow(ctx)
		if ctx.Err() != nil || !(r.isKnown || r.wasReady()) {
			return
		}
		if time.Since(began) > longestPause {
			pause = firstPause
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		// A manager that was joined may be gone; the node's own files know the others.
		config.JoinAddr, config.JoinToken, config.ForceNewCluster = "", "", false
		if err := r.start(ctx, config); err != nil {
			r.failed(err)
			log.G(ctx).WithError(err).Error("the node cannot be started")
		}
	}
}

// follow keeps the connection to the managers, and returns when the node has ended.
func (r *run) follow(ctx context.Context) {
	r.mu.Lock()
	node := r.node
	r.mu.Unlock()
	if node == nil {
		return
	}
	followed, done := context.WithCancel(context.Background())
	defer done()
	go r.connections(followed, node)
	go r.readiness(followed, node)
	stopped := context.AfterFunc(ctx, func() {
		stopping, cancel := context.WithTimeout(context.Background(), 15*time.Second)
		defer cancel()
		if err := node.Stop(stopping); err != nil && !errors.Is(err, context.Canceled) {
			log.G(ctx).WithError(err).Warn("the node does not stop")
		}
	})
	defer stopped()
	err := node.Err(context.Background())
	r.mu.Lock()
	defer r.mu.Unlock()
	r.node, r.conn, r.err = nil, nil, err
	if err != nil {
		log.G(ctx).WithError(err).Error("the node ended")
	}
}

func (r *run) connections(ctx context.Context, node *swarmkit.Node) {
	for conn := range node.ListenControlSocket(ctx) {
		r.mu.Lock()
		if r.node == node {
			r.conn = conn
		}
		r.mu.Unlock()
	}
}

func (r *run) readiness(ctx context.Context, node *swarmkit.Node) {
	select {
	case <-ctx.Done():
		return
	case <-node.Ready():
	}
	r.mu.Lock()
	r.err = nil
	r.mu.Unlock()
	if err := r.member.joined(node.NodeID()); err != nil {
		log.G(ctx).WithError(err).Error("the node's state cannot be written")
	}
	if !r.wasReady() {
		close(r.first)
	}
}

// joined notes that the node is a member, so that a restart does not join again.
func (m *Member) joined(id string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.state == nil || (m.state.NodeID == id && m.state.RemoteAddr == "") {
		return nil
	}
	m.state.NodeID, m.state.RemoteAddr = id, ""
	return m.state.write(m.places.State)
}

func (r *run) wasReady() bool {
	select {
	case <-r.first:
		return true
	default:
		return false
	}
}

func (r *run) failed(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.err = err
}

func (r *run) error() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

// errLate: a node is not ready in time.
var errLate = errors.New("the node is not ready in time")

// ready waits for the node's first readiness.
func (m *Member) ready(ctx context.Context, limit time.Duration) error {
	r := m.current()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-r.first:
		return nil
	case <-r.over:
		if err := r.error(); err != nil {
			return err
		}
		return errors.New("the node ended before it was ready")
	case <-timer.C:
		return errLate
	case <-ctx.Done():
		return ctx.Err()
	}
}
