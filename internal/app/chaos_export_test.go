//go:build chaos

package app

import (
	"net/http"

	"github.com/droverhq/drover/internal/ledger"
)

// ParseChaos tells what a text would have fail.
func ParseChaos(text string) (ledger, kubernetes float64, err error) {
	c, err := parseChaos(text)
	if err != nil {
		return 0, 0, err
	}
	return c.ledger, c.kubernetes, nil
}

type closing struct{ ledger.Ledger }

func (closing) Close() error { return nil }

// BadLedger fails as the text says, from a moment on.
func BadLedger(text string, l ledger.Ledger, from <-chan struct{}) ledger.Ledger {
	c, err := parseChaos(text)
	if err != nil {
		panic(err)
	}
	return &badLedger{closing{l}, c, from}
}

// BadLine fails as the text says.
func BadLine(text string, next http.RoundTripper) http.RoundTripper {
	c, err := parseChaos(text)
	if err != nil {
		panic(err)
	}
	return &badLine{next, c}
}
