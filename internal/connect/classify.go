package connect

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"time"

	"golang.org/x/net/http2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/dial"
	"kumodo.io/convoy/internal/failure"
)

// class is a kind of failure to talk to a target.
type class int

const (
	unknown class = iota
	canceled
	hubFailed
	notBuilt
	badConfig
	badSecret
	refusedAddress
	refusedConnection
	noName
	noRoute
	noConnection
	timedOut
	closedEarly
	badProxy
	unknownAuthority
	otherName
	expiredServer
	refusedCertificate
	noTLS
	badTLS
	unauthorized
	expiredClient
	forbidden
	throttled
	serverError
	gatewayError
	redirected
	notKubernetes
	otherCluster
	tooLarge
	rejected
)

// classes is the table of what each class means: whether the target counts as unreachable, and what is said.
// A message with %d gets the HTTP status code. Failures of Secret and kubeconfig are told more exactly where they are found.
var classes = map[class]struct {
	unreachable bool
	message     string
}{
	unknown:            {false, "the request to the API server failed"},
	canceled:           {false, "the request was cancelled"},
	hubFailed:          {false, "the hub did not give what the Cluster names"},
	notBuilt:           {true, "the connection is not supported"},
	badConfig:          {true, "spec and Secret do not say how to connect"},
	badSecret:          {true, "the Secret or ConfigMap does not hold what the Cluster needs"},
	refusedAddress:     {true, "convoy does not connect to the address of the server"},
	refusedConnection:  {true, "connection refused: nothing listens at the address of the server"},
	noName:             {true, "the name of the server does not resolve"},
	noRoute:            {true, "there is no route to the server"},
	noConnection:       {true, "cannot connect to the server"},
	timedOut:           {true, "the API server did not answer in time"},
	closedEarly:        {true, "the connection was closed before the API server answered"},
	badProxy:           {true, "the proxy of the kubeconfig's proxy-url does not connect to the server"},
	unknownAuthority:   {true, "the server's certificate is signed by an unknown authority: give its CA"},
	otherName:          {true, "the server's certificate is for another name: correct the server, or set tls-server-name in a kubeconfig"},
	expiredServer:      {true, "the server's certificate has expired or is not valid yet"},
	refusedCertificate: {true, "the server refused the client certificate"},
	noTLS:              {true, "the server does not speak TLS"},
	badTLS:             {true, "the TLS handshake with the server failed"},
	unauthorized:       {true, "the API server does not accept the credentials (HTTP %d)"},
	expiredClient:      {true, "the client certificate has expired (HTTP %d)"},
	forbidden:          {false, "the credentials are not allowed to do this (HTTP %d)"},
	throttled:          {false, "the API server asks to wait (HTTP %d)"},
	serverError:        {false, "the API server failed (HTTP %d)"},
	gatewayError:       {true, "the server failed, and not with an answer of Kubernetes (HTTP %d)"},
	redirected:         {true, "the server redirects to another address, which convoy does not follow (HTTP %d)"},
	notKubernetes:      {true, "the server does not answer like a Kubernetes API server"},
	otherCluster:       {true, "another cluster answers than before"},
	tooLarge:           {false, "the answer of the server is too large"},
	rejected:           {false, "the API server rejected the request (HTTP %d)"},
}

// classified carries the class of a failure down its chain of causes.
type classified struct {
	class class
	cause error
}

// Error is the message of the class, without the text of the cause: that can name addresses.
func (c *classified) Error() string { return c.class.message(c.cause) }

func (c *classified) Unwrap() error { return c.cause }

// broken is a Secret or spec that does not say how to connect: somebody may still mend it.
func broken(format string, args ...any) error {
	return failure.Transient(v1alpha1.ReasonProbeFailed, &classified{class: badConfig}, format, args...)
}

// unsupported is a wish that convoy does not serve: only a change of spec or Secret heals it.
func unsupported(format string, args ...any) error {
	return failure.Terminal(v1alpha1.ReasonUnsupported, &classified{class: notBuilt}, format, args...)
}

// Errors of the transport that have no type of their own.
var (
	errProxyRefused = errors.New("the proxy did not open a connection")
	errTooLarge     = errors.New("answer is larger than the limit")
	errNotAPI       = errors.New("not an answer of a Kubernetes API server")
)

// Classify says what an error of any request through a Client means for the connection. It returns nil for
// nil. The message is stable and holds nothing that the far side sent but its status code; the reason is
// ProbeFailed, or Unsupported when the error is one of Pool.Client about that. RetryAfter is what
// the server asked for. A caller that reports about something else than the Cluster sets its own reason.
func Classify(err error) *failure.Error {
	if err == nil {
		return nil
	}
	if f, ok := failure.As(err); ok {
		if _, known := errors.AsType[*classified](f); known {
			return f
		}
	}
	return newFailure(classOf(err), err)
}

// Unreachable reports whether err, of a request through a Client or of Pool.Client, means that the target
// does not answer or does not know convoy. An answer that forbids, rejects or throttles a request comes
// from a reachable target, and a failure of the hub says nothing about the target.
func Unreachable(err error) bool {
	return err != nil && classes[classOf(err)].unreachable
}

// NoAnswer reports whether err is Unreachable because of the target itself, not of what spec and Secret say.
func NoAnswer(err error) bool {
	if !Unreachable(err) {
		return false
	}
	switch classOf(err) {
	case notBuilt, badConfig, badSecret:
		return false
	}
	return true
}

// message is what is said about an error of the class.
func (c class) message(err error) string {
	row := classes[c]
	if refusal, ok := errors.AsType[*dial.RefusedError](err); ok && c == refusedAddress {
		return refusal.Error()
	}
	var status apierrors.APIStatus
	if strings.Contains(row.message, "%d") && errors.As(err, &status) {
		return fmt.Sprintf(row.message, status.Status().Code)
	}
	return row.message
}

func newFailure(c class, err error) *failure.Error {
	f := failure.Transient(v1alpha1.ReasonProbeFailed, &classified{class: c, cause: err}, "%s", c.message(err))
	if seconds, ok := apierrors.SuggestsClientDelay(err); ok && seconds > 0 {
		f.RetryAfter = min(time.Duration(seconds)*time.Second, maxRetryAfter)
	}
	return f
}

// maxRetryAfter bounds what a target may ask for.
const maxRetryAfter = time.Hour

// classOf finds the class of an error. The order matters where one error is several things: a failing proxy
// is also a refused connection, a name lookup that times out is also a timeout.
func classOf(err error) class {
	var known *classified
	var status apierrors.APIStatus
	var syntax *json.SyntaxError
	var mismatch *json.UnmarshalTypeError
	switch {
	case errors.As(err, &known):
		return known.class
	case errors.As(err, &status):
		return statusClass(status.Status())
	case errors.Is(err, errTooLarge):
		return tooLarge
	case errors.Is(err, context.Canceled):
		return canceled
	case errors.Is(err, errNotAPI), errors.As(err, &syntax), errors.As(err, &mismatch):
		return notKubernetes
	}
	if c := tlsClass(err); c != unknown {
		return c
	}
	return netClass(err)
}

// statusClass is the class of an answer with an error code.
func statusClass(s metav1.Status) class {
	switch code := int(s.Code); {
	case code == http.StatusUnauthorized:
		return unauthorized
	case code == http.StatusForbidden:
		return forbidden
	case code == http.StatusTooManyRequests:
		return throttled
	case code >= 500 && foreign(s):
		return gatewayError
	case code >= 500:
		return serverError
	case code >= 300 && code < 400:
		return redirected
	case code >= 400:
		return rejected
	}
	return unknown
}

func tlsClass(err error) class {
	var (
		authority   x509.UnknownAuthorityError
		name        x509.HostnameError
		invalid     x509.CertificateInvalidError
		verify      *tls.CertificateVerificationError
		op          *net.OpError
		record      tls.RecordHeaderError
		systemRoots x509.SystemRootsError
	)
	switch {
	case errors.As(err, &authority), errors.As(err, &systemRoots):
		return unknownAuthority
	case errors.As(err, &name):
		return otherName
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return expiredServer
	case errors.As(err, &op) && op.Op == "remote error" && strings.Contains(op.Err.Error(), "certificate"):
		// The alert of the server (RFC 8446, section 6.2) has no exported type: "tls: bad certificate" and the like.
		return refusedCertificate
	case errors.Is(err, http.ErrSchemeMismatch), errors.As(err, &record):
		return noTLS
	case errors.As(err, &invalid), errors.As(err, &verify):
		return badTLS
	}
	return unknown
}

func netClass(err error) class {
	var (
		lookup  *net.DNSError
		op      *net.OpError
		timeout net.Error
	)
	var stream http2.StreamError // the server gave up on one request of many on a connection
	isOp := errors.As(err, &op)
	switch {
	case isRefusal(err):
		return refusedAddress
	case errors.Is(err, errProxyRefused), isOp && (op.Op == "proxyconnect" || op.Op == "socks connect"):
		return badProxy
	case errors.As(err, &lookup):
		return noName
	case utilnet.IsConnectionRefused(err):
		return refusedConnection
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return noRoute
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return timedOut
	case utilnet.IsConnectionReset(err), utilnet.IsProbableEOF(err), utilnet.IsHTTP2ConnectionLost(err),
		errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.EPIPE), errors.Is(err, net.ErrClosed), errors.As(err, &stream):
		return closedEarly
	case isOp && (op.Op == "remote error" || op.Op == "local error"):
		return badTLS
	case isOp:
		return noConnection
	}
	return unknown
}

// isRefusal reports whether the dialer refused the address: before the proxy's own failures, because the address of a
// proxy may be refused too.
func isRefusal(err error) bool {
	_, ok := errors.AsType[*dial.RefusedError](err)
	return ok
}
