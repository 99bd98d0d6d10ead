package rabbitmq

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/droverhq/drover/internal/bus"
)

// Guard seals texts, each together with what it belongs to: beside anything else it does
// not open.
type Guard interface {
	Seal(text, to string) string
	Open(sealed, to string) (text string, ok bool)
	// Mine tells whether the key that has sealed it is the one that there is.
	Mine(sealed string) bool
}

const (
	secretHeader = "authorization"                   // however it is written
	sealedHeader = "x-drover-sealed-" + secretHeader // what is in its place
)

// seal takes the token out of a message, so that it can be carried out once more, as it
// is, and nothing else can be with it.
func (b *Bus) seal(p amqp.Publishing) amqp.Publishing {
	if b.outside.Guard == nil {
		return p
	}
	for name, value := range p.Headers {
		if !strings.EqualFold(name, secretHeader) {
			continue
		}
		delete(p.Headers, name)
		if text, ok := word(value); ok {
			p.Headers[sealedHeader] = b.outside.Guard.Seal(text, belongs(p.ReplyTo, p.Body))
		}
	}
	return p
}

// unseal gives a message its token back. What is sealed for another message is no token;
// lost tells that it was sealed with another key than there is now.
func (b *Bus) unseal(m bus.Message, replyTo string) (out bus.Message, lost bool) {
	sealed, ok := m.Headers[sealedHeader]
	if !ok {
		return m, false
	}
	delete(m.Headers, sealedHeader)
	given := false // by whoever sends it once more
	for name := range m.Headers {
		given = given || strings.EqualFold(name, secretHeader)
	}
	if given || b.outside.Guard == nil {
		return m, false
	}
	text, ok := b.outside.Guard.Open(sealed, belongs(replyTo, m.Body))
	if ok {
		m.Headers[secretHeader] = text
	}
	return m, !ok && !b.outside.Guard.Mine(sealed)
}

func belongs(replyTo string, body []byte) string {
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:]) + replyTo
}
