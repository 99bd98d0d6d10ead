package openbao

import (
	"crypto/rand"
	"net/http"
	"testing"

	"github.com/droverhq/drover/test/servers/rest"
)

// API asks the server as one who may do everything.
func (s *Server) API() rest.Client { return s.As(s.Token) }

// As asks the server with a token; an empty one is none.
func (s *Server) As(token string) rest.Client {
	c := rest.Client{URL: s.URL}
	if token != "" {
		c.Header = http.Header{"X-Vault-Token": {token}}
	}
	return c
}

// ask is of an administrator, who does not expect to fail.
func (s *Server) ask(t testing.TB, method, path string, in, out any) {
	t.Helper()
	if err := s.API().Ask(t.Context(), method, "/v1/"+path, in, out); err != nil {
		t.Fatal(err)
	}
}

// Policy makes one of rules in OpenBao's own words, and returns its name.
func (s *Server) Policy(t testing.TB, rules string) string {
	t.Helper()
	name := "p-" + rand.Text()
	s.ask(t, http.MethodPut, "sys/policies/acl/"+name, map[string]string{"policy": rules}, nil)
	return name
}

// TokenOf makes a token with these policies. It lives for an hour, unless the
// time to live ("2s") is not empty.
func (s *Server) TokenOf(t testing.TB, ttl string, policies ...string) string {
	t.Helper()
	if ttl == "" {
		ttl = "1h"
	}
	var out struct {
		Auth struct {
			Token string `json:"client_token"`
		} `json:"auth"`
	}
	// One without any would have those of whoever makes it, who may do everything.
	s.ask(t, http.MethodPost, "auth/token/create", map[string]any{"policies": append(policies, "default"), "ttl": ttl}, &out)
	return out.Auth.Token
}

// Auth enables a method of logging in, under its own name.
func (s *Server) Auth(t testing.TB, method string) {
	t.Helper()
	err := s.API().Ask(t.Context(), http.MethodPost, "/v1/sys/auth/"+method, map[string]string{"type": method}, nil)
	if err != nil && !rest.Is(err, http.StatusBadRequest) { // which says that it is enabled already
		t.Fatal(err)
	}
}

// AppRole makes a role with these policies, at auth/approle, and returns what logs in as it.
func (s *Server) AppRole(t testing.TB, role string, policies ...string) (roleID, secretID string) {
	t.Helper()
	s.Auth(t, "approle")
	s.ask(t, http.MethodPost, "auth/approle/role/"+role, map[string]any{"token_policies": policies}, nil)
	var out struct {
		Data struct {
			RoleID   string `json:"role_id"`
			SecretID string `json:"secret_id"`
		} `json:"data"`
	}
	s.ask(t, http.MethodGet, "auth/approle/role/"+role+"/role-id", nil, &out)
	roleID = out.Data.RoleID
	s.ask(t, http.MethodPost, "auth/approle/role/"+role+"/secret-id", nil, &out)
	return roleID, out.Data.SecretID
}

// JWT makes a role with these policies, at auth/jwt, for whoever shows a token
// for the audience that the public key (PEM) has signed.
func (s *Server) JWT(t testing.TB, role, publicKey, audience string, policies ...string) {
	t.Helper()
	s.Auth(t, "jwt")
	s.ask(t, http.MethodPost, "auth/jwt/config", map[string]any{"jwt_validation_pubkeys": []string{publicKey}}, nil)
	s.ask(t, http.MethodPost, "auth/jwt/role/"+role, map[string]any{
		"role_type": "jwt", "user_claim": "sub", "bound_audiences": []string{audience}, "token_policies": policies,
	}, nil)
}

// Kubernetes makes a role with these policies, at auth/kubernetes, for a service
// account of the cluster at the URL, whose authority signs its certificate. The
// reviewer's token may ask the cluster whose a token is.
func (s *Server) Kubernetes(t testing.TB, role string, cluster Cluster, policies ...string) {
	t.Helper()
	s.Auth(t, "kubernetes")
	s.ask(t, http.MethodPost, "auth/kubernetes/config", map[string]any{
		"kubernetes_host": cluster.URL, "kubernetes_ca_cert": cluster.Authority, "token_reviewer_jwt": cluster.Reviewer, "disable_local_ca_jwt": true,
	}, nil)
	s.ask(t, http.MethodPost, "auth/kubernetes/role/"+role, map[string]any{
		"bound_service_account_names": cluster.Account, "bound_service_account_namespaces": cluster.Namespace, "token_policies": policies,
	}, nil)
}

// Cluster is whom a server trusts to know service accounts.
type Cluster struct {
	URL, Authority, Reviewer string
	Namespace, Account       string // who may log in
}
