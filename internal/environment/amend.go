package environment

import (
	"context"
	"time"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
)

// Amendment is what is to be different of an environment besides what is made for it;
// nil stays.
type Amendment struct {
	Ends        *time.Time // planned destruction; the zero time: none
	Protected   *bool
	Description *string
	Tags        *[]string
}

// Amend changes all of it in one commit, or nothing. Faults: Invalid (reason "ends": it
// is in the past).
func (s *Service) Amend(ctx context.Context, environment string, a Amendment) (ledger.Object, error) {
	now := s.Now()
	if a.Ends != nil && !a.Ends.IsZero() && (a.Ends.Before(now) || a.Ends.After(now.Add(MaxTTL))) {
		return ledger.Object{}, fault.New(fault.Invalid, "an environment ends in the future, and within ten years").Because("ends")
	}
	permission, op := a.needs()
	return s.want(ctx, environment, permission, op, func(e *Environment, _ *ledger.Set) error {
		if a.Protected != nil && permission != "destroy" {
			if err := s.allowed(ctx, "destroy", e.Spec.Version, e.Object, e.Name); err != nil {
				return err
			}
		}
		if a.Ends != nil {
			if err := s.ends(ctx, e, *a.Ends, now); err != nil {
				return err
			}
		}
		if a.Protected != nil {
			if *a.Protected && e.Spec.Destroy {
				return fault.New(fault.Conflict, "environment %s is being destroyed already", e.Name).Because("destroying")
			}
			e.Spec.Protected = *a.Protected
		}
		return a.describe(e)
	})
}

// needs is the first permission that it takes, and the verb that the log has.
func (a *Amendment) needs() (permission, op string) {
	said := a.Description != nil || a.Tags != nil
	switch {
	case a.Protected != nil && a.Ends == nil && !said:
		return "destroy", "protect"
	case a.Protected == nil && a.Ends == nil:
		return "apply", "describe"
	case a.Protected == nil && !said:
		return "apply", "extend"
	}
	return "apply", "amend"
}

func (s *Service) ends(ctx context.Context, e *Environment, until, now time.Time) error {
	if e.Spec.Destroy {
		return fault.New(fault.Conflict, "environment %s is being destroyed", e.Name).Because("destroying")
	}
	if err := s.mayEnd(ctx, *e, until); err != nil {
		return err
	}
	e.Spec.Ends, e.Status.Reminded, e.Status.EndPlan = until.UTC().Truncate(time.Second), now.UTC(), ""
	if until.IsZero() {
		e.Spec.Ends = time.Time{}
	}
	return nil
}

// mayEnd refuses an end that comes sooner than the present one to those who may not
// destroy: it would do that for them.
func (s *Service) mayEnd(ctx context.Context, e Environment, until time.Time) error {
	if until.IsZero() || !e.Spec.Ends.IsZero() && !until.Before(e.Spec.Ends) {
		return nil
	}
	return s.allowed(ctx, "destroy", e.Spec.Version, e.Object, e.Name)
}

func (a *Amendment) describe(e *Environment) error {
	if a.Description == nil && a.Tags == nil {
		return nil
	}
	if a.Description != nil {
		e.Spec.Description = *a.Description
	}
	if a.Tags != nil {
		e.Spec.Tags = *a.Tags
	}
	if len(e.Spec.Description) > 4096 {
		return fault.New(fault.Invalid, "a description has at most 4096 bytes").Because("description")
	}
	return checkTags(e.Spec.Tags)
}

// Extend moves the planned destruction; the zero time takes it back.
func (s *Service) Extend(ctx context.Context, environment string, until time.Time) (ledger.Object, error) {
	return s.Amend(ctx, environment, Amendment{Ends: &until})
}

// Protect keeps an environment from being destroyed, by whomever and whatever date.
func (s *Service) Protect(ctx context.Context, environment string, on bool) (ledger.Object, error) {
	return s.Amend(ctx, environment, Amendment{Protected: &on})
}

// Describe changes what people read of an environment; nil stays.
func (s *Service) Describe(ctx context.Context, environment string, description *string, tags *[]string) (ledger.Object, error) {
	return s.Amend(ctx, environment, Amendment{Description: description, Tags: tags})
}
