package httpapi

import (
	"context"
	"net/http"
	"time"
	"unicode/utf8"

	v1 "github.com/droverhq/drover/api/v1"
	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/cluster"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/offering"
)

// speaksFor checks that the caller is the cluster's agent, or an operator. To
// others the cluster does not exist.
func (s *server) speaksFor(ctx context.Context, id string) error {
	_, may, err := s.agentOf(ctx, id)
	if err != nil && !fault.Is(err, fault.NotFound) {
		return err
	}
	if err != nil || !may {
		return fault.New(fault.NotFound, "there is no cluster %.64q", id)
	}
	return nil
}

// agentOf returns a cluster and whether the caller may speak for it: with a
// token for its agent, or as its agent's account at the identity provider. A
// cluster that is not there is NotFound, to whoever could speak for it.
func (s *server) agentOf(ctx context.Context, id string) (ledger.Object, bool, error) {
	who := access.From(ctx)
	if id == "" || !utf8.ValidString(id) || len(id) > maxText {
		return ledger.Object{}, false, nil
	}
	may := who.Admin || who.Cluster == id
	if !may && !s.accountOfAgent(who) {
		return ledger.Object{}, false, nil
	}
	o, err := s.Clusters.Get(ctx, id)
	if err != nil {
		return o, may, err
	}
	if may {
		_, status, err := cluster.Decode(o)
		return o, who.Admin || err == nil && goodSince(who, status.Anew), err
	}
	if !s.isAccount(who, o) {
		return o, false, nil
	}
	err = s.certified(ctx, id)
	return o, err == nil, err
}

// goodSince reports whether an agent's token is of the cluster that is there,
// not of one of the same id that is gone.
func goodSince(who access.Principal, anew time.Time) bool {
	return anew.IsZero() || !who.Issued.Before(anew)
}

// agentClaims are those of a token for the cluster's agent that is good for the
// cluster that is there, whatever this server's clock says.
func (s *server) agentClaims(ctx context.Context, id string) (access.Claims, error) {
	c := access.Claims{Cluster: id}
	if id == "" || !utf8.ValidString(id) || len(id) > maxText {
		return c, nil
	}
	o, err := s.Clusters.Get(ctx, id)
	if fault.Is(err, fault.NotFound) {
		return c, nil // it may be registered later
	}
	if err != nil {
		return c, err
	}
	_, status, err := cluster.Decode(o)
	c.NotOlder = status.Anew
	return c, err
}

// accountOfAgent reports whether the caller is a program with an account at the
// identity provider where agents have theirs. Another issuer's client of the
// same name is somebody else.
func (s *server) accountOfAgent(who access.Principal) bool {
	return who.Client != "" && s.SSO != nil && who.Issuer != "" && who.Issuer == s.SSO().Issuer
}

// isAccount reports whether the caller is the account of the cluster's agent.
func (s *server) isAccount(who access.Principal, o ledger.Object) bool {
	_, status, err := cluster.Decode(o)
	return err == nil && s.accountOfAgent(who) && status.Client != "" && status.Client == who.Client
}

// isAgent reports whether the caller has a token for the cluster's agent.
func (s *server) isAgent(who access.Principal, o ledger.Object) bool {
	_, status, err := cluster.Decode(o)
	return err == nil && who.Cluster == o.ID && goodSince(who, status.Anew)
}

// verificationRoute serves those who forward what data planes send: they ask
// whether a token is that of the agent of a cluster, by what others call it.
func (s *server) verificationRoute(p *compatPath) (string, verbs) {
	if len(p.rest) != 2 || p.rest[1] == "" {
		return "", nil
	}
	return offeringBase(p.off.Spec) + "/obs-proxy-verification/{cluster_external_id}", verbs{"POST": s.verifyAgent}
}

func (s *server) verifyAgent(w http.ResponseWriter, r *http.Request, p *compatPath) {
	denied := fault.New(fault.Denied, "the token is not that of the cluster's agent").Because("denied")
	if !plainName(p.rest[1]) {
		s.fail(w, r, denied)
		return
	}
	o, err := s.Clusters.ByExternal(r.Context(), p.rest[1])
	if fault.Is(err, fault.NotFound) { // known by no other name
		o, err = s.Clusters.Get(r.Context(), p.rest[1])
	}
	who := access.From(r.Context())
	switch {
	case err != nil && !fault.Is(err, fault.NotFound):
		s.fail(w, r, err)
	case err != nil || !s.isAccount(who, o) && !s.isAgent(who, o):
		s.fail(w, r, denied)
	default:
		w.WriteHeader(http.StatusOK)
	}
}

// agentCredentials hands an operator the account of a cluster's agent.
func (o *own) agentCredentials(w http.ResponseWriter, r *http.Request) {
	o.audited(w, r, !access.From(r.Context()).Admin, func(w http.ResponseWriter, r *http.Request) {
		id := r.PathValue("id")
		if !plainName(id) {
			o.fail(w, r, fault.New(fault.NotFound, "there is no cluster %.64q", id))
			return
		}
		var out v1.AgentCredentials
		var err error
		out.ClientID, out.ClientSecret, err = o.Clusters.Agent(r.Context(), id)
		if err == nil && out.ClientID == "" {
			err = fault.New(fault.NotFound, "agents have no accounts here: there is no identity provider; use `drover token --cluster %.64s`", id)
		}
		if err != nil {
			o.fail(w, r, err)
			return
		}
		if o.SSO != nil {
			out.TokenURL = o.SSO().TokenURL
		}
		w.Header().Set("Cache-Control", "no-store")
		writeJSON(w, http.StatusOK, out)
	})
}

// around is what the expressions of an offering see besides an instance.
func (s *server) around(ctx context.Context, off *offering.Offering, o ledger.Object) (offering.Surroundings, error) {
	facts, err := s.Clusters.Facts(ctx, o.ID)
	if err != nil {
		return offering.Surroundings{}, err
	}
	spec, _, err := cluster.Decode(o)
	if err != nil {
		return offering.Surroundings{}, err
	}
	if spec.Nodes > 0 && facts.Nodes == nil { // it hosts every type
		facts.Nodes = map[string]int64{}
		for _, t := range off.Spec.Types {
			facts.Nodes[t.Name] = spec.Nodes
		}
	}
	offers, err := s.Clusters.Offers(ctx, o.ID, off.Metadata.Name)
	if err != nil {
		return offering.Surroundings{}, err
	}
	facts.Versions = map[string]string{}
	for component, versions := range offers {
		if len(versions) > 0 {
			facts.Versions[component] = versions[len(versions)-1]
		}
	}
	out := offering.Surroundings{Cluster: facts, Server: offering.ServerFacts{URL: s.URL}}
	if s.SSO != nil {
		at := s.SSO()
		out.SSO = offering.SSOFacts{Issuer: at.Issuer, Token: at.TokenURL, JWKS: at.JWKSURL, Base: at.BaseURL, Realm: at.Realm}
	}
	return out, nil
}
