package gitops

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/reconcile"
)

// KindWebhook declares the secrets that sign pushes: one of an organisation's, and
// the operators' (of no organisation), which is for all.
var KindWebhook = ledger.Kind{Name: "gitwebhook", Totals: [][]string{{}}}

// webhookOverlap is how long a secret is taken after another came in its place:
// nobody changes all repositories at once.
const webhookOverlap = time.Hour

type webhookSpec struct {
	Secret  string    `json:"secret"`        // reference of the sealed one
	Old     string    `json:"old,omitempty"` // likewise
	Rotated time.Time `json:"rotated,omitzero"`
}

func webhookRef(org string) ledger.Ref {
	sum := sha256.Sum256([]byte(org))
	return ledger.Ref{Kind: KindWebhook.Name, ID: "webhook-" + hex.EncodeToString(sum[:12])}
}

// WebhookOrg is whose webhook a caller is told of: that of the organisation. It is
// empty for operators, who have the one of all, whichever organisation they are
// in: what custom resources ask for may be of none.
func WebhookOrg(ctx context.Context) string {
	p := access.From(ctx)
	if p.Admin {
		return ""
	}
	return p.Org
}

// WebhookSecret returns what signs the pushes of WebhookOrg; with rotate another one
// from now on, beside which the last one is taken for an hour.
// Administrators alone may know it.
func (s *Service) WebhookSecret(ctx context.Context, rotate bool) (string, error) {
	p := access.From(ctx)
	if !p.Admin && (p.Org == "" || !p.OrgAdmin) {
		return "", fault.New(fault.Denied, "only administrators of an organisation may see the secret of its webhook").Because("denied")
	}
	for attempt := 0; ; attempt++ {
		secret, err := s.webhookSecret(ctx, WebhookOrg(ctx), rotate)
		if !again(err, attempt) {
			return secret, err
		}
	}
}

func (s *Service) webhookSecret(ctx context.Context, org string, rotate bool) (string, error) {
	o, spec, err := s.webhook(ctx, org)
	if err != nil {
		return "", err
	}
	if spec.Secret != "" && !rotate {
		plain, err := s.Keeper.Unseal(ctx, spec.Secret)
		return string(plain), err
	}
	box := &sealing{Service: s}
	plain := rand.Text()
	var gone string
	gone, spec.Old = spec.Old, spec.Secret
	if spec.Secret, err = box.keep(ctx, "", []byte(plain)); err != nil {
		return "", err
	}
	op := "rotate"
	if spec.Old == "" {
		op = "create"
		o = ledger.Object{Ref: webhookRef(org), Org: org, Name: "webhook", Phase: phaseReady}
	} else {
		spec.Rotated = s.Now().UTC()
	}
	set := ledger.Set{Actor: writer(ctx), Cause: ledger.CauseOf(ctx)}
	if o.Spec, err = json.Marshal(spec); err == nil {
		set.Puts = []ledger.Put{{Object: o, Expect: o.Version, Op: op}}
		if spec.Old != "" {
			set.Wakes = []ledger.Wake{{Ref: o.Ref, Org: o.Org, After: webhookOverlap + time.Minute}}
		}
		_, err = s.Store.Commit(ctx, set)
	}
	box.drop(ctx, err)
	if err != nil {
		return "", err
	}
	if gone != "" { // two rotations within an hour: the first secret ends now
		_ = s.Keeper.Shred(ctx, gone)
	}
	return plain, nil
}

// webhook reads the one of an organisation; an empty spec: there is none.
func (s *Service) webhook(ctx context.Context, org string) (ledger.Object, webhookSpec, error) {
	o, err := s.Store.Get(ctx, webhookRef(org))
	if fault.Is(err, fault.NotFound) {
		return o, webhookSpec{}, nil
	}
	var spec webhookSpec
	if err == nil {
		err = json.Unmarshal(o.Spec, &spec)
	}
	return o, spec, err
}

// TakePush takes a webhook's message for an organisation: its signature is checked,
// and what it is about is refreshed. It returns how many deployments that are.
func (s *Service) TakePush(ctx context.Context, org string, header http.Header, body []byte) (int, error) {
	pushes, err := s.openPush(ctx, org, header, body)
	if err != nil {
		return 0, err
	}
	total := 0
	for _, p := range pushes {
		n, err := s.Pushed(ctx, org, p)
		if err != nil {
			return total, err
		}
		total += n
	}
	return total, nil
}

// openPush parses a message with whichever secret is in force.
func (s *Service) openPush(ctx context.Context, org string, header http.Header, body []byte) ([]Push, error) {
	_, spec, err := s.webhook(ctx, org)
	if err != nil {
		return nil, err
	}
	secrets := []string{spec.Secret}
	if spec.Old != "" && s.Now().Before(spec.Rotated.Add(webhookOverlap)) {
		secrets = append(secrets, spec.Old)
	}
	var pushes []Push
	for _, ref := range secrets {
		var plain []byte // of an organisation without a webhook: what signs nothing
		if ref != "" {
			if plain, err = s.Keeper.Unseal(ctx, ref); err != nil {
				return nil, fmt.Errorf("cannot open the secret of the webhook: %w", err)
			}
		}
		if pushes, err = ParsePush(header, body, plain); !fault.Is(err, fault.Denied) {
			break
		}
	}
	return pushes, err
}

// Webhooks ends secrets that were replaced.
type Webhooks struct{ *Service }

// Reconcile destroys the last secret once its hour is over.
func (c Webhooks) Reconcile(ctx context.Context, task reconcile.Task) (reconcile.Result, error) {
	o, err := c.Store.Get(ctx, task.Ref)
	if fault.Is(err, fault.NotFound) {
		return reconcile.Result{}, nil
	}
	var spec webhookSpec
	if err == nil {
		err = json.Unmarshal(o.Spec, &spec)
	}
	if err != nil || spec.Old == "" {
		return reconcile.Result{}, err
	}
	set := ledger.Set{Actor: "system", Cause: ledger.BySchedule("webhook-rotation")}
	if left := spec.Rotated.Add(webhookOverlap).Sub(c.Now()); left > 0 {
		return reconcile.Wait(set, left, "until the last secret is no longer taken"), nil
	}
	odd := c.Keeper.Shred(ctx, spec.Old)
	if odd != nil && !fault.Is(odd, fault.Invalid) { // invalid: somebody has written something else there
		return reconcile.Result{}, odd
	}
	spec.Old = ""
	if o.Spec, err = json.Marshal(spec); err != nil {
		return reconcile.Result{}, err
	}
	set.Puts = []ledger.Put{{Object: o, Expect: o.Version, Op: "retire"}}
	return beside(reconcile.Done(set), nil, odd)
}
