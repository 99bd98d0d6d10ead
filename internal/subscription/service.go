package subscription

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"sync"
	"time"

	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
)

// Store is what is needed of the ledger besides its log.
type Store interface {
	Commit(ctx context.Context, set ledger.Set) (ledger.Result, error)
	Get(ctx context.Context, ref ledger.Ref) (ledger.Object, error)
	List(ctx context.Context, query ledger.Query) ([]ledger.Object, error)
}

// Keeper seals the secrets that deliveries are signed with.
type Keeper interface {
	Seal(ctx context.Context, plaintext []byte) (ref string, err error)
	Unseal(ctx context.Context, ref string) ([]byte, error)
	Shred(ctx context.Context, ref string) error
}

// Observer sees what was told, for metrics: how many events, and how old the first
// of them was.
type Observer interface {
	Told(to string, events int, age time.Duration, err error)
}

type unobserved struct{}

func (unobserved) Told(string, int, time.Duration, error) {}

// Config of a Service.
type Config struct {
	Store    Store
	Keeper   Keeper
	Log      Log
	Feed     Follower
	Encoder  Encoder
	Sinks    map[string]Sink  // by where they tell
	Kinds    []string         // of which there can be news
	Observer Observer         // default: nobody looks
	Now      func() time.Time // default: time.Now
}

// Service keeps subscriptions and carries them forward.
type Service struct {
	Config
	turns turns // deliveries to URLs under way

	mu    sync.Mutex
	known map[string]Subscription // what Follow has seen of them
}

const (
	// most is how many subscriptions an organisation may have.
	most = 50
)

// NewService makes a service.
func NewService(c Config) *Service {
	if c.Observer == nil {
		c.Observer = unobserved{}
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return &Service{Config: c, turns: turns{of: map[string]int{}}, known: map[string]Subscription{}}
}

func name(org, name string) ledger.Name { return ledger.Name{Space: "subscription:" + org, Name: name} }

// EnsureBus makes the broker's subscriptions, if there are none yet. They are told of
// everything from then on, so that it comes before the first command is taken.
func (s *Service) EnsureBus(ctx context.Context) error {
	var from *Status // of a ledger from before answers had a cursor of their own
	if o, err := s.Store.Get(ctx, ledger.Ref{Kind: Kind.Name, ID: BusID}); err == nil {
		sub, err := Decode(o)
		if err != nil {
			return err
		}
		from = &sub.Status
	} else if !fault.Is(err, fault.NotFound) {
		return err
	}
	if err := s.ensure(ctx, AnswersID, Spec{To: ToAnswers, All: true, Kinds: []string{commands}, Description: "answers to commands, for whoever sent them"}, from); err != nil {
		return err
	}
	return s.ensure(ctx, BusID, Spec{To: ToBus, All: true, Description: "every change, for whoever follows the broker"}, nil)
}

// ensure makes a subscription of the server's own.
func (s *Service) ensure(ctx context.Context, id string, spec Spec, from *Status) error {
	ref := ledger.Ref{Kind: Kind.Name, ID: id}
	if _, err := s.Store.Get(ctx, ref); !fault.Is(err, fault.NotFound) {
		return err
	}
	err := s.begin(ctx, Subscription{Object: ledger.Object{Ref: ref, Name: id, Phase: Active, Fields: ledger.Fields{"receiver": spec.To}}, Spec: spec}, from)
	if fault.Reason(err) == "exists" { // another replica was faster
		return nil
	}
	return err
}

// commands is the kind of object that answers are about.
const commands = "command"

// begin writes a new subscription, which is told of what comes from now on, or from
// where another one is.
func (s *Service) begin(ctx context.Context, sub Subscription, from *Status) error {
	head, err := s.Log.Head(ctx)
	if err != nil {
		return err
	}
	sub.Status = Status{Cursor: head.Seq, Ledger: head.Ledger, Epoch: head.Epoch}
	if from != nil {
		sub.Status = Status{Cursor: from.Cursor, Ledger: from.Ledger, Epoch: from.Epoch}
	}
	put, err := sub.put("create")
	if err != nil {
		return err
	}
	set := ledger.Set{Actor: actor(ctx), Cause: ledger.CauseOf(ctx), Puts: []ledger.Put{put}, Wakes: []ledger.Wake{{Ref: sub.Ref, Org: sub.Org}}}
	if sub.Spec.To != ToAnswers { // which must not fail because somebody's webhook has its name
		set.Claims = []ledger.Claim{{Name: name(sub.Org, sub.Name), Holder: sub.Ref}}
		set.Counts = []ledger.Count{{Name: "subscriptions:" + sub.Org, Delta: 1, Max: most}}
	}
	_, err = s.Store.Commit(ctx, set)
	return err
}

func actor(ctx context.Context) string {
	if who := access.From(ctx).Actor(); who != "" {
		return who
	}
	return "system"
}

// may refuses whoever is neither an operator nor an admin of an organisation: what is
// told is everything of the organisation.
func may(ctx context.Context, org string) error {
	who := access.From(ctx)
	if who.Admin || who.OrgAdmin && who.Org != "" && who.Org == org {
		return nil
	}
	return fault.New(fault.Denied, "only an admin of the organisation may keep its subscriptions: they are told of everything in it")
}

// Create makes a webhook and returns the secret that its deliveries are signed with:
// this once.
func (s *Service) Create(ctx context.Context, called string, spec Spec) (Subscription, string, error) {
	who := access.From(ctx)
	spec.To = ToWebhook
	if spec.All = who.Admin && who.Org == ""; !spec.All {
		if err := may(ctx, who.Org); err != nil {
			return Subscription{}, "", err
		}
	}
	if err := spec.Validate(s.Kinds); err != nil {
		return Subscription{}, "", err
	}
	secret := newSecret()
	ref, err := s.Keeper.Seal(ctx, []byte(secret))
	if err != nil {
		return Subscription{}, "", err
	}
	spec.Secret = ref
	sub := Subscription{Object: ledger.Object{Ref: ledger.Ref{Kind: Kind.Name, ID: ledger.NewID()}, Org: who.Org, Owner: who.User,
		Name: called, Phase: Active, Fields: ledger.Fields{"receiver": ToWebhook}}, Spec: spec}
	if err := s.begin(ctx, sub, nil); err != nil {
		ledger.Discard(ctx, s.Keeper, err, ref)
		switch fault.Reason(err) {
		case "name-taken":
			return sub, "", fault.New(fault.Conflict, "there is a subscription %q already", called).Because("name-taken")
		case "counter:subscriptions:" + who.Org:
			return sub, "", fault.New(fault.Exhausted, "there are %d subscriptions already: delete one", most).Because("limit")
		}
		return sub, "", err
	}
	made, err := s.get(ctx, sub.ID)
	return made, secret, err
}

// newSecret is one in the form that receivers' libraries know.
func newSecret() string {
	key := make([]byte, 32)
	_, _ = rand.Read(key) // never fails
	return secretPrefix + base64.StdEncoding.EncodeToString(key)
}

const secretPrefix = "whsec_"

func (s *Service) get(ctx context.Context, id string) (Subscription, error) {
	o, err := s.Store.Get(ctx, ledger.Ref{Kind: Kind.Name, ID: id})
	if err != nil {
		return Subscription{}, err
	}
	who := access.From(ctx)
	if !o.Deleted.IsZero() || !who.Sees(o.Org, o.Owner) {
		return Subscription{}, fault.New(fault.NotFound, "there is no subscription %.64q", id)
	}
	return Decode(o)
}
