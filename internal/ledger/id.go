package ledger

import (
	"crypto/rand"
	"encoding/base32"
	"encoding/binary"
	"time"
)

var idEncoding = base32.NewEncoding("0123456789abcdefghijklmnopqrstuv").WithPadding(base32.NoPadding)

// NewID returns a new object id: 24 lower-case letters and digits, safe in host
// names, that sort by the millisecond they were made in.
func NewID() string {
	var b [15]byte
	var ms [8]byte
	binary.BigEndian.PutUint64(ms[:], uint64(time.Now().UnixMilli()))
	copy(b[:6], ms[2:])
	rand.Read(b[6:])
	return idEncoding.EncodeToString(b[:])
}
