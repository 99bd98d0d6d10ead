package authority

import (
	"crypto/x509"
	"time"

	"github.com/droverhq/drover/internal/fault"
)

// Held is an authority without a directory: whoever has it keeps what it is made of.
type Held struct{ a Authority }

// heldBundle is how many authorities everybody believes: the one that signs, and the one
// before it, whose certificates are still in use.
const heldBundle = 2

// NewHeld makes an authority. Zero is the default lifetime.
func NewHeld(name string, lifetime time.Duration) (*Held, error) {
	h := &Held{}
	key, root, err := h.a.root(name, lifetime)
	if err != nil {
		return nil, err
	}
	h.a.bundle, h.a.key = []*x509.Certificate{root}, key
	return h, nil
}

// OpenHeld reads what Signer returns, and what Bundle does; without the latter it can
// only sign.
func OpenHeld(signer, bundle string) (*Held, error) {
	own, err := parseCertificates("what signs", []byte(signer))
	if err != nil {
		return nil, err
	}
	key, err := parseKey([]byte(signer))
	if err != nil || !key.PublicKey.Equal(own[0].PublicKey) {
		return nil, fault.New(fault.Invalid, "what signs has no key, or not that of its certificate: it is the key of an authority")
	}
	h := &Held{a: Authority{key: key, bundle: own[:1:1]}}
	if len(own) > 1 {
		h.a.cross = own[1]
	}
	if bundle != "" {
		if h.a.bundle, err = parseCertificates("the authorities", []byte(bundle)); err != nil {
			return nil, err
		}
	}
	return h, nil
}

// Signer is what signs: the key, its certificate, and what the authority before it has
// signed for it. It is a secret.
func (h *Held) Signer() (string, error) {
	data, err := encodeKey(h.a.key)
	if err != nil {
		return "", err
	}
	data = append(data, encode(h.a.bundle[0])...)
	if h.a.cross != nil {
		data = append(data, encode(h.a.cross)...)
	}
	return string(data), nil
}

// Bundle is what everybody is to believe.
func (h *Held) Bundle() string { return string(encode(h.a.bundle...)) }

// Rotate replaces it as Authority.Rotate does; the one before the last is dropped.
func (h *Held) Rotate(lifetime time.Duration) error {
	if err := h.a.rotate(lifetime); err != nil {
		return err
	}
	h.a.bundle = h.a.bundle[:min(len(h.a.bundle), heldBundle)]
	return nil
}

// Issue makes a key and its certificate.
func (h *Held) Issue(r Request) (certificate, key string, err error) {
	chain, encoded, err := h.a.issue(r)
	return string(encode(chain...)), string(encoded), err
}

// Signed tells whether a certificate is of the authority that signs now.
func (h *Held) Signed(certificate string) bool {
	chain, err := parseCertificates("the certificate", []byte(certificate))
	return err == nil && chain[0].CheckSignatureFrom(h.a.bundle[0]) == nil
}

// Print is the fingerprint of a certificate in PEM form; empty: it is none.
func Print(certificate string) string {
	chain, err := parseCertificates("the certificate", []byte(certificate))
	if err != nil {
		return ""
	}
	return Fingerprint(chain[0])
}

// Life is when a certificate begins and ends.
func Life(certificate string) (from, to time.Time) {
	chain, err := parseCertificates("the certificate", []byte(certificate))
	if err != nil {
		return from, to // it has ended
	}
	return chain[0].NotBefore, chain[0].NotAfter
}
