package git

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/pktline"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/transport"
	githttp "github.com/go-git/go-git/v5/plumbing/transport/http"
	"golang.org/x/crypto/ssh/knownhosts"

	"github.com/droverhq/drover/internal/fault"
)

// explain makes a fault of what went wrong. What a server or a library says is
// not repeated: it may quote the credential, and a stranger words it.
func (f fetch) explain(ctx context.Context, err error) error {
	var already *fault.Error
	var broken *malformedError
	var key *knownhosts.KeyError
	var revoked *knownhosts.RevokedError
	var status *githttp.Err
	var said *pktline.ErrorLine
	var odd *packp.ErrUnexpectedData
	var network net.Error
	var wrapped *plumbing.UnexpectedError
	if errors.As(err, &wrapped) { // which keeps its cause to itself
		err = errors.Join(err, wrapped.Err)
	}
	repo := f.at.Repository
	switch {
	case err == nil:
		return nil
	case errors.As(err, &already):
		return err
	case errors.Is(err, errTooMuch):
		return tooLarge("more than %d MiB were sent", f.limits.Bytes>>20)
	case ctx.Err() != nil:
		return fault.New(fault.Unavailable, "%s did not answer within %s", repo, f.limits.Timeout)
	case errors.Is(err, errPlain):
		return fault.New(fault.Invalid, "%s sends us on to an address without encryption: use the one that it has now", repo).Because("source")
	case strings.Contains(err.Error(), "not our ref"):
		return fault.New(fault.NotFound, "the repository %s has no commit %.40s", repo, f.at.Revision).Because("revision")
	case errors.Is(err, transport.ErrAuthenticationRequired):
		if f.with.Password == "" {
			return fault.New(fault.Denied, "%s asks for a credential: give a user and a token (it may also be that there is no such repository)", repo).Because("credential")
		}
		return fault.New(fault.Denied, "%s does not take the credential: it may have expired, or not be for this repository", repo).Because("credential")
	case errors.Is(err, transport.ErrAuthorizationFailed):
		return fault.New(fault.Denied, "the credential may not read %s", repo).Because("credential")
	case errors.Is(err, transport.ErrRepositoryNotFound):
		return fault.New(fault.NotFound, "there is no repository %s, or the credential may not see it", repo)
	case errors.Is(err, transport.ErrEmptyRemoteRepository), errors.Is(err, packp.ErrEmptyAdvRefs):
		return fault.New(fault.NotFound, "the repository %s is empty", repo).Because("empty")
	case errors.As(err, &key):
		if len(key.Want) > 0 {
			return fault.New(fault.Denied, "the host of %s shows another key than the known_hosts lines have: ask its operators, and do not go on before you know why", repo).Because("known-hosts")
		}
		return fault.New(fault.Denied, "the known_hosts lines of the credential do not have the host of %s", repo).Because("known-hosts")
	case errors.As(err, &revoked):
		return fault.New(fault.Denied, "the key of the host of %s is marked as revoked", repo).Because("known-hosts")
	case strings.Contains(err.Error(), "unable to authenticate"):
		return fault.New(fault.Denied, "%s does not take the credential: add the public key to it", repo).Because("credential")
	case errors.As(err, &status):
		if status.StatusCode() >= 500 || status.StatusCode() == 429 {
			return fault.New(fault.Unavailable, "the server of %s answers %d: try again later", repo, status.StatusCode())
		}
		return fault.New(fault.Invalid, "%s is no Git repository: the server answers %d", repo, status.StatusCode()).Because("source")
	case errors.Is(err, packp.ErrEmptyInput) && f.address.Scheme != "https" && f.address.Scheme != "http":
		return fault.New(fault.NotFound, "there is no repository %s, or the credential may not see it", repo)
	case errors.As(err, &said), errors.As(err, &odd), errors.Is(err, pktline.ErrInvalidPktLen):
		return fault.New(fault.Invalid, "%s is no Git repository, or its server refuses to send it", repo).Because("source")
	case strings.Contains(err.Error(), "http redirect"):
		return fault.New(fault.Invalid, "%s sends us on in a way that is not followed: use the address that it has now", repo).Because("source")
	case errors.As(err, &network):
		return fault.New(fault.Unavailable, "the server of %s cannot be reached: %s", repo, plainly(network))
	case errors.As(err, &broken), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return fault.New(fault.Invalid, "what the server of %s sends cannot be read as a repository", repo).Because("malformed")
	}
	return fault.New(fault.Unavailable, "%s cannot be read: the conversation with its server broke off", repo)
}

// plainly is why a connection failed, without addresses or what was sent.
func plainly(err net.Error) string {
	var dns *net.DNSError
	var op *net.OpError
	switch {
	case err.Timeout():
		return "it does not answer"
	case errors.As(err, &dns):
		return "there is no such host"
	case errors.As(err, &op) && op.Op == "dial":
		return "nobody listens there, or it is not reachable from here"
	}
	return "the connection broke off, or its certificate is not trusted"
}
