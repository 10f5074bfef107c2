// Package node is this machine's membership of a swarm: how it begins, joins, runs and leaves one.
package node

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"coracle.dev/swarm/refusal"
	types "github.com/docker/docker/api/types/swarm"
	"github.com/docker/docker/daemon/cluster/convert"
	"github.com/docker/docker/libnetwork/cnmallocator"
	"github.com/moby/swarmkit/v2/agent/exec"
	"github.com/moby/swarmkit/v2/api"
	"github.com/moby/swarmkit/v2/log"
	"github.com/moby/swarmkit/v2/manager/allocator/networkallocator"
	swarmkit "github.com/moby/swarmkit/v2/node"
	"google.golang.org/grpc"
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

// how has what only the first start of a node needs.
type how struct {
	token        string
	force        bool
	autolock     bool
	availability types.NodeAvailability
}

func (m *Member) isOutside() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.state == nil
}

// IsMember tells whether this machine is in a swarm, or joins one.
func (m *Member) IsMember() bool { return !m.isOutside() }

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

// Join makes this machine a member of a swarm.
func (m *Member) Join(ctx context.Context, request types.JoinRequest) error {
	m.turn.Lock()
	defer m.turn.Unlock()
	if !m.isOutside() {
		return refusal.State(textMember)
	}
	state, err := joining(&request)
	if err != nil {
		return err
	}
	m.set(state)
	if err := m.begin(how{token: request.JoinToken, availability: request.Availability}); err != nil {
		return errors.Join(err, m.forget())
	}
	err = m.ready(ctx, deadline)
	if err != nil && !errors.Is(err, errLate) {
		m.end()
		return errors.Join(err, m.forget())
	}
	if err != nil {
		return refusal.State(textTimeout)
	}
	return nil
}

// joining checks a request to join a swarm.
func joining(request *types.JoinRequest) (*State, error) {
	if len(request.RemoteAddrs) == 0 {
		return nil, refusal.Invalid("at least 1 RemoteAddr is required to join")
	}
	if request.ListenAddr == "" {
		request.ListenAddr = "0.0.0.0:2377"
	}
	host, port, err := listenAddress(request.ListenAddr)
	if err != nil {
		return nil, err
	}
	state := &State{ListenAddr: net.JoinHostPort(host, port)}
	if request.AdvertiseAddr != "" {
		if state.AdvertiseAddr, err = advertised(request.AdvertiseAddr, port); err != nil {
			return nil, err
		}
	}
	if state.DataPathAddr, err = dataPath(request.DataPathAddr); err != nil {
		return nil, err
	}
	if !isToken(request.JoinToken) {
		return nil, refusal.Invalid("invalid join token")
	}
	if _, err := availability(request.Availability); err != nil {
		return nil, err
	}
	for i, address := range request.RemoteAddrs {
		if _, _, err := net.SplitHostPort(address); err != nil {
			request.RemoteAddrs[i] = net.JoinHostPort(address, "2377")
		}
	}
	state.RemoteAddr, state.LocalAddr = answering(request.RemoteAddrs)
	if ip := net.ParseIP(host); !ip.IsUnspecified() {
		state.LocalAddr = host
	}
	return state, nil
}

// isToken tells whether a text has the form SWMTKN-1-DIGEST-SECRET, with 50 and 25 digits of base 36.
func isToken(text string) bool {
	parts := strings.Split(text, "-")
	if len(parts) != 4 || parts[0] != "SWMTKN" || (parts[1] != "1" && parts[1] != "2") {
		return false
	}
	return isBase36(parts[2], 50) && isBase36(parts[3], 25)
}

func isBase36(text string, length int) bool {
	isOther := func(r rune) bool { return !(r >= '0' && r <= '9') && !(r >= 'a' && r <= 'z') }
	return len(text) == length && !strings.ContainsFunc(text, isOther)
}

// answering is the first of some addresses that a connection reaches, and the machine's own address of that connection; the first
// of all where none answers.
func answering(addresses []string) (remote, local string) {
	for _, address := range addresses {
		connection, err := net.DialTimeout("tcp", address, reach)
		if err != nil {
			continue
		}
		defer connection.Close()
		if host, _, err := net.SplitHostPort(connection.LocalAddr().String()); err == nil {
			local = host
		}
		return address, local
	}
	return addresses[0], ""
}

func availability(text types.NodeAvailability) (api.NodeSpec_Availability, error) {
	if text == "" {
		return api.NodeAvailabilityActive, nil
	}
	found, ok := api.NodeSpec_Availability_value[strings.ToUpper(string(text))]
	if !ok {
		return 0, refusal.Invalid("invalid Availability: %q", text)
	}
	return api.NodeSpec_Availability(found), nil
}

func (m *Member) set(state *State) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.state = state
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
