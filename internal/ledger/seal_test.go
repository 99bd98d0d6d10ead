package ledger_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
)

func TestLoadKey(t *testing.T) {
	path := filepath.Join(t.TempDir(), "master.key")
	key, err := ledger.LoadKey(path)
	if err != nil || len(key) != ledger.KeySize {
		t.Fatalf("got a key of %d bytes, %v", len(key), err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("the key file has mode %v, %v", info.Mode(), err)
	}
	if again, err := ledger.LoadKey(path); err != nil || !bytes.Equal(again, key) {
		t.Fatalf("the second load gave another key: %v", err)
	}
	if err := os.WriteFile(path, []byte("secret-but-wrong"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ledger.LoadKey(path); !fault.Is(err, fault.Invalid) || strings.Contains(err.Error(), "secret-but") {
		t.Fatalf("a broken key file gave %v", err)
	}
}

func TestParseKey(t *testing.T) {
	digits := strings.Repeat("0f", ledger.KeySize)
	for _, c := range []struct {
		reason, text string
		ok           bool
	}{
		{"as a file holds it", digits + "\n", true},
		{"capitals are digits, too", strings.ToUpper(digits), true},
		{"a digit is missing", digits[1:], false},
		{"two digits are missing", digits[2:], false},
		{"too long", digits + "0f", false},
		{"no digits", strings.Repeat("zz", ledger.KeySize), false},
		{"nothing", "", false},
	} {
		key, err := ledger.ParseKey(c.text)
		if c.ok != (err == nil && bytes.Equal(key, bytes.Repeat([]byte{0x0f}, ledger.KeySize))) {
			t.Errorf("%s: %v", c.reason, err)
		}
		if err != nil && (!fault.Is(err, fault.Invalid) || c.text != "" && strings.Contains(err.Error(), c.text)) {
			t.Errorf("%s: the error is %v", c.reason, err)
		}
	}
}

// Replicas that share a volume may start at once: all must get one key, and
// none may read it half written.
func TestLoadKeyAtOnce(t *testing.T) {
	for range 50 {
		path := filepath.Join(t.TempDir(), "master.key")
		keys := make([][]byte, 8)
		var all sync.WaitGroup
		for i := range keys {
			all.Go(func() {
				var err error
				if keys[i], err = ledger.LoadKey(path); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		for _, k := range keys {
			if !bytes.Equal(k, keys[0]) {
				t.Fatal("two of them have different keys")
			}
		}
		if left, err := os.ReadDir(filepath.Dir(path)); err != nil || len(left) != 1 {
			t.Fatalf("%d files are left, %v", len(left), err)
		}
	}
}

func TestVault(t *testing.T) {
	v, err := ledger.NewVault(bytes.Repeat([]byte{1}, ledger.KeySize))
	if err != nil {
		t.Fatal(err)
	}
	other, err := ledger.NewVault(bytes.Repeat([]byte{2}, ledger.KeySize))
	if err != nil {
		t.Fatal(err)
	}
	plain := []byte("the plain text")
	key, sealed, err := v.LockSecret("id", plain)
	if err != nil || bytes.Contains(sealed, plain) {
		t.Fatalf("the secret is not sealed: %v", err)
	}
	if got, err := v.UnlockSecret("id", key, sealed); err != nil || !bytes.Equal(got, plain) {
		t.Fatalf("got %q, %v", got, err)
	}
	digest := ledger.Digest(plain)
	blob := v.LockBlob(digest, plain)
	for _, c := range []struct {
		reason string
		try    func() error
	}{
		{"another secret's name", func() error { _, err := v.UnlockSecret("other", key, sealed); return err }},
		{"another master key", func() error { _, err := other.UnlockSecret("id", key, sealed); return err }},
		{"a destroyed key", func() error { _, err := v.UnlockSecret("id", make([]byte, len(key)), sealed); return err }},
		{"damaged data", func() error { _, err := v.UnlockSecret("id", key, sealed[:len(sealed)-1]); return err }},
		{"another blob's digest", func() error { _, err := v.UnlockBlob(ledger.Digest(nil), blob); return err }},
		{"another key's token", func() error { return other.Check(v.Token()) }},
	} {
		if c.try() == nil {
			t.Errorf("%s opened it", c.reason)
		}
	}
	if err := v.Check(v.Token()); err != nil {
		t.Error(err)
	}
}
