package environment

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"time"

	"github.com/droverhq/drover/internal/executor"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
)

// What was seen of a resource.
const (
	SeenPresent = "present"
	SeenDrifted = "drifted"
	SeenAbsent  = "absent"
	SeenUnknown = "unknown" // it could not be looked at
)

// What a record of drift is about besides those.
const driftStray = "stray"

// Policies of drift; the default is to report it.
const (
	driftCorrect = "correct"
	driftIgnore  = "ignore"
)

const (
	// lookEvery is how often a resource is looked at whose executor says nothing.
	lookEvery = 5 * time.Minute
	// lookPause is between two looks that nobody has asked for: one who writes all
	// the time is not followed write by write.
	lookPause = time.Second
	// maxCorrections within brakeSpan; beyond, somebody else writes it too.
	maxCorrections = 3
	brakeSpan      = time.Hour
)

// Look has the executor look at a resource.
type Look struct{}

// Later looks again after a while.
type Later struct{ After time.Duration }

func (Look) move()  {}
func (Later) move() {}

// looks decides about a resource that is as it should be as far as is known: it is
// looked at whenever it is woken, be it by the clock, by who watches or by whom.
func looks(r Resource, around Around, now time.Time) Move {
	switch {
	case r.Phase != Ready || r.Spec.Absent || around.Leaving || r.Spec.Drift == driftIgnore:
		return nil
	case around.Look > r.Status.Looked:
		return Look{}
	case !around.Told && now.Sub(r.Status.Since) < lookPause && r.Status.Observed.IsZero():
		return Later{spread(r.ID, around.Every)} // it was made a moment ago, and others have woken it
	case now.Sub(around.Last) < lookPause && !around.Last.After(now):
		return Later{lookPause - now.Sub(around.Last)}
	}
	return Look{}
}

// spread is when a resource is looked at first: those of one environment were made
// at the same time, and are not looked at so.
func spread(id string, every time.Duration) time.Duration {
	h := fnv.New32a()
	h.Write([]byte(id))
	return every/2 + time.Duration(float64(every/2)*float64(h.Sum32())/float64(1<<32))
}

func everyOf(d executor.Description) time.Duration {
	if d.Every > 0 {
		return d.Every
	}
	return lookEvery
}

// Sight is what an executor saw, fit for people.
type Sight struct {
	Seen    string
	Why     string // it is unknown
	Unready string
	By      string
	Fields  []executor.Field
}

// Finding is what comes of a sight.
type Finding struct {
	Resource // as it is to be written
	Open     bool
	Change   bool // the record that is open
	Close    bool // the record that was open: it is as expected again
	Correct  bool
	News     bool // there is something to write
}

// Judge decides what a sight means. It is pure. An error never makes anything gone:
// what was known before stays.
func Judge(r Resource, s Sight, now time.Time) Finding {
	f := Finding{Resource: r}
	st := &f.Status
	switch s.Seen {
	case SeenUnknown:
		if f.News = st.Seen != SeenUnknown; f.News {
			st.Seen, st.Why, st.Observed = SeenUnknown, s.Why, now
		}
		return f
	case SeenPresent:
		f.Close = st.DriftRecord != ""
		st.Drift, st.DriftRecord = nil, ""
		st.Message = s.Unready
	default:
		f.Open = st.DriftRecord == ""
		f.Change = !f.Open && (!sameFields(st.Drift, s.Fields) || st.Seen != s.Seen && st.Seen != SeenUnknown)
		st.Drift = s.Fields
		if r.Spec.Drift == driftCorrect {
			st.Corrected = within(st.Corrected, now)
			if f.Correct = len(st.Corrected) < maxCorrections; f.Correct {
				st.Corrected = append(st.Corrected, now)
				st.again(now)
				f.Phase, f.Spec.Action, f.Spec.Mark = Applying, driftCorrect, ""
				st.Message = "it has drifted and is corrected"
			} else {
				st.Message = fmt.Sprintf("it was corrected %d times within an hour and is different again: somebody else writes it too. See who (drover env drift), and let one of the two go; it is corrected again after %s.",
					maxCorrections, st.Corrected[0].Add(brakeSpan).Format("15:04 MST"))
			}
		}
	}
	st.Seen, st.Why = s.Seen, ""
	f.News = f.Open || f.Change || f.Close || f.Correct || st.Seen != r.Status.Seen || st.Message != r.Status.Message || r.Status.Why != ""
	if f.News {
		st.Observed = now
	}
	return f
}

// mendable refuses a correction that would take a resource away and make it anew:
// policies and protections are asked about plans alone.
func mendable(ctx context.Context, x executor.Executor, r executor.Resource) error {
	r.Save = nil
	change, err := x.Plan(ctx, r)
	if err == nil && change.Action == executor.Replace {
		err = fault.New(fault.Invalid, "it has drifted so far that only another one in its place would mend it, which nobody has planned: plan that (drover env plan %s)", r.Environment).Because("drift")
	}
	return err
}

// Onward is a resource that uses what a correction has made anew: it is corrected too.
// False: it is not to be, or not now. It is pure. One that is corrected already is written
// all the same: whoever works on it has perhaps read what there was before.
func Onward(r Resource, now time.Time) (Resource, bool) {
	settled := r.Phase == Ready || r.Phase == Applying && r.Spec.Action == driftCorrect
	if r.Spec.Drift != driftCorrect || r.Spec.Absent || !r.Deleted.IsZero() || !settled || r.Status.Turn != r.Spec.Turn {
		return r, false
	}
	r.Status.again(now)
	r.Status.Anew++ // or nothing would be written within one tick of the clock
	r.Phase, r.Spec.Action, r.Spec.Mark = Applying, driftCorrect, ""
	r.Status.Message = "what it uses was made anew"
	return r, true
}

// onward has those corrected that use a resource whose correction has changed its
// outputs. Those that are only told of drift are shown by the next plan.
func (n *run) onward(ctx context.Context, sh *sheet) error {
	i, ok := sh.byID[n.r.ID]
	if !ok {
		return nil
	}
	for _, id := range sh.needed[i] {
		o, err := n.Store.Get(ctx, ledger.Ref{Kind: KindResource.Name, ID: id})
		if fault.Is(err, fault.NotFound) {
			continue
		}
		if err != nil {
			return err
		}
		r, err := DecodeResource(o)
		if err != nil {
			return err
		}
		if r, ok := Onward(r, n.Now().UTC()); ok {
			put, err := r.put("correct")
			if err != nil {
				return err
			}
			n.more = append(n.more, put)
		}
	}
	return n.anew(ctx)
}

// anew has the environment tell its outputs again.
func (n *run) anew(ctx context.Context) error {
	o, err := n.Store.Get(ctx, n.e.Ref)
	if err != nil {
		return err
	}
	e, err := Decode(o)
	if err != nil || len(e.Status.Outputs)+len(e.Status.Secrets) == 0 {
		return err
	}
	e.Status.Anew++ // counted: whoever tells them now has perhaps read what there was before
	put, err := e.put("update")
	if err == nil {
		n.more = append(n.more, put)
	}
	return err
}

// within keeps the corrections that the brake counts.
func within(times []time.Time, now time.Time) (out []time.Time) {
	for _, t := range times {
		if now.Sub(t) < brakeSpan {
			out = append(out, t)
		}
	}
	return out
}

// sight tells an observation, or why there is none.
func sight(o executor.Observation, err error, v veil) Sight {
	switch {
	case err != nil:
		return Sight{Seen: SeenUnknown, Why: clip(v.text(err.Error()))}
	case !o.Exists:
		return Sight{Seen: SeenAbsent, By: v.text(o.By), Fields: []executor.Field{{Path: "exists", Before: true, After: false}}}
	case len(o.Drift) > 0:
		fields := v.fields(o.Drift[:min(len(o.Drift), maxDrift)])
		for i := range fields {
			fields[i].Before, fields[i].After = brief(fields[i].Before), brief(fields[i].After)
		}
		return Sight{Seen: SeenDrifted, By: v.text(o.By), Fields: plainFields(fields)}
	}
	return Sight{Seen: SeenPresent, Unready: clip(v.text(o.Unready))}
}

const (
	maxDrift      = 50      // fields of one record
	maxDriftValue = 2 << 10 // bytes of one value
)

// brief cuts a value that an object has no room for.
func brief(v any) any {
	raw, err := json.Marshal(v)
	if err != nil || len(raw) <= maxDriftValue {
		return v
	}
	text, ok := v.(string)
	if !ok {
		text = string(raw)
	}
	for i := range text {
		if i > maxDriftValue {
			return text[:i] + "..."
		}
	}
	return text
}

// plainFields gives fields the form that they have when they are read again.
func plainFields(fields []executor.Field) (out []executor.Field) {
	raw, err := json.Marshal(fields)
	if err != nil || json.Unmarshal(raw, &out) != nil {
		return fields
	}
	return out
}

// Drift is a record with its document decoded.
type Drift struct {
	ledger.Object
	Spec DriftSpec
}

// DecodeDrift reads a record out of its object.
func DecodeDrift(o ledger.Object) (Drift, error) {
	d := Drift{Object: o}
	var none struct{}
	return d, decode(o, &d.Spec, &none)
}

func (d Drift) put(op string) (ledger.Put, error) {
	o := d.Object
	var err error
	if o.Spec, err = json.Marshal(d.Spec); err != nil {
		return ledger.Put{}, err
	}
	return ledger.Put{Object: o, Expect: o.Version, Op: op}, nil
}

// record opens a record of what was found of a resource.
func record(e Environment, r Resource, s Sight, now time.Time) Drift {
	d := Drift{Object: ledger.Object{Ref: ledger.Ref{Kind: KindDrift.Name, ID: ledger.NewID()}, Org: e.Org, Owner: e.Owner, Name: r.Spec.Address,
		Phase: DriftOpen, Parent: r.ID, Fields: ledger.Fields{"environment": e.ID, "address": r.Spec.Address}},
		Spec: DriftSpec{Environment: e.Name, Address: r.Spec.Address, First: now, Policy: r.Spec.Drift}}
	if d.Spec.Policy == "" {
		d.Spec.Policy = "report"
	}
	d.sees(s, now)
	return d
}

func (d *Drift) sees(s Sight, now time.Time) {
	d.Spec.What, d.Spec.Fields, d.Spec.Last = s.Seen, s.Fields, now
	if s.By != "" {
		d.Spec.By = s.By
	}
	d.Spec.Expected, d.Spec.Actual = map[string]any{}, map[string]any{}
	for _, f := range s.Fields {
		if f.Before != nil {
			d.Spec.Expected[f.Path] = f.Before
		}
		if f.After != nil {
			d.Spec.Actual[f.Path] = f.After
		}
	}
}

// ended ends a record.
func (d *Drift) ended(phase string, now time.Time) {
	d.Phase, d.Spec.Ended = phase, now
}
