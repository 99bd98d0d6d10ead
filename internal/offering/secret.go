package offering

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/droverhq/drover/internal/document"
	"github.com/droverhq/drover/internal/expr"
	"github.com/droverhq/drover/internal/fault"
)

// A document waits in the ledger with marks in place of its secrets. A mark is
// a whole string: the prefix and the secret's name. Text that only looks like
// one, which a tenant may have typed, is written with the prefix and a "=" in
// front, so that no text becomes a mark and all text survives.
const (
	markPrefix = "drover-secret:"
	textPrefix = markPrefix + "="
)

// Secret is the mark of a secret in a document.
func Secret(name string) string { return markPrefix + name }

// marked copies a rendered tree: null members are left out, secrets become
// marks, and text that looks like a mark is told apart.
func marked(v any) any {
	switch x := v.(type) {
	case expr.Secret:
		return Secret(string(x))
	case string:
		if strings.HasPrefix(x, markPrefix) {
			return textPrefix + x
		}
	case map[string]any:
		out := make(map[string]any, len(x))
		for k, member := range x {
			if member != nil {
				out[k] = marked(member)
			}
		}
		return out
	case []any:
		out := make([]any, len(x))
		for i, member := range x {
			out[i] = marked(member)
		}
		return out
	}
	return v
}

// FillSecrets puts secrets in place of a document's marks. The result is for
// whoever asked and must not be stored.
func FillSecrets(doc json.RawMessage, fill func(name string) (string, error)) (json.RawMessage, error) {
	if !bytes.Contains(doc, []byte(`"`+markPrefix)) {
		return doc, nil
	}
	var tree any
	d := json.NewDecoder(bytes.NewReader(doc))
	d.UseNumber()
	if err := d.Decode(&tree); err != nil {
		return nil, fault.New(fault.Internal, "cannot read a document for agents: %w", err)
	}
	filled, err := fillTree(tree, fill)
	if err != nil {
		return nil, err
	}
	return document.Encode(filled)
}

func fillTree(v any, fill func(string) (string, error)) (any, error) {
	var err error
	switch x := v.(type) {
	case string:
		return FillSecret(x, fill)
	case map[string]any:
		for k, member := range x {
			if x[k], err = fillTree(member, fill); err != nil {
				return nil, err
			}
		}
	case []any:
		for i, member := range x {
			if x[i], err = fillTree(member, fill); err != nil {
				return nil, err
			}
		}
	}
	return v, nil
}

// FillSecret is FillSecrets for one text.
func FillSecret(text string, fill func(name string) (string, error)) (string, error) {
	if plain, ok := strings.CutPrefix(text, textPrefix); ok {
		return plain, nil
	}
	name, ok := strings.CutPrefix(text, markPrefix)
	if !ok {
		return text, nil
	}
	secret, err := fill(name)
	if err != nil {
		return "", fmt.Errorf("cannot fill in the secret %s: %w", name, err)
	}
	return secret, nil
}
