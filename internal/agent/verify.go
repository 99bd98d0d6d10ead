package agent

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/go-jose/go-jose/v4"

	v1 "github.com/droverhq/drover/api/v1"
)

// keySet is what the control plane signs with. It comes over the authenticated
// connection, the first as every later one, and from nowhere else.
type keySet struct {
	text   string // as it came
	digest string
	set    jose.JSONWebKeySet
}

func parseKeys(text string) (*keySet, error) {
	k := &keySet{text: text, digest: v1.BodyDigest([]byte(text))}
	if err := json.Unmarshal([]byte(text), &k.set); err != nil {
		return nil, errors.New("its keys are not a JSON Web Key Set")
	}
	for _, key := range k.set.Keys {
		if !key.Valid() || !key.IsPublic() {
			return nil, errors.New("its key set holds something else than public keys")
		}
	}
	if len(k.set.Keys) == 0 {
		return nil, errors.New("its key set is empty")
	}
	return k, nil
}

var errProof = errors.New("its signature is not the control plane's")

// verify checks who wants the item, and for whom. A control plane that has told
// no keys signs nothing: the connection alone vouches for it then, and nothing
// that it said is good without one.
func (k *keySet) verify(it v1.Item, ledger string, epoch int64, cluster string) error {
	if k == nil {
		return nil
	}
	if it.Proof == "" {
		return errors.New("it is not signed")
	}
	sent := []string{""}
	if len(it.Body) > 0 {
		sent = []string{v1.BodyDigest(it.Body)}
	}
	if it.Delete { // of a removal the body does not matter
		sent = append(sent, it.Digest, "")
	}
	var err error
	for _, digest := range sent {
		if err = k.check(it.Proof, it.SignedBytes(ledger, epoch, cluster, digest)); err == nil {
			return nil
		}
	}
	return err
}

func (k *keySet) check(proof string, content []byte) error {
	signed, err := jose.ParseDetached(proof, content, []jose.SignatureAlgorithm{jose.ES256})
	if err != nil || len(signed.Signatures) != 1 {
		return fmt.Errorf("%w: it cannot be read", errProof)
	}
	keys := k.set.Keys
	if id := signed.Signatures[0].Protected.KeyID; id != "" {
		keys = k.set.Key(id)
	}
	for _, key := range keys {
		if signed.DetachedVerify(content, key) == nil {
			return nil
		}
	}
	return errProof
}
