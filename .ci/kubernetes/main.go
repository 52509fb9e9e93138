// Command kubernetes checks the kustomize base in the folder named: it is built as kubectl apply -k
// builds it, every document is decoded strictly by the API's own types, and what refers to each
// other by name does so rightly. The settings in it are read by the vitrine named.
//
//	kubernetes FOLDER VITRINE
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	apps "k8s.io/api/apps/v1"
	autoscaling "k8s.io/api/autoscaling/v2"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "want: kubernetes FOLDER VITRINE")
		os.Exit(2)
	}
	if err := check(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func check(folder, vitrine string) error {
	work, err := os.MkdirTemp("", "kubernetes-*")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(work) }()
	if err := os.CopyFS(work, os.DirFS(folder)); err != nil {
		return err
	}
	for name, content := range map[string]string{
		"admin-token": "0123456789abcdef", "redis-url": "redis://:hunter2@redis.example.svc:6379/0",
	} {
		if err := os.WriteFile(filepath.Join(work, name), []byte(content), 0o600); err != nil {
			return err
		}
	}
	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), work)
	if err != nil {
		return fmt.Errorf("kustomize: %w", err)
	}
	text, err := built.AsYaml()
	if err != nil {
		return err
	}
	var b base
	if err := b.decode(text); err != nil {
		return err
	}
	return errors.Join(b.names(), b.selectors(), b.peers(), b.memory(), b.settings(work, vitrine))
}

// base is what the folder comes to.
type base struct {
	deployment apps.Deployment
	services   []core.Service
	config     core.ConfigMap
	secret     core.Secret
	budget     policy.PodDisruptionBudget
	scaler     autoscaling.HorizontalPodAutoscaler
	network    networking.NetworkPolicy
	monitor    monitoring.ServiceMonitor
}

// decode reads every document, strictly: a field that its type does not have, or has already, is an
// error.
func (b *base) decode(text []byte) error {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		apps.AddToScheme, autoscaling.AddToScheme, core.AddToScheme, networking.AddToScheme, policy.AddToScheme, monitoring.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			return err
		}
	}
	serializer := json.NewSerializerWithOptions(json.DefaultMetaFactory, scheme, scheme, json.SerializerOptions{Yaml: true, Strict: true})
	for document := range bytes.SplitSeq(text, []byte("\n---\n")) {
		object, kind, err := serializer.Decode(document, nil, nil)
		if err != nil {
			return fmt.Errorf("%w in\n%s", err, document)
		}
		switch o := object.(type) {
		case *apps.Deployment:
			b.deployment = *o
		case *core.Service:
			b.services = append(b.services, *o)
		case *core.ConfigMap:
			b.config = *o
		case *core.Secret:
			b.secret = *o
		case *policy.PodDisruptionBudget:
			b.budget = *o
		case *autoscaling.HorizontalPodAutoscaler:
			b.scaler = *o
		case *networking.NetworkPolicy:
			b.network = *o
		case *monitoring.ServiceMonitor:
			b.monitor = *o
		default:
			return fmt.Errorf("%s is not expected in the base", kind)
		}
		_, _ = fmt.Fprintln(os.Stdout, "ok   ", kind.Kind)
	}
	return nil
}

// names checks that what is named is there under that name.
func (b *base) names() (failed error) {
	is := func(where, got, want string) {
		if got != want || got == "" {
			failed = errors.Join(failed, fmt.Errorf("%s: %q, want %q", where, got, want))
		}
	}
	pod := b.deployment.Spec.Template.Spec
	container := pod.Containers[0]
	ports := map[string]bool{}
	for _, port := range container.Ports {
		ports[port.Name] = true
	}
	port := func(where string, p *intstr.IntOrString) {
		if p.Type == intstr.String && !ports[p.StrVal] {
			failed = errors.Join(failed, fmt.Errorf("%s: the container has no port %q", where, p.StrVal))
		}
	}
	for name, probe := range map[string]*core.Probe{
		"startup": container.StartupProbe, "liveness": container.LivenessProbe, "readiness": container.ReadinessProbe,
	} {
		if probe == nil || probe.HTTPGet == nil {
			return fmt.Errorf("no %s probe", name)
		}
		port(name, &probe.HTTPGet.Port)
	}
	for _, service := range b.services {
		port("Service "+service.Name, &service.Spec.Ports[0].TargetPort)
	}
	for _, rule := range b.network.Spec.Ingress {
		port("NetworkPolicy", rule.Ports[0].Port)
	}
	volumes := map[string]core.VolumeSource{}
	for _, volume := range pod.Volumes {
		volumes[volume.Name] = volume.VolumeSource
	}
	is("volume config", volumes["config"].ConfigMap.Name, b.config.Name)
	is("volume secrets", volumes["secrets"].Secret.SecretName, b.secret.Name)
	credentials := b.monitor.Spec.Endpoints[0].Authorization.Credentials
	is("ServiceMonitor's secret", credentials.Name, b.secret.Name)
	if _, ok := b.secret.Data[credentials.Key]; !ok {
		failed = errors.Join(failed, fmt.Errorf("ServiceMonitor: the secret has no %q", credentials.Key))
	}
	is("HorizontalPodAutoscaler's target", b.scaler.Spec.ScaleTargetRef.Name, b.deployment.Name)
	return failed
}

// selectors checks that everything selects the pods, and the monitor one of the Services.
func (b *base) selectors() (failed error) {
	pod := labels.Set(b.deployment.Spec.Template.Labels)
	selects := func(who string, wanted *meta.LabelSelector) {
		selector, err := meta.LabelSelectorAsSelector(wanted)
		if err != nil || selector.Empty() || !selector.Matches(pod) {
			failed = errors.Join(failed, fmt.Errorf("%s selects %v, want what matches the pod's %v", who, wanted, pod))
		}
	}
	selects("Deployment", b.deployment.Spec.Selector)
	selects("PodDisruptionBudget", b.budget.Spec.Selector)
	selects("NetworkPolicy", &b.network.Spec.PodSelector)
	for _, spread := range b.deployment.Spec.Template.Spec.TopologySpreadConstraints {
		selects("spread over "+spread.TopologyKey, spread.LabelSelector)
	}
	monitored := 0
	for _, service := range b.services {
		selects("Service "+service.Name, &meta.LabelSelector{MatchLabels: service.Spec.Selector})
		if labels.SelectorFromSet(b.monitor.Spec.Selector.MatchLabels).Matches(labels.Set(service.Labels)) &&
			service.Spec.Ports[0].Name == b.monitor.Spec.Endpoints[0].Port {
			monitored++
		}
	}
	if monitored != 1 {
		failed = errors.Join(failed, fmt.Errorf("the ServiceMonitor selects %d Services with its port, want 1", monitored))
	}
	return failed
}

// peers checks that what the pods may reach is named.
func (b *base) peers() (failed error) {
	for i, rule := range b.network.Spec.Egress {
		if len(rule.To) == 0 || len(rule.Ports) == 0 {
			failed = errors.Join(failed, fmt.Errorf("egress[%d] names no peer or no port", i))
		}
		for _, peer := range rule.To {
			named := peer.PodSelector != nil && len(peer.PodSelector.MatchLabels) > 0
			if peer.IPBlock != nil {
				_, network, err := net.ParseCIDR(peer.IPBlock.CIDR)
				if err != nil {
					return err
				}
				ones, bits := network.Mask.Size()
				named = ones == bits
			}
			if !named {
				failed = errors.Join(failed, fmt.Errorf("egress[%d] goes to more than a named peer", i))
			}
		}
	}
	return failed
}

// memory checks that the limit of memory fits the settings: 25 MB, 8 times the three documents, 8
// MiB and 6 times the largest document for each of three fetches, and 6 KB for each connection.
func (b *base) memory() error {
	container := b.deployment.Spec.Template.Spec.Containers[0]
	set := map[string]int64{}
	for _, env := range container.Env {
		if quantity, err := resource.ParseQuantity(strings.TrimSuffix(env.Value, "B")); err == nil {
			set[env.Name] = quantity.Value()
		}
	}
	document, connections, soft := set["VITRINE_UPSTREAM_MAX_BYTES"], set["VITRINE_LIMITS_CONNECTIONS"], set["GOMEMLIMIT"]
	if document == 0 || connections == 0 || soft == 0 {
		return fmt.Errorf("the size of documents, the number of connections or GOMEMLIMIT is not set: %v", set)
	}
	need := 25_000_000 + 3*8*document + 3*(8<<20+6*document) + connections*6<<10
	if limit := container.Resources.Limits.Memory().Value(); need > soft || soft > limit {
		return fmt.Errorf("vitrine takes %d bytes: want at most GOMEMLIMIT, %d, and that at most the limit, %d", need, soft, limit)
	}
	return nil
}

// settings lets vitrine read the pod's environment and files, laid out under work as the pod has
// them under /.
func (b *base) settings(work, vitrine string) error {
	pod := b.deployment.Spec.Template.Spec
	container := pod.Containers[0]
	mounted := map[string]string{} // from the path in the pod to the one here
	for _, mount := range container.VolumeMounts {
		folder := filepath.Join(work, "pod", mount.Name)
		if err := os.MkdirAll(folder, 0o700); err != nil {
			return err
		}
		content := map[string][]byte{}
		if mount.Name == "config" {
			for name, text := range b.config.Data {
				content[name] = []byte(text)
			}
		} else {
			content = b.secret.Data
		}
		for name, text := range content {
			path := filepath.Join(folder, name)
			if err := os.WriteFile(path, text, 0o600); err != nil {
				return err
			}
			mounted[filepath.Join(mount.MountPath, name)] = path
		}
	}
	command := exec.CommandContext(context.Background(), vitrine, "config") //nolint:gosec // the binary that .ci/run has built
	for _, env := range container.Env {
		value := env.Value
		if here, ok := mounted[value]; ok {
			value = here
		}
		command.Env = append(command.Env, env.Name+"="+value)
	}
	out, err := command.CombinedOutput()
	if err != nil {
		return fmt.Errorf("vitrine config: %w\n%s", err, out)
	}
	return nil
}
