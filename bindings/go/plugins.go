package coracle

/*
#include <coracle.h>
*/
import "C"

import (
	"context"
	"math"
	"runtime"
	"time"
)

// Plugins are the managed plugins of an engine: installed from registries, and run by the engine.
type Plugins struct{ engine *Engine }

// Privilege is a right on the host that a plugin needs.
type Privilege struct {
	Name, Description string
	Value             []string
}

// PluginSource says where a plugin comes from, and what is granted to the plugin.
type PluginSource struct {
	// Remote is repository[:tag] or repository@digest; "" of an upgrade: where the plugin came from before.
	Remote string
	// Privileges are granted: exactly those that the plugin needs; nil: all that the plugin needs.
	Privileges []Privilege
	// Auth is the credentials for the registry; nil: none.
	Auth *Auth
	// Progress gets the records.
	Progress ProgressFunc
}

func (p PluginSource) document(name string) (text, error) {
	body := M{"Remote": p.Remote, "Name": name}
	if p.Privileges != nil {
		body["Privileges"] = p.Privileges
	}
	if p.Auth != nil {
		body["Auth"] = p.Auth
	}
	return document(body)
}

// List lists the installed plugins by name, or those that pass the filters: "capability", "enabled".
func (s Plugins) List(_ context.Context, filters map[string][]string) ([]Document, error) {
	defer runtime.KeepAlive(s.engine)
	query, err := document(M{"filters": filters})
	if err != nil {
		return nil, err
	}
	_, answer, err := rawPluginList(s.engine.pointer, query)
	return documents(answer, err)
}

// Inspect describes a plugin in full, by its name, its id or the beginning of its id.
func (s Plugins) Inspect(_ context.Context, name string) (Document, error) {
	defer runtime.KeepAlive(s.engine)
	_, answer, err := rawPluginInspect(s.engine.pointer, given(name))
	return Document(answer), err
}

// Privileges lists the rights on the host that a plugin of a registry needs.
func (s Plugins) Privileges(ctx context.Context, remote string, auth *Auth) ([]Privilege, error) {
	defer runtime.KeepAlive(s.engine)
	credentials, err := auth.document()
	if err != nil {
		return nil, err
	}
	return asked[[]Privilege](ctx, nil, func(op *C.coracle_op) (string, error) {
		_, answer, err := rawPluginPrivileges(s.engine.pointer, given(remote), credentials, op)
		return answer, err
	})
}

// Pull installs a plugin from a registry, disabled, under a name, or under its remote where the name is "": its id.
func (s Plugins) Pull(ctx context.Context, name string, from PluginSource) (string, error) {
	defer runtime.KeepAlive(s.engine)
	body, err := from.document(name)
	if err != nil {
		return "", err
	}
	var id string
	err = during(ctx, from.Progress, func(op *C.coracle_op) (err error) {
		_, id, err = rawPluginPull(s.engine.pointer, body, op)
		return err
	})
	return id, err
}

// Upgrade puts another version in the place of a disabled plugin, whose settings are then those of the new version.
func (s Plugins) Upgrade(ctx context.Context, name string, from PluginSource) error {
	defer runtime.KeepAlive(s.engine)
	body, err := from.document("")
	if err != nil {
		return err
	}
	return during(ctx, from.Progress, func(op *C.coracle_op) error {
		_, err := rawPluginUpgrade(s.engine.pointer, given(name), body, op)
		return err
	})
}

// Enable runs a plugin, and waits until the plugin listens: for so long, in whole seconds, rounded up; 0: 30 s.
func (s Plugins) Enable(ctx context.Context, name string, wait time.Duration) error {
	seconds, err := wholeSeconds(wait)
	if err != nil {
		return err
	}
	return s.engine.does(ctx, func(op *C.coracle_op) error {
		_, err := rawPluginEnable(s.engine.pointer, given(name), seconds, op)
		return err
	})
}

func wholeSeconds(wait time.Duration) (C.uint32_t, error) {
	seconds := wait / time.Second
	if wait%time.Second > 0 {
		seconds++
	}
	if wait < 0 || seconds > math.MaxUint32 {
		return 0, refused(ErrInvalid, "wait: %v is not from 0 to %d seconds", wait, uint32(math.MaxUint32))
	}
	return C.uint32_t(seconds), nil
}

// pluginFlags are the flags of a call that may be forced.
func pluginFlags(force bool) uint64 {
	if force {
		return numPluginForce
	}
	return 0
}

// Disable ends a plugin; force: also while volumes or networks use the plugin.
func (s Plugins) Disable(ctx context.Context, name string, force bool) error {
	return s.engine.does(ctx, func(op *C.coracle_op) error {
		_, err := rawPluginDisable(s.engine.pointer, given(name), pluginFlags(force), op)
		return err
	})
}

// Remove removes a plugin with its files; force: also while the plugin is enabled, or volumes or networks use the plugin.
func (s Plugins) Remove(ctx context.Context, name string, force bool) error {
	return s.engine.does(ctx, func(op *C.coracle_op) error {
		_, err := rawPluginRemove(s.engine.pointer, given(name), pluginFlags(force), op)
		return err
	})
}

// Set changes settings of a disabled plugin, all of them or none: each is NAME[.FIELD]=VALUE.
func (s Plugins) Set(_ context.Context, name string, changes ...string) error {
	defer runtime.KeepAlive(s.engine)
	made, err := document(list(changes))
	if err != nil {
		return err
	}
	_, err = rawPluginSet(s.engine.pointer, given(name), made)
	return err
}
