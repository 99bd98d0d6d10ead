package app

import (
	"context"
	"io"
	"log/slog"

	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/reconcile"
)

// NewLog is the server's log, written elsewhere.
func NewLog(out io.Writer) *slog.Logger {
	return slog.New(knowing{Handler: slog.NewJSONHandler(out, nil)})
}

// Requests finds the requests that causes go back to.
func Requests(log ledger.Log) func(context.Context, ledger.Cause) string {
	return (&requests{log: log}).of
}

// Outcomes is a ledger that tells of operations that end.
func Outcomes(l reconcile.Ledger, log *slog.Logger) reconcile.Ledger { return outcomes{l, log} }
