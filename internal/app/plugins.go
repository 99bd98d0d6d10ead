package app

import (
	"log/slog"
	"slices"

	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/account"
	"github.com/droverhq/drover/internal/breaker"
	"github.com/droverhq/drover/internal/cluster"
	"github.com/droverhq/drover/internal/dns"
	"github.com/droverhq/drover/internal/dns/rfc2136"
	"github.com/droverhq/drover/internal/dns/route53"
	"github.com/droverhq/drover/internal/entitlement"
	"github.com/droverhq/drover/internal/instance"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/offering"
	"github.com/droverhq/drover/internal/operation"
	"github.com/droverhq/drover/internal/policy"
	"github.com/droverhq/drover/internal/provider"
	"github.com/droverhq/drover/internal/provider/standalone"
	"github.com/droverhq/drover/internal/provider/template"
	"github.com/droverhq/drover/internal/sso"
	"github.com/droverhq/drover/internal/sso/builtin"
)

// Kinds are all kinds of objects that the ledger is prepared for.
func Kinds() []ledger.Kind {
	return slices.Concat([]ledger.Kind{
		access.SigningKey, access.KindUser, operation.Kind, operation.AuditKind, account.Kind, offering.Kind, cluster.Kind, cluster.KindProfile, cluster.KindReplica, instance.Kind,
	}, breaker.Kinds(), policy.Kinds(), builtin.Kinds())
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
	"template":   template.New,
}

// quotaSources grant quota.
var quotaSources = map[string]func(*Server, options) (entitlement.Source, error){
	"list":   (*Server).quotaList,
	"remote": (*Server).quotaRemote,
}

// runtimes are what an agent applies to.
var runtimes = map[string]func(AgentSettings, *slog.Logger) (*dataPlane, error){
	"kubernetes": kubernetesPlane,
	"process":    processPlane,
	"simulated":  simulatedPlane,
}
