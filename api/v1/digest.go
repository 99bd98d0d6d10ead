package v1

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
)

// ComputeDigest returns the digest of the items: sha256 over id, generation,
// body digest and deletion of each, in order, as lower-case hexadecimal.
// Lengths are written before texts so that two lists never share the bytes.
func (d Desired) ComputeDigest() string {
	h := sha256.New()
	var buf []byte
	for _, it := range d.Items {
		buf = binary.AppendUvarint(buf[:0], uint64(len(it.ID)))
		buf = append(buf, it.ID...)
		buf = binary.AppendVarint(buf, it.Generation)
		buf = binary.AppendUvarint(buf, uint64(len(it.Digest)))
		buf = append(buf, it.Digest...)
		if it.Delete {
			buf = append(buf, 1)
		} else {
			buf = append(buf, 0)
		}
		h.Write(buf)
	}
	return hex.EncodeToString(h.Sum(nil))
}

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
