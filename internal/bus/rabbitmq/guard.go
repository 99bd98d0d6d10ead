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

// unseal gives a message its token back. What is sealed for another message is no token.
func (b *Bus) unseal(m bus.Message, replyTo string) bus.Message {
	sealed, ok := m.Headers[sealedHeader]
	if !ok {
		return m
	}
	delete(m.Headers, sealedHeader)
	if b.outside.Guard == nil {
		return m
	}
	if text, ok := b.outside.Guard.Open(sealed, belongs(replyTo, m.Body)); ok {
		m.Headers[secretHeader] = text
	}
	return m
}

func belongs(replyTo string, body []byte) string {
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:]) + replyTo
}
