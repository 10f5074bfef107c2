package coracle

/*
#include <coracle.h>
*/
import "C"

import (
	"context"
	"runtime"
)

// Networks are the networks of an engine.
type Networks struct{ engine *Engine }

// does makes a call that gives nothing.
func (e *Engine) does(ctx context.Context, call func(*C.coracle_op) error) error {
	defer runtime.KeepAlive(e)
	return during(ctx, nil, call)
}

// Create makes a network of a body of POST /networks/create: its id.
func (s Networks) Create(ctx context.Context, body any) (string, error) {
	made, err := document(body)
	if err != nil {
		return "", err
	}
	var id string
	err = s.engine.does(ctx, func(op *C.coracle_op) (err error) {
		_, id, _, err = rawNetworkCreate(s.engine.pointer, made, op)
		return err
	})
	return id, err
}

// List lists networks by name, or those that pass the filters.
func (s Networks) List(_ context.Context, filters map[string][]string) ([]Document, error) {
	defer runtime.KeepAlive(s.engine)
	query, err := document(M{"filters": filters})
	if err != nil {
		return nil, err
	}
	_, answer, err := rawNetworkList(s.engine.pointer, query)
	return documents(answer, err)
}

// Inspect describes a network in full, by its name or id.
func (s Networks) Inspect(_ context.Context, id string) (Document, error) {
	defer runtime.KeepAlive(s.engine)
	_, answer, err := rawNetworkInspect(s.engine.pointer, given(id))
	return Document(answer), err
}

// Connect connects a container, running or not; endpoint: EndpointConfig's members, or nil.
func (s Networks) Connect(ctx context.Context, id, container string, endpoint any) error {
	body := M{"Container": container}
	if endpoint != nil {
		body["EndpointConfig"] = endpoint
	}
	made, err := document(body)
	if err != nil {
		return err
	}
	return s.engine.does(ctx, func(op *C.coracle_op) error {
		_, err := rawNetworkConnect(s.engine.pointer, given(id), made, op)
		return err
	})
}

// Disconnect disconnects a container, running or not.
func (s Networks) Disconnect(ctx context.Context, id, container string, force bool) error {
	made, err := document(M{"Container": container, "Force": force})
	if err != nil {
		return err
	}
	return s.engine.does(ctx, func(op *C.coracle_op) error {
		_, err := rawNetworkDisconnect(s.engine.pointer, given(id), made, op)
		return err
	})
}

// Remove removes a network.
func (s Networks) Remove(ctx context.Context, id string) error {
	return s.engine.does(ctx, func(op *C.coracle_op) error {
		_, err := rawNetworkRemove(s.engine.pointer, given(id), op)
		return err
	})
}

// Prune removes networks that no container is on.
func (s Networks) Prune(ctx context.Context, filters map[string][]string) (Document, error) {
	made, err := filtering(filters)
	if err != nil {
		return nil, err
	}
	return s.engine.document(ctx, nil, func(op *C.coracle_op) (string, error) {
		_, answer, err := rawNetworkPrune(s.engine.pointer, made, op)
		return answer, err
	})
}

// Release removes the kernel's parts of networks without running containers; the next start makes them again.
func (s Networks) Release(ctx context.Context) error {
	return s.engine.does(ctx, func(op *C.coracle_op) error {
		_, err := rawNetworkRelease(s.engine.pointer, op)
		return err
	})
}

// Repair puts back the parts of networks that another program removed: rules of the firewall, bridges.
func (s Networks) Repair(ctx context.Context) error {
	return s.engine.does(ctx, func(op *C.coracle_op) error {
		_, err := rawNetworkRepair(s.engine.pointer, op)
		return err
	})
}

// Volumes are the volumes of an engine.
type Volumes struct{ engine *Engine }

// Volume is a directory that outlives containers.
type Volume struct {
	Name, Driver, Mountpoint string
	Labels, Options          map[string]string
	// Document is the whole document.
	Document Document `json:"-"`
}

func volume(answer string, problem error) (Volume, error) {
	made, err := decoded[Volume](answer, problem)
	made.Document = Document(answer)
	return made, err
}

// Create makes a volume of a body of POST /volumes/create: "Name", "Driver", "DriverOpts", "Labels".
func (s Volumes) Create(ctx context.Context, body any) (Volume, error) {
	made, err := document(body)
	if err != nil {
		return Volume{}, err
	}
	var answer string
	err = s.engine.does(ctx, func(op *C.coracle_op) (err error) {
		_, _, answer, err = rawVolumeCreate(s.engine.pointer, made, op)
		return err
	})
	return volume(answer, err)
}

// List lists volumes by name, or those that pass the filters.
func (s Volumes) List(_ context.Context, filters map[string][]string) ([]Volume, error) {
	defer runtime.KeepAlive(s.engine)
	query, err := document(M{"filters": filters})
	if err != nil {
		return nil, err
	}
	_, answer, err := rawVolumeList(s.engine.pointer, query)
	made, err := decoded[struct{ Volumes []Volume }](answer, err)
	return made.Volumes, err
}

// Inspect describes a volume in full.
func (s Volumes) Inspect(_ context.Context, name string) (Volume, error) {
	defer runtime.KeepAlive(s.engine)
	_, answer, err := rawVolumeInspect(s.engine.pointer, given(name))
	return volume(answer, err)
}

// Remove removes a volume and its content.
func (s Volumes) Remove(ctx context.Context, name string) error {
	return s.engine.does(ctx, func(op *C.coracle_op) error {
		_, err := rawVolumeRemove(s.engine.pointer, given(name), op)
		return err
	})
}

// Prune removes the volumes that nobody named and no container uses; with the filter all=true also those with a name.
func (s Volumes) Prune(ctx context.Context, filters map[string][]string) (Document, error) {
	made, err := filtering(filters)
	if err != nil {
		return nil, err
	}
	return s.engine.document(ctx, nil, func(op *C.coracle_op) (string, error) {
		_, answer, err := rawVolumePrune(s.engine.pointer, made, op)
		return answer, err
	})
}
