package git

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/transport"
	githttp "github.com/go-git/go-git/v5/plumbing/transport/http"

	way "github.com/droverhq/drover/internal/transport"
)

// web talks https. go-git keeps credentials from other hosts than the one that
// they are for.
type web struct{ transport.UploadPackSession }

func (f fetch) web(context.Context) (line, error) {
	left := f.limits.Bytes
	via := f.Transport
	if via == nil {
		via = https
	}
	client := githttp.NewClient(&http.Client{Transport: narrow{via, &left}})
	end, err := transport.NewEndpoint(f.at.Repository)
	if err != nil {
		return nil, err
	}
	var auth transport.AuthMethod
	if f.with.Username != "" || f.with.Password != "" {
		user := f.with.Username
		if user == "" {
			user = "git" // servers that take a token look at it alone
		}
		end.User = ""
		auth = &githttp.BasicAuth{Username: user, Password: f.with.Password}
	}
	session, err := client.NewUploadPackSession(end, auth)
	if err != nil {
		return nil, err
	}
	return web{session}, nil
}

// https is shared, so that connections are used again.
var https = func() http.RoundTripper {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.ResponseHeaderTimeout = 30 * time.Second
	t.MaxResponseHeaderBytes = 64 << 10
	return t
}()

// Refs implements line.
func (w web) Refs(ctx context.Context) (*packp.AdvRefs, error) {
	return w.AdvertisedReferencesContext(ctx)
}

// Pack implements line.
func (w web) Pack(ctx context.Context, req *packp.UploadPackRequest) (io.ReadCloser, error) {
	return w.UploadPack(ctx, req)
}

// narrow lets only so much through, and nothing that is not encrypted unless it
// stays on this machine: a server may send us on to anywhere.
type narrow struct {
	http.RoundTripper
	left *int64
}

var errPlain = errors.New("not encrypted")

func (n narrow) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL.Scheme != "https" && !way.Loopback(req.URL.Hostname()) {
		return nil, errPlain
	}
	res, err := n.RoundTripper.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	if res.StatusCode >= http.StatusMultipleChoices {
		// What an error says is read whole by the library, and shown to nobody.
		res.Body = body{io.LimitReader(res.Body, 4<<10), res.Body}
		return res, nil
	}
	res.Body = body{bounded{res.Body, n.left}, res.Body}
	return res, nil
}

type body struct {
	io.Reader
	io.Closer
}
