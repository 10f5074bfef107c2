package api

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"coracle.dev/swarm/engine"
	"coracle.dev/swarm/image"
	"coracle.dev/swarm/refusal"
	types "github.com/docker/docker/api/types/swarm"
	"github.com/docker/docker/daemon/cluster/convert"
	"github.com/moby/swarmkit/v2/api"
	"github.com/moby/swarmkit/v2/manager/allocator/networkallocator"
)

// askRegistry bounds the question for an image's digest.
const askRegistry = 10 * time.Second

// spec checks a service's description, and gives it in the form of the control API.
func (s *Server) spec(ctx context.Context, control api.ControlClient, asked version, spec *types.ServiceSpec) (*api.ServiceSpec, error) {
	lower(asked, spec)
	if err := check(spec); err != nil {
		return nil, err
	}
	if err := s.networks(ctx, control, spec); err != nil {
		return nil, err
	}
	made, err := convert.ServiceSpecToGRPC(*spec)
	if err != nil {
		return nil, refusal.Invalid("%s", err)
	}
	if made.Task.GetContainer() == nil {
		return nil, refusal.Invalid("TaskTemplate: a service of this engine runs containers: ContainerSpec is needed")
	}
	return &made, nil
}

// lower takes members away that a version does not have.
func lower(asked version, spec *types.ServiceSpec) {
	container := spec.TaskTemplate.ContainerSpec
	if asked < 40 {
		if container != nil {
			container.Sysctls = nil
			for i := range container.Mounts {
				if bind := container.Mounts[i].BindOptions; bind != nil {
					bind.NonRecursive = false
				}
			}
		}
		if spec.TaskTemplate.Placement != nil {
			spec.TaskTemplate.Placement.MaxReplicas = 0
		}
	}
	if asked < 41 {
		if container != nil {
			container.CapabilityAdd, container.CapabilityDrop, container.Ulimits = nil, nil, nil
		}
		if resources := spec.TaskTemplate.Resources; resources != nil && resources.Limits != nil {
			resources.Limits.Pids = 0
		}
		spec.Mode.ReplicatedJob, spec.Mode.GlobalJob = nil, nil
	}
}

// check refuses what this program cannot run, before any manager sees it.
func check(spec *types.ServiceSpec) error {
	template := &spec.TaskTemplate
	if template.Runtime != "" && template.Runtime != types.RuntimeContainer {
		return refusal.Unbuilt("TaskTemplate.Runtime: services run containers alone, not %q", template.Runtime)
	}
	if template.ContainerSpec == nil {
		return refusal.Invalid("TaskTemplate.ContainerSpec: ContainerSpec: image reference must be provided")
	}
	if len(template.ContainerSpec.Secrets)+len(template.ContainerSpec.Configs) > 0 {
		return refusal.Unbuilt("TaskTemplate.ContainerSpec: secrets and configs are not built yet")
	}
	if spec.EndpointSpec == nil {
		return nil
	}
	for _, port := range spec.EndpointSpec.Ports {
		if port.PublishMode != types.PortConfigPublishModeHost {
			const text = "EndpointSpec.Ports: port %d: publishing on all nodes is not built yet; PublishMode \"host\" is"
			return refusal.Unbuilt(text, port.TargetPort)
		}
	}
	return nil
}

// networks replaces names of networks by the ids of the swarm's networks.
func (s *Server) networks(ctx context.Context, control api.ControlClient, spec *types.ServiceSpec) error {
	lists := [][]types.NetworkAttachmentConfig{spec.TaskTemplate.Networks}
	if len(spec.TaskTemplate.Networks) == 0 {
		lists[0] = spec.Networks //nolint:staticcheck // the member of API 1.24
	}
	for _, list := range lists {
		for i := range list {
			id, err := s.target(ctx, control, list[i].Target)
			if err != nil {
				return err
			}
			list[i].Target = id
		}
	}
	return nil
}

// target gives the id of the swarm's network that a service names.
func (s *Server) target(ctx context.Context, control api.ControlClient, name string) (string, error) {
	answer, err := control.ListNetworks(ctx, &api.ListNetworksRequest{}, longestList)
	if err != nil {
		return "", err
	}
	for _, network := range answer.Networks {
		_, isHere := network.Spec.Annotations.Labels[networkallocator.PredefinedLabel]
		isNamed := network.ID == name || network.Spec.Annotations.Name == name
		switch {
		case isNamed && isHere:
			return network.ID, nil
		case isNamed && network.Spec.Ingress:
			return "", refusal.Invalid("Service cannot be explicitly attached to the ingress network %q", name)
		case isNamed:
			return "", refusal.Unbuilt("Networks: %s: overlay networks are not built yet", name)
		}
	}
	err = s.engine.Call(ctx, engine.Request{Method: http.MethodGet, Path: "/networks/" + url.PathEscape(name)}, nil)
	switch {
	case engine.IsMissing(err):
		return "", refusal.Missing("network %s not found", name)
	case err != nil:
		return "", err
	case name == "none":
		// Of the networks that every machine has, the swarm's managers do not know this one.
		return "", refusal.Missing("could not find the corresponding predefined swarm network: network %s not found", name)
	}
	return "", refusal.Forbidden("network %s is not eligible for docker services", name)
}

// pin asks the registry for the digest of an image, as the engine does for clients below API 1.30, so that all nodes run the same
// image. Without an answer the reference stays; the warning says so.
func (s *Server) pin(ctx context.Context, asked version, spec *api.ServiceSpec) []string {
	container := spec.Task.GetContainer()
	if asked >= 30 || image.IsContent(container.Image) {
		return nil
	}
	bounded, cancel := context.WithTimeout(ctx, askRegistry)
	defer cancel()
	request := engine.Request{Method: http.MethodGet, Path: "/distribution/" + container.Image + "/json"}
	if login := container.PullOptions; login != nil {
		request.Headers = map[string]string{"X-Registry-Auth": login.RegistryAuth}
	}
	var answer struct {
		Descriptor struct{ Digest string }
	}
	if err := s.engine.Call(bounded, request, &answer); err != nil || answer.Descriptor.Digest == "" {
		const text = "image %s could not be accessed on a registry to record\nits digest. Each node will access %s independently,\npossibly leading to different nodes running different\nversions of the image.\n"
		return []string{fmt.Sprintf(text, container.Image, container.Image)}
	}
	container.Image = image.WithTag(container.Image) + "@" + answer.Descriptor.Digest
	return nil
}
