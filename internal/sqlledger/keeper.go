package sqlledger

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
)

const secretPrefix = "secret:"

func (l *Ledger) keys() (*ledger.Vault, error) {
	if l.vault == nil {
		return nil, fault.New(fault.Invalid, "the ledger was opened without a master key")
	}
	return l.vault, nil
}

// PutBlob implements ledger.Keeper.
func (l *Ledger) PutBlob(ctx context.Context, data []byte) (string, error) {
	v, err := l.keys()
	if err != nil {
		return "", err
	}
	digest := ledger.Digest(data)
	// The mark first: a sweep that is about to erase it lets go, or is waited for.
	var b binder
	sql := fmt.Sprintf("INSERT INTO blobmarks (digest, at, idle, gone) VALUES (%s, %s, 0, 0) ON CONFLICT (digest) DO UPDATE SET at = excluded.at, idle = 0, gone = 0",
		b.bind(digest), l.dialect.now(&b, l.config.Now))
	_, err = l.submit(ctx, &request{exec: []statement{{op: raw, sql: sql, args: b.args}, {op: raw,
		sql: "INSERT INTO blobs (digest, data) VALUES ($1, $2) ON CONFLICT (digest) DO NOTHING", args: []any{digest, v.LockBlob(digest, data)}}}})
	if err != nil {
		return "", err
	}
	return digest, nil
}

// Blob implements ledger.Keeper.
func (l *Ledger) Blob(ctx context.Context, digest string) ([]byte, error) {
	v, err := l.keys()
	if err != nil {
		return nil, err
	}
	ctx, cancel := l.patient(ctx)
	defer cancel()
	var sealed []byte
	if _, err := constant(ledger.Text, "digest", digest); err == nil {
		err := l.engine.read(ctx, "SELECT data FROM blobs WHERE digest = $1", []any{digest}, func(scan scanner) error { return scan(&sealed) })
		if err != nil {
			return nil, err
		}
	}
	if sealed == nil {
		return nil, fault.New(fault.NotFound, "there is no such blob")
	}
	return v.UnlockBlob(digest, sealed)
}

// Seal implements ledger.Keeper.
func (l *Ledger) Seal(ctx context.Context, plaintext []byte) (string, error) {
	v, err := l.keys()
	if err != nil {
		return "", err
	}
	id := strings.ToLower(rand.Text())
	key, sealed, err := v.LockSecret(id, plaintext)
	if err != nil {
		return "", err
	}
	_, err = l.submit(ctx, &request{exec: []statement{{op: raw,
		sql: "INSERT INTO secrets (id, secret_key, data) VALUES ($1, $2, $3)", args: []any{id, key, sealed}}}})
	if err != nil {
		return "", err
	}
	return secretPrefix + id, nil
}

// Unseal implements ledger.Keeper.
func (l *Ledger) Unseal(ctx context.Context, ref string) ([]byte, error) {
	v, err := l.keys()
	if err != nil {
		return nil, err
	}
	id, err := secretID(ref)
	if err != nil {
		return nil, err
	}
	ctx, cancel := l.patient(ctx)
	defer cancel()
	var key, sealed []byte
	err = l.engine.read(ctx, "SELECT secret_key, data FROM secrets WHERE id = $1", []any{id}, func(scan scanner) error { return scan(&key, &sealed) })
	if err != nil {
		return nil, err
	}
	if key == nil {
		return nil, fault.New(fault.NotFound, "there is no such secret: it may have been destroyed")
	}
	return v.UnlockSecret(id, key, sealed)
}

// Shred implements ledger.Keeper. SQLite overwrites what is deleted (see
// connect); PostgreSQL does when it vacuums the table.
func (l *Ledger) Shred(ctx context.Context, ref string) error {
	id, err := secretID(ref)
	if err != nil {
		return err
	}
	_, err = l.submit(ctx, &request{exec: []statement{{op: raw, sql: "DELETE FROM secrets WHERE id = $1", args: []any{id}}}})
	return err
}

func secretID(ref string) (string, error) {
	id, ok := strings.CutPrefix(ref, secretPrefix)
	if _, err := constant(ledger.Text, "id", id); !ok || err != nil {
		return "", fault.New(fault.Invalid, "this is not a reference to a secret")
	}
	return id, nil
}
