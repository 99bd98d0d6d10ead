package keep

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"regexp"
	"strings"
)

var nameText = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`)

// Named makes a name for an object about an id: readable where the id allows it,
// and never the same for two ids.
func Named(prefix, id string) string {
	if nameText.MatchString(id) && len(prefix)+len(id) <= 52 && !strings.HasPrefix(id, "x-") {
		return prefix + id
	}
	sum := sha256.Sum256([]byte(id))
	return prefix + "x-" + hex.EncodeToString(sum[:12])
}

// Valid reports whether the body is one JSON object.
func Valid(body json.RawMessage) bool {
	dec := json.NewDecoder(bytes.NewReader(body))
	var object map[string]json.RawMessage
	if dec.Decode(&object) != nil || object == nil {
		return false
	}
	_, err := dec.Token()
	return err == io.EOF
}

// canonical is the body as it comes back from where it is kept.
func canonical(body json.RawMessage) json.RawMessage {
	var compact, escaped bytes.Buffer
	if json.Compact(&compact, body) != nil {
		return body
	}
	json.HTMLEscape(&escaped, compact.Bytes())
	return escaped.Bytes()
}
