package cli

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/droverhq/drover/api/client"
	v1 "github.com/droverhq/drover/api/v1"
)

// resource finds what a word means on this server, in singular or plural.
func (s *session) resource(ctx context.Context, word string) (v1.Resource, error) {
	all, err := s.Resources(ctx)
	if err != nil {
		return v1.Resource{}, err
	}
	lower := strings.ToLower(word)
	var words []string
	for _, r := range all {
		if lower == r.Name || lower == r.Singular {
			return r, nil
		}
		words = append(words, r.Name, r.Singular)
	}
	hint := didYouMean(lower, words)
	if hint == "" {
		hint = "; there is: " + strings.Join(plurals(all), ", ")
	}
	return v1.Resource{}, &notFoundError{"the server knows no resource " + quoted(word) + hint}
}

func plurals(all []v1.Resource) []string {
	var names []string
	for _, r := range all {
		names = append(names, r.Name)
	}
	slices.Sort(names)
	return names
}

// can refuses a verb that the resource does not have, before the server does.
func can(r v1.Resource, verb string) error {
	if len(r.Verbs) == 0 || slices.Contains(r.Verbs, verb) {
		return nil
	}
	done := verb + "d"
	if verb == "reset" {
		done = verb
	}
	return usagef("%s cannot be %s; they take: %s", r.Name, done, strings.Join(r.Verbs, ", "))
}

// targets splits arguments into a resource and names: RESOURCE NAME... or
// RESOURCE/NAME..., as `-o name` prints them.
func targets(args []string) (resource string, names []string, err error) {
	if len(args) == 0 {
		return "", nil, usagef("which resource? `drover get` lists them")
	}
	if !strings.Contains(args[0], "/") {
		return args[0], args[1:], nil
	}
	for _, arg := range args {
		r, name, ok := strings.Cut(arg, "/")
		switch {
		case !ok || name == "" || strings.Contains(name, "/"):
			return "", nil, usagef("%s: want RESOURCE/NAME", quoted(arg))
		case resource != "" && r != resource:
			return "", nil, usagef("one resource at a time: %s and %s", quoted(resource), quoted(r))
		}
		resource, names = r, append(names, name)
	}
	return resource, names, nil
}

// target is targets for commands that take exactly one name.
func target(args []string) (resource, name string, err error) {
	resource, names, err := targets(args)
	if err == nil && len(names) != 1 {
		err = usagef("want RESOURCE NAME or RESOURCE/NAME")
	}
	if err != nil {
		return "", "", err
	}
	return resource, names[0], nil
}

// find reads one object; if there is none of that name, the error names a near one.
func (s *session) find(ctx context.Context, r v1.Resource, name, at string) (v1.Object, error) {
	o, err := s.Get(ctx, r.Name, name, at)
	if client.Status(err) != 404 {
		return o, err
	}
	text := "no " + r.Singular + " " + quoted(name)
	if at != "" {
		return o, &notFoundError{text + " at " + at}
	}
	// The list is only for the hint: its failure changes nothing.
	if page, listErr := s.List(ctx, r.Name, client.ListOptions{Size: 100}); listErr == nil {
		if hint := didYouMean(name, objectNames(page.Items)); hint != "" {
			return o, &notFoundError{text + hint}
		}
	}
	return o, &notFoundError{text + "; `drover get " + r.Name + "` lists what there is"}
}

// has reports whether there is something of that name. One that is being deleted
// does not count, nor one that cannot be asked for.
func (s *session) has(ctx context.Context, r v1.Resource, name string) bool {
	o, err := s.Get(ctx, r.Name, name, "")
	return err == nil && o.Deleted == nil
}

func objectNames(items []v1.Object) []string {
	var names []string
	for _, o := range items {
		names = append(names, label(o))
	}
	return names
}

// label is the name that people use for an object.
func label(o v1.Object) string {
	if o.Name != "" {
		return o.Name
	}
	return o.ID
}

// complete offers resources for the first argument and names for the next ones.
func (c *CLI) complete(most int) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if most >= 0 && len(args) >= most {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), 2*time.Second)
		defer cancel()
		s, err := c.connect(cmd)
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		var out []cobra.Completion
		if len(args) == 0 {
			all, err := s.Resources(ctx)
			if err != nil {
				return nil, cobra.ShellCompDirectiveError
			}
			for _, r := range all {
				out = append(out, r.Name, r.Singular)
			}
		} else {
			r, err := s.resource(ctx, args[0])
			if err != nil {
				return nil, cobra.ShellCompDirectiveError
			}
			page, err := s.List(ctx, r.Name, client.ListOptions{Size: 200})
			if err != nil {
				return nil, cobra.ShellCompDirectiveError
			}
			out = objectNames(page.Items)
		}
		return slices.DeleteFunc(out, func(w string) bool {
			return !strings.HasPrefix(w, prefix) || slices.Contains(args, w)
		}), cobra.ShellCompDirectiveNoFileComp
	}
}

// didYouMean is the end of a message: the word that was probably meant.
func didYouMean(word string, words []string) string {
	if near := nearest(word, words); near != "" {
		return ": did you mean " + quoted(near) + "?"
	}
	return ""
}

// nearest returns the word with the fewest edits, if they are few for its length.
func nearest(word string, words []string) string {
	best, least := "", max(1, min(3, len(word)/3))+1
	for _, w := range words {
		if d := distance(strings.ToLower(word), strings.ToLower(w), least); d < least {
			best, least = w, d
		}
	}
	return best
}

// distance counts insertions, deletions, replacements and swaps of neighbours.
func distance(a, b string, limit int) int {
	if len(a) > 64 || len(b) > 64 || len(a)-len(b) >= limit || len(b)-len(a) >= limit {
		return limit
	}
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			rows[i][j] = min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(a)][len(b)]
}

func quoted(word string) string { return `"` + clean(word, false) + `"` }

func flagNames(flags *pflag.FlagSet) []string {
	var names []string
	flags.VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, f.Name)
		}
	})
	return names
}
