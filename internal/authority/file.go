package authority

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"os"
	"path/filepath"

	"github.com/droverhq/drover/internal/fault"
)

const (
	pemCertificate = "CERTIFICATE"
	pemKey         = "PRIVATE KEY"
)

func encode(certificates ...*x509.Certificate) []byte {
	var b bytes.Buffer
	for _, c := range certificates {
		_ = pem.Encode(&b, &pem.Block{Type: pemCertificate, Bytes: c.Raw}) // a buffer takes everything
	}
	return b.Bytes()
}

func encodeKey(key crypto.Signer) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fault.New(fault.Internal, "cannot encode a key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: pemKey, Bytes: der}), nil
}

func parseKey(data []byte) (*ecdsa.PrivateKey, error) {
	block, _ := pem.Decode(data)
	if block == nil {
		return nil, errors.New("no PEM")
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, err
	}
	ours, ok := key.(*ecdsa.PrivateKey)
	if !ok {
		return nil, errors.New("another kind of key")
	}
	return ours, nil
}

// readCertificates reads at least one; a file that is not there is os.ErrNotExist.
func readCertificates(path string) (out []*x509.Certificate, err error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return parseCertificates(path, data)
}

// parseCertificates reads at least one, of what is called so.
func parseCertificates(path string, data []byte) (out []*x509.Certificate, err error) {
	for {
		var block *pem.Block
		if block, data = pem.Decode(data); block == nil {
			break
		}
		if block.Type != pemCertificate {
			continue
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fault.New(fault.Invalid, "%s holds something that is no certificate: %w", path, err)
		}
		out = append(out, c)
	}
	if len(out) == 0 {
		return nil, fault.New(fault.Invalid, "%s holds no certificate in PEM form", path)
	}
	return out, nil
}

// syncDir makes what was renamed survive a power cut, where directories can be synced.
func syncDir(dir string) {
	if d, err := os.Open(dir); err == nil {
		_ = d.Sync()
		_ = d.Close()
	}
}

// replace writes a file at once: whoever reads it sees the old or the new.
func replace(path string, data []byte, mode os.FileMode) error {
	err := func() error {
		f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*") // mode 0600
		if err != nil {
			return err
		}
		defer os.Remove(f.Name()) // gone already where all went well
		_, err = f.Write(data)
		if err = errors.Join(err, f.Chmod(mode), f.Sync(), f.Close()); err != nil {
			return err
		}
		if err := os.Rename(f.Name(), path); err != nil {
			return err
		}
		syncDir(filepath.Dir(path))
		return nil
	}()
	if err != nil {
		return fault.New(fault.Invalid, "cannot write %s: %w", path, err)
	}
	return nil
}
