package v1

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
)

// BodyDigest is the digest of an item's body: sha256 of its compact form, as
// lower-case hexadecimal. The compact form is taken because encoding/json
// compacts and escapes a raw message on its way, and the digest must be the
// same on both sides. A body that is not JSON is digested as it is.
func BodyDigest(body []byte) string {
	var compact, escaped bytes.Buffer
	if json.Compact(&compact, body) == nil {
		json.HTMLEscape(&escaped, compact.Bytes())
		body = escaped.Bytes()
	}
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:])
}
