package app

import (
	"slices"

	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/account"
	"github.com/droverhq/drover/internal/audit"
	"github.com/droverhq/drover/internal/breaker"
	"github.com/droverhq/drover/internal/bus"
	"github.com/droverhq/drover/internal/bus/inprocess"
	"github.com/droverhq/drover/internal/cluster"
	"github.com/droverhq/drover/internal/command"
	"github.com/droverhq/drover/internal/dns"
	"github.com/droverhq/drover/internal/dns/rfc2136"
	"github.com/droverhq/drover/internal/dns/route53"
	"github.com/droverhq/drover/internal/entitlement"
	"github.com/droverhq/drover/internal/environment"
	"github.com/droverhq/drover/internal/executor"
	"github.com/droverhq/drover/internal/executor/action"
	"github.com/droverhq/drover/internal/executor/certificate"
	"github.com/droverhq/drover/internal/executor/consul"
	"github.com/droverhq/drover/internal/executor/file"
	"github.com/droverhq/drover/internal/executor/kubernetes"
	executorprocess "github.com/droverhq/drover/internal/executor/process"
	"github.com/droverhq/drover/internal/executor/secret"
	"github.com/droverhq/drover/internal/executor/vault"
	"github.com/droverhq/drover/internal/gitops"
	"github.com/droverhq/drover/internal/instance"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/offering"
	"github.com/droverhq/drover/internal/operation"
	"github.com/droverhq/drover/internal/policy"
	"github.com/droverhq/drover/internal/provider"
	"github.com/droverhq/drover/internal/provider/standalone"
	clustertemplate "github.com/droverhq/drover/internal/provider/template"
	"github.com/droverhq/drover/internal/resilience"
	"github.com/droverhq/drover/internal/sso"
	"github.com/droverhq/drover/internal/sso/builtin"
	"github.com/droverhq/drover/internal/subscription"
	"github.com/droverhq/drover/internal/template"
)

// Kinds are all kinds of objects that the ledger is prepared for.
func Kinds() []ledger.Kind {
	return slices.Concat([]ledger.Kind{
		access.SigningKey, access.KindUser, operation.Kind, operation.AuditKind, audit.Kind, account.Kind, offering.Kind, cluster.Kind, cluster.KindProfile, cluster.KindReplica, instance.Kind,
	}, breaker.Kinds(), policy.Kinds(), builtin.Kinds(), template.Kinds(), environment.Kinds(), gitops.Kinds(), []ledger.Kind{subscription.Kind, command.Kind})
}

// buses carry commands and events.
var buses = map[string]func(*Server, bus.Options) (bus.Bus, error){
	inProcess:  func(_ *Server, o bus.Options) (bus.Bus, error) { return unsettled(inprocess.Open(o)) },
	"rabbitmq": (*Server).rabbit,
}

// dnsProviders carry hosts.
var dnsProviders = map[string]dns.Open{
	"rfc2136": rfc2136.New,
	"route53": route53.New,
}

// ssoProviders hold the accounts of programs.
var ssoProviders = map[string]func(*Server, options) (sso.Provider, error){
	"builtin":  (*Server).builtinSSO,
	"keycloak": (*Server).keycloakSSO,
}

// clusterProviders make clusters.
var clusterProviders = map[string]provider.Open{
	"standalone": standalone.New,
	"template":   clustertemplate.New,
}

// executors make resources of environments real.
var executors = map[string]func(*Server, *instance.Service) (executor.Executor, error){
	"action": func(s *Server, _ *instance.Service) (executor.Executor, error) { return action.New(s.runner), nil },
	"consul": func(s *Server, _ *instance.Service) (executor.Executor, error) {
		return consul.New(consul.Config{Resilience: resilience.Config{Observer: s.calls}}), nil
	},
	"deployment": func(s *Server, _ *instance.Service) (executor.Executor, error) {
		return gitops.NewExecutor(gitops.ExecutorConfig{Service: s.deployments, Feed: s.feed, Log: s.ledger}), nil
	},
	"file": func(*Server, *instance.Service) (executor.Executor, error) { return file.New(), nil },
	"instance": func(s *Server, instances *instance.Service) (executor.Executor, error) {
		return instance.NewExecutor(instance.ExecutorConfig{Service: instances, Feed: s.feed, Log: s.ledger, URL: s.instanceURL}), nil
	},
	"kubernetes": func(s *Server, _ *instance.Service) (executor.Executor, error) {
		return kubernetes.New(kubernetes.Config{Wrap: line(toResources, s.calls)}), nil
	},
	"process":     func(*Server, *instance.Service) (executor.Executor, error) { return executorprocess.New(), nil },
	"certificate": func(*Server, *instance.Service) (executor.Executor, error) { return certificate.New(), nil },
	"secret":      func(*Server, *instance.Service) (executor.Executor, error) { return secret.New(), nil },
	"terraform":   func(s *Server, _ *instance.Service) (executor.Executor, error) { return s.tofu() },
	"vault": func(s *Server, _ *instance.Service) (executor.Executor, error) {
		return vault.New(vault.Config{Resilience: resilience.Config{Observer: s.calls}}), nil
	},
}

// quotaSources grant quota.
var quotaSources = map[string]func(*Server, options) (entitlement.Source, error){
	"list":   (*Server).quotaList,
	"remote": (*Server).quotaRemote,
}

// runtimes are what an agent applies to.
var runtimes = map[string]func(AgentSettings, agentCalls) (*dataPlane, error){
	"argocd":     argocdPlane,
	"kubernetes": kubernetesPlane,
	"process":    processPlane,
	"simulated":  simulatedPlane,
}
