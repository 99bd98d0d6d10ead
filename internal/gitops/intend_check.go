package gitops

import (
	"cmp"
	"reflect"
	"strings"
)

// Messages that users of custom resources know.
const (
	badNamespaceNew     = "the namespace specified in the destination field is invalid"
	badNamespaceUpdate  = "destination namespace specified in the .spec.Destination.Namespace field is invalid"
	namespaceAlone      = "the environment field should not be empty when the namespace is non-empty"
	immutableDeployment = "deployment name field is immutable: changing it from its initial value is not supported"
	immutableRevision   = "revision change is not supported: changing it from its initial value is not supported"
)

// specOf is what a custom resource asks for, with Invalid where that cannot be.
// Nothing is stripped: what is refused is refused by name, all else is data.
func specOf(in DeploymentIntent, known bool) Spec {
	s := Spec{
		Repository: in.Repository, Path: in.Path, Revision: in.Revision,
		To:        To{Target: in.Environment, Namespace: in.ToNamespace},
		Automated: strings.EqualFold(in.Type, "automated"), SyncOptions: in.SyncOptions,
		Origin: in.origin(),
	}
	if in.Environment == "" {
		s.To.Namespace = in.Namespace.Name
	}
	if len(s.SyncOptions) == 0 {
		s.SyncOptions = nil // as it comes back from the ledger
	}
	s.Invalid = cmp.Or(checkPath(in.Path), checkRepository(in.Repository), checkRevision(in.Revision), checkDestination(in, known), checkOptions(in.SyncOptions))
	if s.Invalid != "" { // what cannot be carried out need not be kept whole
		s.Repository, s.Path, s.Revision = cut(s.Repository, maxURL), cut(s.Path, maxPath), cut(s.Revision, maxRevision)
		s.To.Target, s.To.Namespace = cut(s.To.Target, 253), cut(s.To.Namespace, 253)
		if checkOptions(s.SyncOptions) != "" {
			s.SyncOptions = nil
		}
	}
	return s
}

func checkDestination(in DeploymentIntent, known bool) string {
	switch {
	case in.Environment == "" && in.ToNamespace != "":
		return namespaceAlone
	case in.Environment == "":
		return ""
	case len(in.Environment) > 253 || hidden(in.Environment):
		return "the environment specified in the destination field is invalid"
	case !label.MatchString(in.ToNamespace) && known:
		return badNamespaceUpdate
	case !label.MatchString(in.ToNamespace):
		return badNamespaceNew
	}
	return ""
}

// cut shortens what a stranger wrote to what is kept of it.
func cut(s string, most int) string {
	return strings.ToValidUTF8(strings.ReplaceAll(s[:min(len(s), most)], "\x00", ""), "")
}

func (in Intent) origin() *Origin {
	return &Origin{Home: in.Namespace.Home, Namespace: in.Namespace.Name, Name: in.Name, Generation: in.Generation, Held: in.Held, Reading: reading}
}

// asks reports whether two specs ask for something else, whoever wrote them.
func (s Spec) asks(other Spec) bool {
	s.Origin, other.Origin = nil, nil
	s.Previous, other.Previous = "", ""
	return !reflect.DeepEqual(s, other)
}
