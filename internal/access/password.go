package access

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"fmt"
	"strings"
	"unicode/utf8"

	"golang.org/x/crypto/argon2"

	"github.com/droverhq/drover/internal/fault"
)

const (
	minPassword = 8
	maxPassword = 512
)

// cost of a password's hash. It is written beside each one, so that it can be
// raised without locking anybody out.
type cost struct {
	time, memory uint32 // memory in KiB
	threads      uint8
}

var dear = cost{time: 2, memory: 19 << 10, threads: 1}

// hashing bounds how many passwords are hashed at once: each takes 19 MiB, and
// anybody may ask.
var hashing = make(chan struct{}, 4)

func checkPassword(password string) error {
	if len(password) < minPassword || len(password) > maxPassword || !utf8.ValidString(password) {
		return fault.New(fault.Invalid, "a password has between %d and %d bytes", minPassword, maxPassword)
	}
	return nil
}

// hashPassword returns the argon2id hash in the usual notation.
func hashPassword(ctx context.Context, password string) (string, error) {
	salt := make([]byte, 16)
	rand.Read(salt) //nolint:errcheck // never fails
	sum, err := derive(ctx, password, salt, dear)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("$argon2id$v=%d$m=%d,t=%d,p=%d$%s$%s", argon2.Version, dear.memory, dear.time, dear.threads,
		base64.RawStdEncoding.EncodeToString(salt), base64.RawStdEncoding.EncodeToString(sum)), nil
}

func derive(ctx context.Context, password string, salt []byte, c cost) ([]byte, error) {
	select {
	case hashing <- struct{}{}:
		defer func() { <-hashing }()
	case <-ctx.Done():
		return nil, fault.New(fault.Unavailable, "gave up waiting for the check of a password: %w", context.Cause(ctx))
	}
	return argon2.IDKey([]byte(password), salt, c.time, c.memory, c.threads, 32), nil
}

// samePassword costs the same whether the password is right or wrong.
func samePassword(ctx context.Context, hash, password string) (bool, error) {
	parts := strings.Split(hash, "$")
	var version int
	var c cost
	if len(parts) != 6 || parts[1] != "argon2id" {
		return false, fault.New(fault.Internal, "the hash of a password is damaged")
	}
	_, err := fmt.Sscanf(parts[2]+" "+parts[3], "v=%d m=%d,t=%d,p=%d", &version, &c.memory, &c.time, &c.threads)
	salt, err2 := base64.RawStdEncoding.DecodeString(parts[4])
	want, err3 := base64.RawStdEncoding.DecodeString(parts[5])
	if err != nil || err2 != nil || err3 != nil || version != argon2.Version || c.time == 0 || c.threads == 0 || c.memory > 1<<20 {
		return false, fault.New(fault.Internal, "the hash of a password is damaged")
	}
	got, err := derive(ctx, password, salt, c)
	if err != nil {
		return false, err
	}
	return subtle.ConstantTimeCompare(got, want) == 1, nil
}
