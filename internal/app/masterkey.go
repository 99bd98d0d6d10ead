package app

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"os"
	"strings"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
)

// wrappedBy begins what transit has wrapped.
const wrappedBy = "vault:v"

// masterKey is the key that guards secrets. It is read once, and lives in memory.
func (o *own) masterKey(ctx context.Context) ([]byte, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	var err error
	if o.key == nil {
		o.key, err = o.readKey(ctx)
	}
	return o.key, err
}

// forgetKey has it read anew: it is not the one of the ledger.
func (o *own) forgetKey() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.key = nil
}

// readKey reads it with the help of transit if that has wrapped it.
func (o *own) readKey(ctx context.Context) ([]byte, error) {
	c := o.cfg
	switch {
	case c.MasterKeyTransit == "" && c.MasterKey != "":
		return ledger.ParseKey(c.MasterKey)
	case c.MasterKeyTransit == "":
		if data, err := os.ReadFile(c.MasterKeyFile); err == nil && strings.HasPrefix(string(data), wrappedBy) {
			return nil, fault.New(fault.Invalid, "%s was wrapped by transit: say with --master-key-transit MOUNT/keys/NAME by which key", c.MasterKeyFile).Because("wrapped")
		}
		return ledger.LoadKey(c.MasterKeyFile)
	case c.MasterKey != "":
		return nil, fault.New(fault.Invalid, "DROVER_MASTER_KEY and --master-key-transit exclude each other: the key that transit wraps is in the file")
	case o.vault == nil:
		return nil, fault.New(fault.Invalid, "--master-key-transit needs --vault")
	}
	mount, name, ok := strings.Cut(strings.Trim(c.MasterKeyTransit, "/"), "/keys/")
	if !ok || mount == "" || name == "" {
		return nil, fault.New(fault.Invalid, "--master-key-transit: want MOUNT/keys/NAME, such as transit/keys/drover")
	}
	return ledger.LoadGuardedKey(c.MasterKeyFile, transit{o, ctx, mount, name})
}

// messageKeys are for what is kept of messages. Whoever had one would not have the master
// key that they are made of.
type messageKeys struct {
	digests []byte // commands are known again by
	aside   cipher.AEAD
	name    string // of that key: what it has sealed begins with it
}

func newMessageKeys(master []byte) (k messageKeys, err error) {
	if k.digests, err = hkdf.Key(sha256.New, master, nil, "drover digests of commands", ledger.KeySize); err != nil {
		return k, err
	}
	key, err := hkdf.Key(sha256.New, master, nil, "drover messages put aside", ledger.KeySize)
	if err != nil {
		return k, err
	}
	name, err := hkdf.Key(sha256.New, master, nil, "drover messages put aside, name", 6)
	if err != nil {
		return k, err
	}
	k.name = hex.EncodeToString(name) + ":"
	block, err := aes.NewCipher(key)
	if err != nil {
		return k, err
	}
	k.aside, err = cipher.NewGCMWithRandomNonce(block)
	return k, err
}

// Seal implements rabbitmq.Guard.
func (k messageKeys) Seal(text, to string) string {
	return k.name + base64.StdEncoding.EncodeToString(k.aside.Seal(nil, nil, []byte(text), []byte(to)))
}

// Open implements rabbitmq.Guard.
func (k messageKeys) Open(sealed, to string) (string, bool) {
	data, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(sealed, k.name))
	if err != nil {
		return "", false
	}
	text, err := k.aside.Open(nil, nil, data, []byte(to))
	return string(text), err == nil
}

// Mine implements rabbitmq.Guard.
func (k messageKeys) Mine(sealed string) bool { return strings.HasPrefix(sealed, k.name) }

// transit is a key in Vault that wraps the master key. What it wraps is the text of the
// file as it would be without.
type transit struct {
	*own
	ctx         context.Context
	mount, name string
}

// Wrap implements ledger.KeyGuard.
func (t transit) Wrap(text string) (string, error) {
	return t.ask("encrypt", "plaintext", base64.StdEncoding.EncodeToString([]byte(text+"\n")), "ciphertext")
}

// Unwrap implements ledger.KeyGuard.
func (t transit) Unwrap(text string) (string, error) {
	if !strings.HasPrefix(text, wrappedBy) {
		return "", fault.New(fault.Invalid, "it is not wrapped: have `vault write -field=ciphertext %s/encrypt/%s plaintext=\"$(base64 -w0 < FILE)\"` wrap it, and put what that says into its place", t.mount, t.name).Because("not-wrapped")
	}
	out, err := t.ask("decrypt", "ciphertext", text, "plaintext")
	if err != nil {
		return "", err
	}
	plain, err := base64.StdEncoding.DecodeString(out)
	if err != nil {
		return "", fault.New(fault.Invalid, "%s does not answer as transit does at %s", t.vault.Name(), t.mount)
	}
	return string(plain), nil
}

func (t transit) ask(verb, param, value, field string) (string, error) {
	answer, err := t.vault.Write(t.ctx, t.mount+"/"+verb+"/"+t.name, map[string]any{param: value})
	if err != nil {
		return "", err
	}
	if answer != nil {
		if text, ok := answer.Data[field].(string); ok {
			return text, nil
		}
	}
	return "", fault.New(fault.Invalid, "%s does not answer as transit does at %s", t.vault.Name(), t.mount)
}
