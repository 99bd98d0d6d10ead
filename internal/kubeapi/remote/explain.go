package remote

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/gitops"
	"github.com/droverhq/drover/internal/resilience"
)

// explain makes a fault of what went wrong, in the words that users know. What the
// server says is not repeated: a stranger words it.
func (s *session) explain(err error) error {
	var already *fault.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &already), errors.Is(err, context.Canceled):
		return err
	}
	made := func(kind fault.Kind, message string) error { return fault.New(kind, "%s", message).Because(s.reason) }
	checking := s.reason == validate
	var unknown x509.UnknownAuthorityError
	var certificate *tls.CertificateVerificationError
	var network net.Error
	var sent *url.Error
	switch {
	case errors.As(err, &unknown):
		return made(fault.Invalid, gitops.TargetUnknownCA)
	case errors.As(err, &certificate):
		return made(fault.Invalid, gitops.TargetUnverified+" Its certificate is for another host, or has expired.")
	case apierrors.IsForbidden(err) && checking:
		return made(fault.Denied, gitops.TargetForbidden)
	case apierrors.IsForbidden(err):
		return made(fault.Denied, "The user of the kubeconfig may not make service accounts, roles and bindings with the rights that are asked for. "+
			"Use one of an administrator of the cluster, or set createNewServiceAccount to false.")
	case apierrors.IsUnauthorized(err):
		return made(fault.Denied, gitops.TargetUnverified)
	case apierrors.IsNotFound(err) && checking:
		return made(fault.Invalid, gitops.TargetUnverified+" The first of the namespaces is not there.")
	case apierrors.IsNotFound(err):
		return made(fault.Invalid, "A namespace that is asked for is not in the cluster, or the server is no Kubernetes.")
	case apierrors.IsInternalError(err), apierrors.IsServerTimeout(err), apierrors.IsTimeout(err), apierrors.IsTooManyRequests(err),
		apierrors.IsServiceUnavailable(err), apierrors.IsUnexpectedServerError(err) && serverSide(err):
		return made(fault.Unavailable, "The cluster cannot answer at the moment: it is overloaded, or a part of it is away.")
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err):
		return made(fault.Unavailable, "Somebody else changed the service account at the same time.")
	case errors.Is(err, resilience.ErrLinkLocal):
		return made(fault.Invalid, gitops.TargetUnverified+" Its address is a link-local one.")
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &network), errors.As(err, &sent):
		return made(fault.Unavailable, fmt.Sprintf("%s The cluster cannot be reached.", gitops.TargetUnverified))
	}
	return made(fault.Invalid, gitops.TargetUnverified+" What answers is no Kubernetes API, or refuses it.")
}

// serverSide reports whether a status is one of a server in trouble.
func serverSide(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && status.Status().Code >= 500
}
