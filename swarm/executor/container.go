package executor

import (
	"errors"
	"fmt"
	"strings"
	"time"

	gogo "github.com/gogo/protobuf/types"
	"github.com/moby/swarmkit/v2/api"
	"github.com/moby/swarmkit/v2/api/naming"
	"github.com/moby/swarmkit/v2/manager/allocator/networkallocator"
)

// container is what a task asks of the engine.
type container struct {
	name    string
	body    body
	volumes []volume
	// ports are those that this machine publishes for the task.
	ports []*api.PortConfig
	// grace is the time between the request to end and the kill; nil: the engine's own.
	grace *time.Duration
}

// body is the request to create a container.
type body struct {
	Image        string
	Hostname     string            `json:",omitempty"`
	User         string            `json:",omitempty"`
	WorkingDir   string            `json:",omitempty"`
	Entrypoint   []string          `json:",omitempty"`
	Cmd          []string          `json:",omitempty"`
	Env          []string          `json:",omitempty"`
	Labels       map[string]string `json:",omitempty"`
	Tty          bool
	OpenStdin    bool
	StopSignal   string              `json:",omitempty"`
	StopTimeout  *int                `json:",omitempty"`
	ExposedPorts map[string]struct{} `json:",omitempty"`
	Healthcheck  *health             `json:",omitempty"`
	HostConfig   host
}

type health struct {
	Test                           []string      `json:",omitempty"`
	Interval, Timeout, StartPeriod time.Duration `json:",omitempty"`
	StartInterval                  time.Duration `json:",omitempty"`
	Retries                        int           `json:",omitempty"`
}

type host struct {
	NetworkMode    string               `json:",omitempty"`
	Mounts         []mount              `json:",omitempty"`
	PortBindings   map[string][]binding `json:",omitempty"`
	RestartPolicy  struct{ Name string }
	LogConfig      *logConfig        `json:",omitempty"`
	CpuPeriod      int64             `json:",omitempty"`
	CpuQuota       int64             `json:",omitempty"`
	Memory         int64             `json:",omitempty"`
	PidsLimit      int64             `json:",omitempty"`
	GroupAdd       []string          `json:",omitempty"`
	ExtraHosts     []string          `json:",omitempty"`
	Dns            []string          `json:",omitempty"`
	DnsSearch      []string          `json:",omitempty"`
	DnsOptions     []string          `json:",omitempty"`
	ReadonlyRootfs bool              `json:",omitempty"`
	Init           *bool             `json:",omitempty"`
	CapAdd         []string          `json:",omitempty"`
	CapDrop        []string          `json:",omitempty"`
	Sysctls        map[string]string `json:",omitempty"`
	Ulimits        []ulimit          `json:",omitempty"`
	OomScoreAdj    int64             `json:",omitempty"`
	SecurityOpt    []string          `json:",omitempty"`
}

type ulimit struct {
	Name       string
	Soft, Hard int64
}

type logConfig struct {
	Type   string
	Config map[string]string
}

type binding struct{ HostPort string }

type mount struct {
	Type          string
	Source        string         `json:",omitempty"`
	Target        string         `json:",omitempty"`
	ReadOnly      bool           `json:",omitempty"`
	BindOptions   *bindOptions   `json:",omitempty"`
	VolumeOptions *volumeOptions `json:",omitempty"`
	TmpfsOptions  *tmpfsOptions  `json:",omitempty"`
}

type bindOptions struct {
	Propagation      string `json:",omitempty"`
	NonRecursive     bool   `json:",omitempty"`
	CreateMountpoint bool   `json:",omitempty"`
}

type volumeOptions struct {
	NoCopy       bool              `json:",omitempty"`
	Labels       map[string]string `json:",omitempty"`
	DriverConfig *driver           `json:",omitempty"`
	Subpath      string            `json:",omitempty"`
}

type driver struct {
	Name    string            `json:",omitempty"`
	Options map[string]string `json:",omitempty"`
}

type tmpfsOptions struct {
	SizeBytes int64  `json:",omitempty"`
	Mode      uint32 `json:",omitempty"`
}

type volume struct {
	Name       string
	Driver     string            `json:",omitempty"`
	DriverOpts map[string]string `json:",omitempty"`
	Labels     map[string]string `json:",omitempty"`
}

// describe gives the container of a task, whose templates are filled in.
func describe(task *api.Task, spec *api.ContainerSpec) (*container, error) {
	made := &container{name: naming.Task(task)}
	made.body = body{
		Image: spec.Image, Hostname: spec.Hostname, User: spec.User, WorkingDir: spec.Dir, Env: spec.Env,
		Labels: labels(task, spec, made.name), Tty: spec.TTY, OpenStdin: spec.OpenStdin, StopSignal: spec.StopSignal,
		Healthcheck: healthcheck(spec.Healthcheck),
	}
	// A service's Command replaces the image's entry point, and its Args the image's command.
	made.body.Entrypoint, made.body.Cmd = spec.Command, spec.Args
	if spec.StopGracePeriod != nil {
		grace := span(spec.StopGracePeriod)
		seconds := int((grace + time.Second - 1) / time.Second)
		made.grace, made.body.StopTimeout = &grace, &seconds
	}
	host := &made.body.HostConfig
	// The managers restart tasks, each as another container.
	host.RestartPolicy.Name = "no"
	host.GroupAdd, host.ReadonlyRootfs, host.Sysctls, host.OomScoreAdj = spec.Groups, spec.ReadOnly, spec.Sysctls, spec.OomScoreAdj
	host.CapAdd, host.CapDrop, host.ExtraHosts = spec.CapabilityAdd, spec.CapabilityDrop, hosts(spec.Hosts)
	if spec.Init != nil {
		host.Init = &spec.Init.Value
	}
	if dns := spec.DNSConfig; dns != nil {
		host.Dns, host.DnsSearch, host.DnsOptions = dns.Nameservers, dns.Search, dns.Options
	}
	for _, one := range spec.Ulimits {
		host.Ulimits = append(host.Ulimits, ulimit{one.Name, one.Soft, one.Hard})
	}
	if log := task.LogDriver; log != nil {
		host.LogConfig = &logConfig{log.Name, log.Options}
	}
	host.limit(task)
	if err := host.secure(spec.Privileges); err != nil {
		return nil, err
	}
	if err := host.connect(task); err != nil {
		return nil, err
	}
	if err := made.mounts(spec.Mounts); err != nil {
		return nil, err
	}
	made.publish(task)
	return made, nil
}

func labels(task *api.Task, spec *api.ContainerSpec, name string) map[string]string {
	made := map[string]string{}
	for key, value := range spec.Labels {
		made[key] = value
	}
	for key, value := range map[string]string{
		labelTask: "", labelTaskID: task.ID, labelTaskName: name, labelNodeID: task.NodeID,
		labelServiceID: task.ServiceID, labelServiceName: task.ServiceAnnotations.Name,
	} {
		made[key] = value
	}
	return made
}

func healthcheck(spec *api.HealthConfig) *health {
	if spec == nil {
		return nil
	}
	return &health{
		Test: spec.Test, Interval: span(spec.Interval), Timeout: span(spec.Timeout), StartPeriod: span(spec.StartPeriod),
		StartInterval: span(spec.StartInterval), Retries: int(spec.Retries),
	}
}

// span is a time of the control API; its own checks refused wrong ones.
func span(given *gogo.Duration) time.Duration {
	if given == nil {
		return 0
	}
	return time.Duration(given.Seconds)*time.Second + time.Duration(given.Nanos)
}

// hosts turns lines of a hosts file, address and names, into name:address.
func hosts(lines []string) []string {
	var made []string
	for _, line := range lines {
		words := strings.Fields(line)
		for i := 1; i < len(words); i++ {
			made = append(made, words[i]+":"+words[0])
		}
	}
	return made
}

func (h *host) limit(task *api.Task) {
	h.PidsLimit = task.Spec.GetContainer().PidsLimit
	if task.Spec.Resources == nil || task.Spec.Resources.Limits == nil {
		return
	}
	limits := task.Spec.Resources.Limits
	h.Memory = limits.MemoryBytes
	if limits.NanoCPUs > 0 {
		// A part of a processor is a part of each tenth of a second.
		h.CpuPeriod, h.CpuQuota = 100_000, limits.NanoCPUs/10_000
	}
}

func (h *host) secure(spec *api.Privileges) error {
	if spec == nil {
		return nil
	}
	if spec.CredentialSpec != nil {
		return errors.New("ContainerSpec.Privileges.CredentialSpec: only Windows has it")
	}
	add := func(option, value string) {
		if value != "" {
			h.SecurityOpt = append(h.SecurityOpt, option+value)
		}
	}
	if labels := spec.SELinuxContext; labels != nil {
		if labels.Disable {
			add("label=", "disable")
		}
		add("label=user:", labels.User)
		add("label=role:", labels.Role)
		add("label=type:", labels.Type)
		add("label=level:", labels.Level)
	}
	if seccomp := spec.Seccomp; seccomp != nil {
		switch seccomp.Mode {
		case api.Privileges_SeccompOpts_UNCONFINED:
			add("seccomp=", "unconfined")
		case api.Privileges_SeccompOpts_CUSTOM:
			add("seccomp=", string(seccomp.Profile))
		}
	}
	if apparmor := spec.Apparmor; apparmor != nil && apparmor.Mode == api.Privileges_AppArmorOpts_DISABLED {
		add("apparmor=", "unconfined")
	}
	if spec.NoNewPrivileges {
		add("no-new-privileges", "=true")
	}
	return nil
}

// connect names the network of a task: one that every machine has. Without a network it is the default bridge.
func (h *host) connect(task *api.Task) error {
	for _, attachment := range task.Networks {
		spec := attachment.Network.Spec
		if _, isHere := spec.Annotations.Labels[networkallocator.PredefinedLabel]; !isHere {
			return fmt.Errorf("network %s: overlay networks are not built yet", spec.Annotations.Name)
		}
		if h.NetworkMode != "" {
			return fmt.Errorf("networks %s and %s: a task has one of the machine's own networks", h.NetworkMode, spec.Annotations.Name)
		}
		h.NetworkMode = spec.Annotations.Name
	}
	return nil
}

func (c *container) mounts(list []api.Mount) error {
	for i := range list {
		made, err := c.mount(&list[i])
		if err != nil {
			return err
		}
		c.body.HostConfig.Mounts = append(c.body.HostConfig.Mounts, made)
	}
	return nil
}

func (c *container) mount(given *api.Mount) (mount, error) {
	made := mount{Source: given.Source, Target: given.Target, ReadOnly: given.ReadOnly}
	switch given.Type {
	case api.MountTypeBind:
		made.Type = "bind"
		if options := given.BindOptions; options != nil {
			made.BindOptions = &bindOptions{
				Propagation: strings.ToLower(options.Propagation.String()), NonRecursive: options.NonRecursive,
				CreateMountpoint: options.CreateMountpoint,
			}
		}
	case api.MountTypeVolume:
		made.Type = "volume"
		c.volume(given, &made)
	case api.MountTypeTmpfs:
		made.Type = "tmpfs"
		if options := given.TmpfsOptions; options != nil {
			made.TmpfsOptions = &tmpfsOptions{options.SizeBytes, uint32(options.Mode)}
		}
	default:
		return made, fmt.Errorf("Mounts: %s: the type %s is not built", given.Target, strings.ToLower(given.Type.String()))
	}
	return made, nil
}

// volume notes the options of a volume; one with a name is made before the container, with its labels.
func (c *container) volume(given *api.Mount, made *mount) {
	options := given.VolumeOptions
	if options == nil {
		return
	}
	made.VolumeOptions = &volumeOptions{NoCopy: options.NoCopy, Labels: options.Labels, Subpath: options.Subpath}
	named := volume{Name: given.Source, Labels: options.Labels}
	if config := options.DriverConfig; config != nil {
		made.VolumeOptions.DriverConfig = &driver{config.Name, config.Options}
		named.Driver, named.DriverOpts = config.Name, config.Options
	}
	if given.Source != "" {
		c.volumes = append(c.volumes, named)
	}
}

// publish asks for the ports that the task's machine publishes itself.
func (c *container) publish(task *api.Task) {
	if task.Endpoint == nil {
		return
	}
	for _, port := range task.Endpoint.Ports {
		if port.PublishMode != api.PublishModeHost {
			continue
		}
		if c.body.ExposedPorts == nil {
			c.body.ExposedPorts = map[string]struct{}{}
			c.body.HostConfig.PortBindings = map[string][]binding{}
		}
		key, at := portKey(port), binding{}
		if port.PublishedPort != 0 {
			at.HostPort = fmt.Sprint(port.PublishedPort)
		}
		c.body.ExposedPorts[key] = struct{}{}
		c.body.HostConfig.PortBindings[key] = append(c.body.HostConfig.PortBindings[key], at)
		c.ports = append(c.ports, port)
	}
}

func portKey(port *api.PortConfig) string {
	return fmt.Sprintf("%d/%s", port.TargetPort, strings.ToLower(port.Protocol.String()))
}
