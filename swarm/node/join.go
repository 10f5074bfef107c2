package node

import (
	"context"
	"errors"
	"net"
	"strings"

	"coracle.dev/swarm/refusal"
	types "github.com/docker/docker/api/types/swarm"
	"github.com/moby/swarmkit/v2/api"
)

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
