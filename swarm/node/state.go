package node

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// State is a member's own part of a swarm, kept in member.json: everything that a restart needs.
type State struct {
	// Format is the number of this form of the file.
	Format int
	// NodeID is the node's id; empty: it has not joined yet.
	NodeID string
	// ListenAddr and AdvertiseAddr have a port. AdvertiseAddr is empty where the other side shall find it.
	ListenAddr, AdvertiseAddr string
	// LocalAddr is the node's address as its info shows it.
	LocalAddr string
	// DataPathAddr and DataPathPort are where other nodes send the packets of overlay networks.
	DataPathAddr string `json:",omitempty"`
	DataPathPort uint32 `json:",omitempty"`
	// DefaultAddrPool and SubnetSize are what the subnets of overlay networks are taken from.
	DefaultAddrPool []string `json:",omitempty"`
	SubnetSize      uint32   `json:",omitempty"`
	// RemoteAddr is the manager that is joined; empty: this node began the swarm, or has joined.
	RemoteAddr string `json:",omitempty"`
	// Ticks of raft, as the swarm's Spec had them at init.
	HeartbeatTick, ElectionTick uint32 `json:",omitempty"`
}

const format = 1

// stateFile is in the directory of the swarm's state, where swarmkit has a state.json of its own.
const stateFile = "member.json"

// readState gives nil where the root is in no swarm.
func readState(dir string) (*State, error) {
	path := filepath.Join(dir, stateFile)
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	state := new(State)
	if err := json.Unmarshal(text, state); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if state.Format != format {
		return nil, fmt.Errorf("%s has format %d; this program knows format %d", path, state.Format, format)
	}
	return state, nil
}

// write replaces the file as a whole, and is on disk when it returns.
func (s *State) write(dir string) error {
	s.Format = format
	text, err := json.MarshalIndent(s, "", " ")
	if err != nil {
		return err
	}
	path := filepath.Join(dir, stateFile)
	if err := writeFile(path+".new", text); err != nil {
		return err
	}
	if err := os.Rename(path+".new", path); err != nil {
		return err
	}
	return flush(dir)
}

func writeFile(path string, text []byte) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer file.Close()
	if _, err := file.Write(text); err != nil {
		return err
	}
	return file.Sync()
}

func flush(dir string) error {
	opened, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer opened.Close()
	return opened.Sync()
}

// erase removes everything in the directory of the swarm's state; member.json goes first, so that a killed program leaves no half
// of a member.
func erase(dir string) error {
	if err := os.Remove(filepath.Join(dir, stateFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if err := os.RemoveAll(filepath.Join(dir, entry.Name())); err != nil {
			return err
		}
	}
	return flush(dir)
}
