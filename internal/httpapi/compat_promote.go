package httpapi

import (
	"encoding/json"
	"net/http"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/instance"
	"github.com/droverhq/drover/internal/offering"
)

// promoteModel is the field of a promotion that names the wanted model.
func promoteModel(spec offering.Spec) string {
	return "desired_" + spec.Names.Singular + "_billing_model"
}

// compatPromote moves an instance to another way of paying, while it runs.
func (s *server) compatPromote(w http.ResponseWriter, r *http.Request, p *compatPath) {
	err := wantsAsync(r)
	var to instance.Billing
	if err == nil {
		to, err = readPromotion(r, p.off.Spec)
	}
	if err == nil && !plainName(p.rest[1]) {
		err = noInstance(p)
	}
	if err == nil {
		_, err = s.Instances.Promote(r.Context(), p.off.Metadata.Name, p.rest[1], to)
	}
	if err != nil {
		s.fail(w, r, err)
		return
	}
	w.WriteHeader(http.StatusAccepted)
}

func readPromotion(r *http.Request, spec offering.Spec) (instance.Billing, error) {
	var model, market, payer *string
	err := readObject(r, func(field string, value json.RawMessage) error {
		switch field {
		case promoteModel(spec):
			return into(field, value, &model)
		case "desired_marketplace":
			return into(field, value, &market)
		case "desired_billing_cloud_account_id":
			return into(field, value, &payer)
		}
		return unknownField(field)
	})
	if err == nil && deref(model) == "" {
		err = fault.New(fault.Invalid, "%s is needed", promoteModel(spec)).Because("billing")
	}
	return instance.Billing{Model: deref(model), Marketplace: deref(market), Account: deref(payer)}, err
}
