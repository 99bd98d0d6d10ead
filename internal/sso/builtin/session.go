package builtin

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/zitadel/oidc/v3/pkg/oidc"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/sso"
)

// KindSession is the kind of logins. One object follows a login from its code
// through every refresh; its parent is the user.
var KindSession = ledger.Kind{Name: "ssosession", Fields: []ledger.Field{{Name: "expires", Type: ledger.Time}}}

// Phases of a login.
const (
	coded  = "code"   // a code was handed out
	active = "active" // it was exchanged
	ended  = "ended"
)

// request is what an application asked for. It travels through the login page,
// sealed: nothing is kept for people who have not logged in.
type request struct {
	Client    string    `json:"client"`
	Redirect  string    `json:"redirect"`
	Scopes    []string  `json:"scopes,omitempty"`
	State     string    `json:"state,omitempty"`
	Nonce     string    `json:"nonce,omitempty"`
	Challenge string    `json:"challenge,omitempty"` // S256, always
	Mode      string    `json:"mode,omitempty"`
	Hint      string    `json:"hint,omitempty"`
	Until     time.Time `json:"until,omitzero"`
}

// session is a login. It is the library's AuthRequest and RefreshTokenRequest.
type session struct {
	id      string
	phase   string
	object  ledger.Object
	spec    sessionSpec
	who     sso.Identity
	scopes  []string // of this token; default: those of the login
	spent   string   // the refresh token that is being exchanged
	expires time.Time
	aud     []string
}

type sessionSpec struct {
	Request request   `json:"request"`
	Epoch   int64     `json:"epoch"`
	At      time.Time `json:"at"`
	Code    string    `json:"code"`              // digest
	Refresh string    `json:"refresh,omitempty"` // digest of the one that is good
	Serial  int64     `json:"serial,omitempty"`  // how many there were
}

func (p *Provider) audience(client string) []string {
	if p.Audience == "" {
		return []string{client}
	}
	return []string{client, p.Audience}
}

// session reads a login that goes on, with its user. Faults: NotFound for one
// that is over, whatever ended it.
func (p *Provider) session(ctx context.Context, id string) (*session, error) {
	over := fault.New(fault.NotFound, "the login is over")
	if !proper(id) {
		return nil, over
	}
	o, err := p.Store.Get(ctx, ledger.Ref{Kind: KindSession.Name, ID: id})
	if fault.Is(err, fault.NotFound) || err == nil && (!o.Deleted.IsZero() || o.Phase == ended) {
		return nil, over
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read a login: %w", err)
	}
	s := &session{id: id, phase: o.Phase, object: o}
	if err := json.Unmarshal(o.Spec, &s.spec); err != nil {
		return nil, fault.New(fault.Internal, "login %s is damaged: %w", id, err)
	}
	s.expires, _ = o.Fields["expires"].(time.Time)
	if !p.Clock().Before(s.expires) {
		return nil, over
	}
	s.aud = p.audience(s.spec.Request.Client)
	s.who, err = p.Users.Find(ctx, o.Parent)
	if fault.Is(err, fault.NotFound) || err == nil && s.who.Epoch != s.spec.Epoch {
		return nil, over
	}
	return s, err
}

// save writes a login; Conflict if it moved since it was read.
func (p *Provider) save(ctx context.Context, s *session, op string) error {
	data, err := json.Marshal(s.spec)
	if err != nil {
		return fault.New(fault.Internal, "cannot write a login: %w", err)
	}
	o := s.object
	o.Ref = ledger.Ref{Kind: KindSession.Name, ID: s.id}
	o.Phase, o.Spec, o.Parent, o.Name = s.phase, data, s.who.ID, s.spec.Request.Client
	o.Fields = ledger.Fields{"expires": s.expires}
	return p.write(ctx, o, op)
}

// end is the end of a login, whatever others write meanwhile.
func (p *Provider) end(ctx context.Context, id, why string) error {
	return p.persist(ctx, func(ctx context.Context) error {
		o, err := p.Store.Get(ctx, ledger.Ref{Kind: KindSession.Name, ID: id})
		if fault.Is(err, fault.NotFound) || err == nil && o.Phase == ended {
			return nil
		}
		if err != nil {
			return fmt.Errorf("cannot read a login: %w", err)
		}
		o.Phase = ended
		return p.write(ctx, o, why)
	})
}

func (s *session) GetID() string                      { return s.id }
func (s *session) GetACR() string                     { return "" }
func (s *session) GetAMR() []string                   { return []string{"pwd"} }
func (s *session) GetAudience() []string              { return s.aud }
func (s *session) GetAuthTime() time.Time             { return s.spec.At }
func (s *session) GetClientID() string                { return s.spec.Request.Client }
func (s *session) GetNonce() string                   { return s.spec.Request.Nonce }
func (s *session) GetRedirectURI() string             { return s.spec.Request.Redirect }
func (s *session) GetResponseType() oidc.ResponseType { return oidc.ResponseTypeCode }
func (s *session) GetResponseMode() oidc.ResponseMode { return oidc.ResponseMode(s.spec.Request.Mode) }
func (s *session) GetState() string                   { return s.spec.Request.State }
func (s *session) GetSubject() string                 { return s.who.ID }
func (s *session) Done() bool                         { return s.who.ID != "" }
func (s *session) SetCurrentScopes(scopes []string)   { s.scopes = scopes }

// GetScopes has offline_access always: as at Keycloak, every login can be
// refreshed while it is not idle.
func (s *session) GetScopes() []string {
	scopes := s.scopes
	if scopes == nil {
		scopes = s.spec.Request.Scopes
	}
	if !slices.Contains(scopes, oidc.ScopeOfflineAccess) {
		scopes = append(slices.Clone(scopes), oidc.ScopeOfflineAccess)
	}
	return scopes
}

func (s *session) GetCodeChallenge() *oidc.CodeChallenge {
	if s.spec.Request.Challenge == "" {
		return nil
	}
	return &oidc.CodeChallenge{Challenge: s.spec.Request.Challenge, Method: oidc.CodeChallengeMethodS256}
}
