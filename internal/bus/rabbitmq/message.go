package rabbitmq

import (
	"fmt"
	"maps"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/droverhq/drover/internal/bus"
	"github.com/droverhq/drover/internal/fault"
)

// maxTable is the size of headers that surely fit into one frame, as they must.
const maxTable = 96 << 10

// pack turns a message into one of AMQP, or says why it never can be: Invalid.
func pack(m bus.Message) (amqp.Publishing, error) {
	if err := m.Check(); err != nil {
		return amqp.Publishing{}, err
	}
	p := amqp.Publishing{
		DeliveryMode: amqp.Persistent, MessageId: m.ID, Type: m.Type, ContentType: m.ContentType,
		ReplyTo: m.ReplyTo, CorrelationId: m.Correlation, Body: m.Body,
	}
	if !m.Time.IsZero() {
		p.Timestamp = m.Time.UTC()
	}
	if len(m.Headers) > 0 {
		p.Headers = amqp.Table{}
	}
	for name, value := range m.Headers {
		if reserved(name) {
			return p, fault.New(fault.Invalid, "the header %q means something to the broker: choose another name", name).Because("message-header")
		}
		p.Headers[name] = value
	}
	return p, nil
}

// reserved headers are the broker's, or ours beside them: they are neither sent
// for others nor shown to them. CC and BCC would send copies elsewhere.
func reserved(name string) bool {
	switch name {
	case "CC", "BCC", "x-death", "x-delivery-count", "x-acquired-count":
		return true
	}
	for _, prefix := range []string{"x-first-death-", "x-last-death-", marks, laterMarks} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

// unpack turns what came into a message. Whatever is in it is taken as it is: who reads
// it decides. An address of our own is called as the port calls it, so that it is known.
func unpack(d amqp.Delivery, prefix, topic string) bus.Message {
	m := bus.Message{
		ID: d.MessageId, Topic: topic, Type: d.Type, ContentType: d.ContentType,
		ReplyTo: name(prefix, d.ReplyTo), Correlation: d.CorrelationId, Body: d.Body,
	}
	if !d.Timestamp.IsZero() {
		m.Time = d.Timestamp.UTC()
	}
	for header, value := range d.Headers {
		text, ok := word(value)
		if !ok || reserved(header) {
			continue
		}
		if m.Headers == nil {
			m.Headers = map[string]string{}
		}
		m.Headers[header] = text
	}
	return m
}

// word is a header's value, unless it has several.
func word(value any) (string, bool) {
	switch v := value.(type) {
	case string:
		return v, true
	case []byte:
		return string(v), true
	case time.Time:
		return v.UTC().Format(time.RFC3339), true
	case bool, int8, uint8, int16, uint16, int32, uint32, int64, uint64, int, float32, float64:
		return fmt.Sprint(v), true
	}
	return "", false
}

// topic is what a delivery was sent to, in the words of the port.
func (b *Bus) topic(exchange, key string) string {
	if exchange == "" {
		return name(b.settings.prefix, key)
	}
	return key
}

// copied is what came, to be sent on, without what the broker would take for an
// order.
func copied(d amqp.Delivery) amqp.Publishing {
	headers := maps.Clone(d.Headers)
	maps.DeleteFunc(headers, func(name string, _ any) bool { return reserved(name) })
	return amqp.Publishing{
		DeliveryMode: amqp.Persistent, Headers: headers, ContentType: d.ContentType, ContentEncoding: d.ContentEncoding,
		Priority: d.Priority, CorrelationId: d.CorrelationId, ReplyTo: d.ReplyTo, MessageId: d.MessageId,
		Timestamp: d.Timestamp, Type: d.Type, AppId: d.AppId, Body: d.Body,
	}
}

// weigh is about how large headers are on the wire.
func weigh(value any) int {
	n := 8
	switch v := value.(type) {
	case string:
		n += len(v)
	case []byte:
		n += len(v)
	case []any:
		for _, x := range v {
			n += weigh(x)
		}
	case amqp.Table:
		for name, x := range v {
			n += len(name) + weigh(x)
		}
	}
	return n
}
