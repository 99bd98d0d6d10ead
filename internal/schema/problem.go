package schema

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/big"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// flatten turns the library's tree of causes into one list.
func flatten(err *jsonschema.ValidationError) Problems {
	var out Problems
	collect(err, &out)
	slices.SortStableFunc(out, func(a, b Problem) int {
		return cmp.Or(slices.Compare(a.Path, b.Path), cmp.Compare(a.Message, b.Message))
	})
	return slices.CompactFunc(out, func(a, b Problem) bool { return a.Error() == b.Error() })
}

func collect(err *jsonschema.ValidationError, out *Problems) {
	at := func(message string, more ...string) {
		*out = append(*out, Problem{Path: append(slices.Clone(err.InstanceLocation), more...), Message: message})
	}
	switch k := err.ErrorKind.(type) {
	case *kind.Required:
		for _, name := range k.Missing {
			at("is required", name)
		}
		return
	case *kind.AdditionalProperties:
		for _, name := range k.Properties {
			at("is not a known parameter", short(name))
		}
		return
	case *kind.AnyOf:
		if n := len(err.InstanceLocation); n > 0 && err.InstanceLocation[n-1] == "type" && strings.HasPrefix(err.SchemaURL, "https://json-schema.org/") {
			at("must be array, boolean, integer, null, number, object or string")
			return
		}
		at(describe(k))
		return
	case *kind.OneOf, *kind.Not, *kind.Contains, *kind.PropertyNames:
		at(describe(k)) // the causes tell about forms that the user may not have meant
		return
	}
	if len(err.Causes) == 0 {
		at(describe(err.ErrorKind))
	}
	for _, cause := range err.Causes {
		collect(cause, out)
	}
}

// describe words a mistake without the value that made it.
func describe(k jsonschema.ErrorKind) string {
	switch k := k.(type) {
	case *kind.Type:
		return fmt.Sprintf("must be %s, not %s", strings.Join(k.Want, " or "), k.Got)
	case *kind.Enum:
		return "must be one of " + list(k.Want)
	case *kind.Const:
		return "must be " + list([]any{k.Want})
	case *kind.Format:
		return "is not a valid " + k.Want
	case *kind.Pattern:
		return "does not match the pattern " + k.Want
	case *kind.MinLength:
		return fmt.Sprintf("must have at least %d characters", k.Want)
	case *kind.MaxLength:
		return fmt.Sprintf("must have at most %d characters", k.Want)
	case *kind.MinItems:
		return fmt.Sprintf("must have at least %d entries", k.Want)
	case *kind.MaxItems:
		return fmt.Sprintf("must have at most %d entries", k.Want)
	case *kind.MinProperties:
		return fmt.Sprintf("must have at least %d members", k.Want)
	case *kind.MaxProperties:
		return fmt.Sprintf("must have at most %d members", k.Want)
	case *kind.UniqueItems:
		return fmt.Sprintf("entries %d and %d are the same", k.Duplicates[0], k.Duplicates[1])
	case *kind.Minimum:
		return "must be at least " + number(k.Want)
	case *kind.Maximum:
		return "must be at most " + number(k.Want)
	case *kind.ExclusiveMinimum:
		return "must be more than " + number(k.Want)
	case *kind.ExclusiveMaximum:
		return "must be less than " + number(k.Want)
	case *kind.MultipleOf:
		return "must be a multiple of " + number(k.Want)
	case *kind.DependentRequired:
		return fmt.Sprintf("%s also needs %s", short(k.Prop), strings.Join(k.Missing, ", "))
	case *kind.OneOf:
		if len(k.Subschemas) > 0 {
			return "matches more than one of the allowed forms"
		}
		return "matches none of the allowed forms"
	case *kind.AnyOf:
		return "matches none of the allowed forms"
	case *kind.PropertyNames:
		return fmt.Sprintf("the name %s is not allowed", short(k.Property))
	case *kind.FalseSchema:
		return "is not allowed"
	case *kind.Contains:
		return "lacks an entry that it must have"
	}
	return "is not allowed (" + strings.Join(k.KeywordPath(), "/") + ")"
}

func list(values []any) string {
	words := make([]string, len(values))
	for i, v := range values {
		data, _ := json.Marshal(v)
		words[i] = string(data)
	}
	return strings.Join(words, ", ")
}

func number(r *big.Rat) string { return strings.TrimSuffix(r.RatString(), "/1") }

func short(name string) string {
	if runes := []rune(name); len(runes) > 64 {
		return string(runes[:61]) + "..."
	}
	return name
}
