package bus

import "github.com/droverhq/drover/internal/fault"

// maxWord is the size of the short fields, and maxHeaders that of all headers
// together: what every broker that we know of takes.
const (
	maxWord    = 255
	maxHeaders = 64 << 10
)

// Check returns why a message can never be sent: Invalid. Every implementation
// asks it first, so that what one takes, all take.
func (m Message) Check() error {
	if len(m.Body) > MaxBody {
		return fault.New(fault.Invalid, "a message of %d bytes is too large: at most %d are sent; name what is large instead of sending it", len(m.Body), MaxBody).Because("message-size")
	}
	for _, word := range []struct{ name, value string }{
		{"id", m.ID}, {"topic", m.Topic}, {"type", m.Type}, {"content type", m.ContentType},
		{"address for answers", m.ReplyTo}, {"correlation", m.Correlation},
	} {
		if len(word.value) > maxWord {
			return fault.New(fault.Invalid, "the %s of a message has %d bytes: at most %d are sent", word.name, len(word.value), maxWord).Because("message-size")
		}
	}
	size := 0
	for name, value := range m.Headers {
		if size += len(name) + len(value); name == "" || len(name) > maxWord {
			return fault.New(fault.Invalid, "the name of a header has %d bytes: between 1 and %d are sent", len(name), maxWord).Because("message-size")
		}
	}
	if size > maxHeaders {
		return fault.New(fault.Invalid, "the headers of a message have %d bytes: at most %d are sent", size, maxHeaders).Because("message-size")
	}
	return nil
}
