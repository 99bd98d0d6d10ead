// Package authority is a certificate authority in a directory, for those who have
// none: it issues the certificates of servers, agents and clients, renews them
// before their end, and is replaced by another one while everybody goes on.
//
// It owns what is in the directory, and how a certificate says which cluster an
// agent speaks for. It must not know who uses the certificates, nor take any back:
// they live for so short that they end by themselves.
package authority

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"errors"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/droverhq/drover/internal/fault"
)

// Names of the files in the directory.
const (
	bundleFile = "ca.crt" // what everybody believes: the authority, then those before it
	keyFile    = "ca.key" // of the authority, with its certificate, and with what the one before it signed for it
	issuedDir  = "issued"
)

const (
	// Lifetime of an authority, where nobody says another.
	Lifetime = 10 * 365 * 24 * time.Hour
	// LeafLifetime of what it issues, likewise.
	LeafLifetime = 90 * 24 * time.Hour
	// skew is how far clocks may differ.
	skew = 5 * time.Minute
)

// Authority is one directory. Each command opens it anew.
type Authority struct {
	Dir string
	Now func() time.Time // default: time.Now

	bundle []*x509.Certificate // the one that signs first
	cross  *x509.Certificate   // nil: nobody signed for it
	key    crypto.Signer
}

func (a *Authority) now() time.Time {
	if a.Now == nil {
		return time.Now()
	}
	return a.Now()
}

// Init makes an authority in a directory that has none. Zero is the default
// lifetime.
func (a *Authority) Init(name string, lifetime time.Duration) error {
	if _, err := os.Stat(filepath.Join(a.Dir, keyFile)); !errors.Is(err, os.ErrNotExist) {
		return fault.New(fault.Conflict, "there is an authority in %s already: `drover ca show` shows it, `drover ca rotate` replaces it", a.Dir)
	}
	if name == "" {
		name = "Drover"
	}
	if err := os.MkdirAll(filepath.Join(a.Dir, issuedDir), 0o700); err != nil {
		return fault.New(fault.Invalid, "cannot make the directory of the authority: %w", err)
	}
	key, root, err := a.root(name, lifetime)
	if err != nil {
		return err
	}
	a.bundle, a.cross, a.key = []*x509.Certificate{root}, nil, key
	return a.save()
}

// root is a new key, and the certificate in which it signs for itself.
func (a *Authority) root(name string, lifetime time.Duration) (*ecdsa.PrivateKey, *x509.Certificate, error) {
	if lifetime <= 0 {
		lifetime = Lifetime
	}
	key, err := newKey()
	if err != nil {
		return nil, nil, err
	}
	template, err := a.template(lifetime)
	if err != nil {
		return nil, nil, err
	}
	// The serial number makes the name one of its own: two authorities of one name
	// would be taken for each other.
	template.Subject = pkix.Name{CommonName: name + " CA", SerialNumber: hex.EncodeToString(template.SerialNumber.Bytes()[:6])}
	template.IsCA, template.BasicConstraintsValid, template.MaxPathLen = true, true, 1
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageCRLSign
	root, err := sign(template, template, key.Public(), key)
	return key, root, err
}

// Open reads the authority.
func (a *Authority) Open() error {
	path := filepath.Join(a.Dir, keyFile)
	data, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return fault.New(fault.NotFound, "there is no authority in %s: `drover ca init` makes one", a.Dir)
	}
	if err != nil {
		return fault.New(fault.Invalid, "cannot read the key of the authority: %w", err)
	}
	own, err := readCertificates(path)
	if err != nil {
		return err
	}
	key, err := parseKey(data)
	if err != nil || !key.PublicKey.Equal(own[0].PublicKey) {
		return fault.New(fault.Invalid, "%s holds no key, or not that of its certificate: bring it back out of a backup", path)
	}
	a.key, a.cross = key, nil
	if len(own) > 1 {
		a.cross = own[1]
	}
	a.bundle, err = readCertificates(filepath.Join(a.Dir, bundleFile))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if len(a.bundle) > 0 && a.bundle[0].Equal(own[0]) {
		return nil
	}
	a.bundle = append(own[:1:1], a.bundle...) // whoever wrote the key did not live to write the bundle
	return a.save()
}

// save writes the key with all that belongs to it at once, then the bundle, which
// can be made of it.
func (a *Authority) save() error {
	data, err := encodeKey(a.key)
	if err != nil {
		return err
	}
	data = append(data, encode(a.bundle[0])...)
	if a.cross != nil {
		data = append(data, encode(a.cross)...)
	}
	if err := replace(filepath.Join(a.Dir, keyFile), data, 0o600); err != nil {
		return err
	}
	return replace(filepath.Join(a.Dir, bundleFile), encode(a.bundle...), 0o644)
}

// Rotate replaces the authority. What it issues from now on is believed by those
// who have the old bundle, because the old authority signs for the new one, and by
// those who have the new: so bundles and certificates may be replaced in any order.
func (a *Authority) Rotate(lifetime time.Duration) error {
	if err := a.rotate(lifetime); err != nil {
		return err
	}
	return a.save()
}

func (a *Authority) rotate(lifetime time.Duration) error {
	old, oldKey := a.bundle[0], a.key
	name := strings.TrimSuffix(old.Subject.CommonName, " CA")
	key, root, err := a.root(name, lifetime)
	if err != nil {
		return err
	}
	template, err := a.template(lifetime)
	if err != nil {
		return err
	}
	template.Subject, template.SubjectKeyId = root.Subject, root.SubjectKeyId
	template.NotAfter = old.NotAfter
	template.IsCA, template.BasicConstraintsValid, template.MaxPathLen, template.MaxPathLenZero = true, true, 0, true
	template.KeyUsage = root.KeyUsage
	if a.cross, err = sign(template, old, key.Public(), oldKey); err != nil {
		return err
	}
	a.bundle, a.key = append([]*x509.Certificate{root}, a.bundle...), key
	return nil
}

// Retire drops the authorities before the last rotation. It is refused while
// something in the directory was issued by one of them.
func (a *Authority) Retire() (dropped int, err error) {
	issued, err := a.Issued()
	if err != nil {
		return 0, err
	}
	for _, c := range issued {
		if !c.Current {
			return 0, fault.New(fault.Conflict, "%s is of an authority before this one: `drover ca renew` renews it; carry it to where it is used, then retire", c.Name)
		}
	}
	dropped = len(a.bundle) - 1
	a.bundle, a.cross = a.bundle[:1], nil
	return dropped, a.save()
}

// Bundle is what everybody believes, the authority that signs first.
func (a *Authority) Bundle() []*x509.Certificate { return a.bundle }

// BundlePath is the file of it.
func (a *Authority) BundlePath() string { return filepath.Join(a.Dir, bundleFile) }

// Fingerprint is how people compare certificates: the SHA-256 sum.
func Fingerprint(c *x509.Certificate) string {
	sum := sha256.Sum256(c.Raw)
	return hex.EncodeToString(sum[:])
}

func (a *Authority) template(lifetime time.Duration) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, fault.New(fault.Internal, "cannot make a serial number: %w", err)
	}
	serial.SetBit(serial, 126, 1) // always as long
	now := a.now()
	return &x509.Certificate{SerialNumber: serial, NotBefore: now.Add(-skew), NotAfter: now.Add(lifetime)}, nil
}

func newKey() (*ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fault.New(fault.Internal, "cannot make a key: %w", err)
	}
	return key, nil
}

func sign(template, parent *x509.Certificate, public crypto.PublicKey, by crypto.Signer) (*x509.Certificate, error) {
	der, err := x509.CreateCertificate(rand.Reader, template, parent, public, by)
	if err != nil {
		return nil, fault.New(fault.Internal, "cannot sign a certificate: %w", err)
	}
	c, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fault.New(fault.Internal, "cannot read back a certificate: %w", err)
	}
	return c, nil
}
