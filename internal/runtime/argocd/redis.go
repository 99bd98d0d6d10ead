package argocd

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
)

const (
	redisTimeout = 2 * time.Second
	maxReply     = 16 << 20 // bytes of a value
)

// redis reads from the cache that the parts of Argo CD share. It asks for values
// and writes none. It is used by one goroutine.
type redis struct {
	address  string
	password func(context.Context) (string, error)
	secure   *tls.Config // nil: in the clear

	conn net.Conn
	in   *bufio.Reader
}

// get returns the value of a key; false: there is none. After an error it connects
// anew.
func (c *redis) get(ctx context.Context, key string) (value []byte, there bool, err error) {
	ctx, stop := context.WithTimeout(ctx, redisTimeout)
	defer stop()
	if c.conn == nil {
		if err := c.connect(ctx); err != nil {
			c.close()
			return nil, false, err
		}
	}
	if value, there, err = c.ask(ctx, "GET", key); err != nil {
		c.close()
	}
	return value, there, err
}

func (c *redis) close() {
	if c.conn != nil {
		_ = c.conn.Close()
	}
	c.conn = nil
}

func (c *redis) connect(ctx context.Context) (err error) {
	if c.conn, err = new(net.Dialer).DialContext(ctx, "tcp", c.address); err != nil {
		c.conn = nil
		return err
	}
	if c.secure != nil {
		c.conn = tls.Client(c.conn, c.secure)
	}
	c.in = bufio.NewReader(c.conn)
	password, err := c.password(ctx)
	if err != nil || password == "" {
		return err
	}
	_, _, err = c.ask(ctx, "AUTH", password)
	return err
}

// ask sends one command and reads one reply. Nothing of what was sent is in an error.
func (c *redis) ask(ctx context.Context, words ...string) ([]byte, bool, error) {
	if end, ok := ctx.Deadline(); ok {
		_ = c.conn.SetDeadline(end)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(words))
	for _, w := range words {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(w), w)
	}
	if _, err := io.WriteString(c.conn, b.String()); err != nil {
		return nil, false, err
	}
	return reply(c.in)
}

// reply reads an answer of Redis: a text, an error, or a value of a known length.
func reply(in *bufio.Reader) (value []byte, there bool, err error) {
	line, err := in.ReadSlice('\n') // no longer than the buffer
	if err != nil {
		return nil, false, err
	}
	text := strings.TrimRight(string(line), "\r\n")
	if text == "" {
		return nil, false, errors.New("an empty reply")
	}
	switch rest := text[1:]; text[0] {
	case '+':
		return []byte(rest), true, nil
	case '-':
		word, _, _ := strings.Cut(rest, " ") // NOAUTH, WRONGPASS...
		return nil, false, fmt.Errorf("it refuses: %s", short(word, 40))
	case '$':
		n, err := strconv.Atoi(rest)
		switch {
		case err != nil || n < -1:
			return nil, false, errors.New("a reply that is none")
		case n == -1:
			return nil, false, nil
		case n > maxReply:
			return nil, false, fmt.Errorf("a value of %d bytes is too large", n)
		}
		value := make([]byte, n+2)
		if _, err := io.ReadFull(in, value); err != nil {
			return nil, false, err
		}
		return value[:n], true, nil
	}
	return nil, false, errors.New("a reply that is none")
}
