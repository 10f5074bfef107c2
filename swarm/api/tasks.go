package api

import (
	"context"
	"net/http"

	types "github.com/docker/docker/api/types/swarm"
	"github.com/docker/docker/daemon/cluster/convert"
	"github.com/moby/swarmkit/v2/api"
)

func (s *Server) tasks(c *call) (reply, error) {
	given, err := c.filters("name", "id", "label", "service", "node", "desired-state", "runtime", "_up-to-date")
	if err != nil {
		return reply{}, err
	}
	asked := &api.ListTasksRequest_Filters{
		NamePrefixes: given["name"], IDPrefixes: given["id"], Labels: pairs(given["label"]), Runtimes: given["runtime"],
		UpToDate: len(given["_up-to-date"]) > 0,
	}
	states := given["desired-state"]
	if asked.DesiredStates, err = words[api.TaskState](states, api.TaskState_value, "desired-state"); err != nil {
		return reply{}, err
	}
	shown := []types.Task{}
	err = s.managers(c, func(ctx context.Context, control api.ControlClient) error {
		if err := resolveTasks(ctx, control, given, asked); err != nil {
			return err
		}
		answer, err := control.ListTasks(ctx, &api.ListTasksRequest{Filters: asked}, longestList)
		if err != nil {
			return err
		}
		for _, one := range answer.Tasks {
			// Attachments of single containers to networks are tasks of the managers, and none of clients.
			if one.Spec.GetContainer() == nil {
				continue
			}
			task, err := convert.TaskFromGRPC(*one)
			if err != nil {
				return err
			}
			shown = append(shown, task)
		}
		return nil
	})
	return reply{http.StatusOK, shown}, err
}

// resolveTasks replaces names of services and nodes by ids.
func resolveTasks(ctx context.Context, control api.ControlClient, given filters, asked *api.ListTasksRequest_Filters) error {
	for _, name := range given["service"] {
		found, err := findService(ctx, control, name, false)
		if err != nil {
			return err
		}
		asked.ServiceIDs = append(asked.ServiceIDs, found.ID)
	}
	for _, name := range given["node"] {
		found, err := findNode(ctx, control, name)
		if err != nil {
			return err
		}
		asked.NodeIDs = append(asked.NodeIDs, found.ID)
	}
	return nil
}

func (s *Server) task(c *call) (reply, error) {
	var shown types.Task
	err := s.managers(c, func(ctx context.Context, control api.ControlClient) error {
		found, err := findTask(ctx, control, c.id)
		if err != nil {
			return err
		}
		shown, err = convert.TaskFromGRPC(*found)
		return err
	})
	return reply{http.StatusOK, shown}, err
}

func findTask(ctx context.Context, control api.ControlClient, name string) (*api.Task, error) {
	get := func() (*api.Task, error) {
		answer, err := control.GetTask(ctx, &api.GetTaskRequest{TaskID: name})
		if err != nil {
			return nil, err
		}
		return answer.Task, nil
	}
	list := func(names, prefixes []string) ([]*api.Task, error) {
		asked := &api.ListTasksRequest{Filters: &api.ListTasksRequest_Filters{Names: names, IDPrefixes: prefixes}}
		answer, err := control.ListTasks(ctx, asked, longestList)
		if err != nil {
			return nil, err
		}
		return answer.Tasks, nil
	}
	return find("task", name, get, list)
}
