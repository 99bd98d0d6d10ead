package app_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/droverhq/drover/internal/app"
	"github.com/droverhq/drover/internal/ledger"
)

// What a replica has sealed another opens, beside the same message and with the same master
// key alone.
func TestTokensAreSealedToTheirMessages(t *testing.T) {
	const token, message = "Bearer of-alice", "message-1"
	keys := func(n byte) interface {
		Seal(text, to string) string
		Open(sealed, to string) (string, bool)
		Mine(sealed string) bool
	} {
		k, err := app.NewMessageKeys(bytes.Repeat([]byte{n}, ledger.KeySize))
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	sealed := keys(1).Seal(token, message)
	if strings.Contains(sealed, "alice") || sealed == keys(1).Seal(token, message) {
		t.Errorf("it is sealed as %q", sealed)
	}
	if got, ok := keys(1).Open(sealed, message); !ok || got != token {
		t.Errorf("it opens as %q, %v", got, ok)
	}
	if !keys(1).Mine(sealed) || keys(2).Mine(sealed) || keys(1).Mine("%") || keys(1).Mine("") {
		t.Error("it is not known which key has sealed it")
	}
	for reason, open := range map[string]func() (string, bool){
		"another message":    func() (string, bool) { return keys(1).Open(sealed, "message-2") },
		"another master key": func() (string, bool) { return keys(2).Open(sealed, message) },
		"nonsense":           func() (string, bool) { return keys(1).Open("%", message) },
		"nothing":            func() (string, bool) { return keys(1).Open("", message) },
	} {
		if got, ok := open(); ok || strings.Contains(got, "alice") {
			t.Errorf("%s opens it: %q", reason, got)
		}
	}
}
