package api

import (
	"context"
	"net/http"
	"slices"

	"coracle.dev/swarm/refusal"
	types "github.com/docker/docker/api/types/swarm"
	"github.com/docker/docker/daemon/cluster/convert"
	"github.com/moby/swarmkit/v2/api"
)

func (s *Server) services(c *call) (reply, error) {
	given, err := c.filters("name", "id", "label", "mode", "runtime")
	if err != nil {
		return reply{}, err
	}
	withStatus := false
	if c.version >= 41 {
		if withStatus, err = c.flag("status"); err != nil {
			return reply{}, err
		}
	}
	asked := &api.ListServicesRequest_Filters{
		NamePrefixes: given["name"], IDPrefixes: given["id"], Labels: pairs(given["label"]), Runtimes: given["runtime"],
	}
	shown := []types.Service{}
	err = s.managers(c, func(ctx context.Context, control api.ControlClient) error {
		answer, err := control.ListServices(ctx, &api.ListServicesRequest{Filters: asked}, longestList)
		if err != nil {
			return err
		}
		for _, one := range answer.Services {
			service, err := convert.ServiceFromGRPC(*one)
			if err != nil {
				return err
			}
			if hasMode(&service, given["mode"]) {
				shown = append(shown, service)
			}
		}
		if withStatus {
			return addStatus(ctx, control, shown)
		}
		return nil
	})
	return reply{http.StatusOK, shown}, err
}

// hasMode tells whether a service has one of some modes; no mode: it has.
func hasMode(service *types.Service, modes []string) bool {
	mode := service.Spec.Mode
	for word, has := range map[string]bool{
		"replicated": mode.Replicated != nil, "global": mode.Global != nil,
		"replicated-job": mode.ReplicatedJob != nil, "global-job": mode.GlobalJob != nil,
	} {
		if has && slices.Contains(modes, word) {
			return true
		}
	}
	return len(modes) == 0
}

// addStatus adds how many tasks of each service run, and how many should.
func addStatus(ctx context.Context, control api.ControlClient, services []types.Service) error {
	ids := make([]string, len(services))
	byID := map[string]*types.Service{}
	for i := range services {
		ids[i], byID[services[i].ID] = services[i].ID, &services[i]
	}
	if len(ids) == 0 {
		return nil
	}
	answer, err := control.ListServiceStatuses(ctx, &api.ListServiceStatusesRequest{Services: ids}, longestList)
	if err != nil {
		return err
	}
	for _, one := range answer.Statuses {
		if service := byID[one.ServiceID]; service != nil {
			service.ServiceStatus = &types.ServiceStatus{
				RunningTasks: one.RunningTasks, DesiredTasks: one.DesiredTasks, CompletedTasks: one.CompletedTasks,
			}
		}
	}
	return nil
}

func findService(ctx context.Context, control api.ControlClient, name string, withDefaults bool) (*api.Service, error) {
	get := func(id string) (*api.Service, error) {
		answer, err := control.GetService(ctx, &api.GetServiceRequest{ServiceID: id, InsertDefaults: withDefaults})
		if err != nil {
			return nil, err
		}
		return answer.Service, nil
	}
	list := func(names, prefixes []string) ([]*api.Service, error) {
		asked := &api.ListServicesRequest{Filters: &api.ListServicesRequest_Filters{Names: names, IDPrefixes: prefixes}}
		answer, err := control.ListServices(ctx, asked, longestList)
		if err != nil {
			return nil, err
		}
		return answer.Services, nil
	}
	found, err := find("service", name, func() (*api.Service, error) { return get(name) }, list)
	// A list has no defaults in it.
	if err == nil && withDefaults && found.ID != name {
		return get(found.ID)
	}
	return found, err
}

func (s *Server) service(c *call) (reply, error) {
	withDefaults, err := c.flag("insertDefaults")
	if err != nil {
		return reply{}, err
	}
	var shown types.Service
	err = s.managers(c, func(ctx context.Context, control api.ControlClient) error {
		found, err := findService(ctx, control, c.id, withDefaults)
		if err != nil {
			return err
		}
		shown, err = convert.ServiceFromGRPC(*found)
		return err
	})
	return reply{http.StatusOK, shown}, err
}

func (s *Server) removeService(c *call) (reply, error) {
	err := s.managers(c, func(ctx context.Context, control api.ControlClient) error {
		found, err := findService(ctx, control, c.id, false)
		if err != nil {
			return err
		}
		_, err = control.RemoveService(ctx, &api.RemoveServiceRequest{ServiceID: found.ID})
		return err
	})
	return reply{status: http.StatusOK}, err
}

func (s *Server) createService(c *call) (reply, error) {
	var spec types.ServiceSpec
	if err := c.read(&spec); err != nil {
		return reply{}, err
	}
	var created types.ServiceCreateResponse
	err := s.managers(c, func(ctx context.Context, control api.ControlClient) error {
		made, err := s.spec(ctx, control, c.version, &spec)
		if err != nil {
			return err
		}
		login(made, c.auth)
		created.Warnings = s.pin(ctx, c.version, made)
		answer, err := control.CreateService(ctx, &api.CreateServiceRequest{Spec: made})
		if err != nil {
			return err
		}
		created.ID = answer.Service.ID
		return nil
	})
	return reply{http.StatusCreated, created}, err
}

func (s *Server) updateService(c *call) (reply, error) {
	var spec types.ServiceSpec
	if err := c.read(&spec); err != nil {
		return reply{}, err
	}
	index, err := c.index("service")
	if err != nil {
		return reply{}, err
	}
	request := &api.UpdateServiceRequest{ServiceVersion: index}
	switch word := c.query.Get("rollback"); word {
	case "", "none":
	case "previous":
		request.Rollback = api.UpdateServiceRequest_PREVIOUS
	default:
		return reply{}, refusal.Invalid("unrecognized rollback option %s", word)
	}
	var updated types.ServiceUpdateResponse
	err = s.managers(c, func(ctx context.Context, control api.ControlClient) error {
		if request.Spec, err = s.spec(ctx, control, c.version, &spec); err != nil {
			return err
		}
		found, err := findService(ctx, control, c.id, false)
		if err != nil {
			return err
		}
		if err := keepLogin(request.Spec, found, c); err != nil {
			return err
		}
		updated.Warnings = s.pin(ctx, c.version, request.Spec)
		request.ServiceID = found.ID
		_, err = control.UpdateService(ctx, request)
		return err
	})
	return reply{http.StatusOK, updated}, err
}

// login notes the login for the image's registry.
func login(spec *api.ServiceSpec, auth string) {
	if auth != "" {
		spec.Task.GetContainer().PullOptions = &api.ContainerSpec_PullOptions{RegistryAuth: auth}
	}
}

// keepLogin notes the login of the request, or else that of the service as it is.
func keepLogin(spec *api.ServiceSpec, service *api.Service, c *call) error {
	if c.auth != "" {
		login(spec, c.auth)
		return nil
	}
	from := &service.Spec
	switch word := c.query.Get("registryAuthFrom"); word {
	case "", "spec":
	case "previous-spec":
		if from = service.PreviousSpec; from == nil {
			return refusal.Invalid("service does not have a previous spec")
		}
	default:
		return refusal.Invalid("unsupported registryAuthFrom value %q", word)
	}
	if container := from.Task.GetContainer(); container != nil {
		spec.Task.GetContainer().PullOptions = container.PullOptions
	}
	return nil
}
