package cli

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/droverhq/drover/api/client"
)

// usageError is the caller's mistake: exit code 2.
type usageError struct {
	text  string
	quiet bool // the text is complete without a pointer to --help
}

func (e *usageError) Error() string { return e.text }

func usagef(format string, args ...any) error { return &usageError{text: fmt.Sprintf(format, args...)} }

// Misconfigured is what a server or an agent says that cannot run as it is configured: exit
// code 2, with the same text.
func Misconfigured(err error) error { return &usageError{text: err.Error(), quiet: true} }

// timeoutError ends a wait that took too long: exit code 124.
type timeoutError struct{ text string }

func (e *timeoutError) Error() string { return e.text }

// notFoundError is something that the client itself did not find: exit code 3.
type notFoundError struct{ text string }

func (e *notFoundError) Error() string { return e.text }

// deniedError is a login that has ended: exit code 4.
type deniedError struct{ text string }

func (e *deniedError) Error() string { return e.text }

// conflictError is a wish that what is there stands in the way of: exit code 5.
type conflictError struct{ text string }

func (e *conflictError) Error() string { return e.text }

var errInterrupted = errors.New("interrupted")

func exitCode(err error) int {
	var usage *usageError
	var timeout *timeoutError
	var missing *notFoundError
	var denied *deniedError
	var conflict *conflictError
	var unwell *unwellError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &usage) || strings.HasPrefix(err.Error(), "unknown command"):
		return 2
	case errors.As(err, &timeout) || errors.Is(err, context.DeadlineExceeded):
		return 124
	case errors.Is(err, errInterrupted):
		return 130
	case errors.As(err, &missing):
		return 3
	case errors.As(err, &denied):
		return 4
	case errors.As(err, &conflict):
		return 5
	case errors.As(err, &unwell):
		return 7
	}
	switch client.Status(err) {
	case http.StatusNotFound, http.StatusGone:
		return 3
	case http.StatusUnauthorized, http.StatusForbidden:
		return 4
	case http.StatusConflict, http.StatusPreconditionFailed:
		return 5
	}
	if client.Away(err) {
		return 6
	}
	return 1
}

// explain adds what to do next to errors whose remedy is known.
func explain(err error) string {
	var gone *client.Unreachable
	if errors.As(err, &gone) && gone.Refused {
		return fmt.Sprintf("no server at %s: start one with `drover up`, or name another with --server or `drover config use-context`", gone.Server)
	}
	text := clean(err.Error(), true)
	if strings.Contains(text, "address already in use") {
		return text + "\nSomething else listens there, perhaps another `drover up`: give other addresses with --listen and --routes."
	}
	if strings.Contains(text, "certificate signed by unknown authority") {
		return text + "\nWhoever vouches for the server is named with --ca-file, or kept in a context: `drover config set-context NAME --ca-file FILE`."
	}
	switch client.Status(err) {
	case http.StatusUnauthorized:
		return text + "\nLog in with `drover login`, or give a token with --token or DROVER_TOKEN; beside a local `drover up`, --data-dir finds its token. An admin makes one with `drover token --user NAME --org ORG`."
	case http.StatusServiceUnavailable:
		if strings.Contains(text, "the broker ") { // without which a server is ready all the same
			return text + "\nLook at the broker, and at --bus-options of the server; `drover doctor` says more."
		}
		return text + "\nIts /readyz says what is missing. Look what is there, then try again: a request that was cut off may have been written."
	case http.StatusTooManyRequests:
		return text + "\nThe server limits the rate of requests: slow down."
	}
	return text
}

// flagMistake words a wrong flag, with the nearest one that exists.
func flagMistake(cmd *cobra.Command, err error) error {
	text := err.Error()
	if name, ok := strings.CutPrefix(text, "unknown flag: --"); ok {
		if near := nearest(name, append(flagNames(cmd.Flags()), flagNames(cmd.InheritedFlags())...)); near != "" {
			return usagef("unknown flag --%s: did you mean --%s?", name, near)
		}
	}
	return usagef("%s", text)
}

// arguments wraps a count check, so that a mistake is a usage error that shows the usage.
func arguments(atLeast, atMost int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) >= atLeast && (atMost < 0 || len(args) <= atMost) {
			return nil
		}
		what := "too many arguments"
		if len(args) < atLeast {
			what = "an argument is missing"
		}
		return usagef("%s: %s", what, cmd.UseLine())
	}
}

// seconds prints a duration as people read it.
func seconds(d time.Duration) string {
	switch {
	case d < 0:
		return "0.0 s"
	case d < 10*time.Second:
		return fmt.Sprintf("%.2f s", d.Seconds())
	case d < 2*time.Minute:
		return fmt.Sprintf("%.0f s", d.Seconds())
	}
	return age(d)
}

// age prints a duration in its largest unit: 5s, 12m, 3h, 4d.
func age(d time.Duration) string {
	switch {
	case d < 0:
		return "0s"
	case d < 2*time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < 2*time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}
