package source

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/transport"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/failure"
)

// What can be wrong with a repository. explain gives these their messages.
var (
	errNoRef            = errors.New("no such reference")
	errNotCommit        = errors.New("the reference names no commit")
	errNotServed        = errors.New("the commit is not served")
	errRepositoryTooBig = errors.New("the repository is too big")

	errNoPath     = errors.New("does not exist")
	errNotFolder  = errors.New("is a file, not a folder")
	errLeavesTree = errors.New("is a symbolic link that leaves the repository")
	errLinkLoop   = errors.New("is a symbolic link that leads back to itself")
	errDangling   = errors.New("is a symbolic link to something that does not exist")
	errSubmodule  = errors.New("is a submodule, which is only taken with spec.source.git.submodules")
	errBadName    = errors.New("is not a file or folder that git would write")

	errNoModuleURL = errors.New("is a submodule of which " + submodulesFile + " gives no URL")
	errModuleURL   = errors.New("is a submodule of which " + submodulesFile + " gives a URL that is not supported; use https, or one that is relative")
	errModuleHost  = errors.New("is a submodule that needs ssh, for whose host there are no credentials; only those of the source's own host and user are used")
)

// pathError says what is wrong with a path of the repository.
type pathError struct {
	path string
	err  error
}

func (e pathError) Error() string { return fmt.Sprintf("%q %v", e.path, e.err) }
func (e pathError) Unwrap() error { return e.err }

func linkError(err error) error {
	if errors.Is(err, errNoPath) {
		return errDangling
	}
	return err
}

func tooBig(l Limits) error {
	return failure.Transient(v1alpha1.ReasonSourceFailed, nil, "the source holds more than %d bytes; choose a smaller path or raise --source-max-bytes", l.MaxBytes)
}

func tooMany(l Limits) error {
	return failure.Transient(v1alpha1.ReasonSourceFailed, nil, "the source holds more than %d files and folders; choose a smaller path or raise --source-max-files", l.MaxFiles)
}

func tooDeep(l Limits) error {
	return failure.Transient(v1alpha1.ReasonSourceFailed, nil, "the source has folders more than %d deep; choose a smaller path or raise --source-max-depth", l.MaxDepth)
}

// saidAlready reports whether there is nothing to explain: no error, a failure, or a caller that gave up.
func saidAlready(ctx context.Context, err error) (bool, error) {
	if _, known := failure.As(err); err == nil || known {
		return true, err
	}
	return ctx.Err() != nil, ctx.Err()
}

// explain makes a failure of an error of a fetch. It is nil for nil, and the error of ctx when the caller gave up.
func (s *Sources) explain(ctx context.Context, repo repository, err error) error {
	if said, err := saidAlready(ctx, err); said {
		return err
	}
	err = unwrapped(err)
	if sub, ok := errors.AsType[submoduleError](err); ok {
		return s.explainSubmodule(ctx, sub)
	}
	at := repo.address.String()
	var p pathError
	switch {
	case errors.Is(err, transport.ErrRepositoryNotFound) && repo.cred.isLogin():
		return notFound(err, "repository %s does not exist, or the credentials of Secret %s may not read it", at, repo.cred.secret)
	case errors.Is(err, transport.ErrRepositoryNotFound):
		return notFound(err, "repository %s does not exist", at)
	case errors.Is(err, errNoRef), errors.Is(err, transport.ErrEmptyRemoteRepository):
		return notFound(err, "repository %s has no %s; what was delivered stays", at, repo.ref.missing())
	case errors.Is(err, errNotServed) && repo.ref.Commit != "":
		return notFound(err, "repository %s has no %s, or its server does not give it; what was delivered stays", at, repo.ref)
	case errors.Is(err, errNotServed):
		return notFound(err, "repository %s moved on: the commit is no longer served", at)
	case errors.As(err, &p) && p.path == repo.path && (errors.Is(err, errNoPath) || errors.Is(err, errNotFolder) || errors.Is(err, errSubmodule)):
		return notFound(err, "repository %s, %s: the path %s %v", at, repo.ref, p.path, p.err)
	case errors.As(err, &p):
		return failed(err, "repository %s, %s: %v", at, repo.ref, p)
	case errors.Is(err, errNotCommit):
		return failed(err, "repository %s, %s: that is no commit", at, repo.ref)
	case errors.Is(err, errRepositoryTooBig):
		return failed(err, "repository %s holds more than %d bytes in one commit; raise --source-max-repository-bytes", at, s.limits.MaxRepositoryBytes)
	}
	for _, limit := range []error{errManySubmodules, errDeepSubmodules, errDeepTree, errNoModules} {
		if errors.Is(err, limit) {
			return failed(err, "repository %s %v", at, limit)
		}
	}
	return failed(err, "repository %s %s", at, s.classOf(err, repo.cred))
}

// classOf names what went wrong between here and a git server, without a word of the server's own.
func (s *Sources) classOf(err error, cred credential) string {
	switch {
	case errors.Is(err, transport.ErrAuthenticationRequired) && cred.isLogin():
		return "refuses the credentials of Secret " + cred.secret
	case errors.Is(err, transport.ErrAuthorizationFailed) && cred.isLogin():
		return "may not be read with the credentials of Secret " + cred.secret
	case errors.Is(err, transport.ErrAuthenticationRequired), errors.Is(err, transport.ErrAuthorizationFailed):
		return "does not exist, or asks for credentials; name their Secret in spec.source.git.secretRef"
	}
	if text, ok := s.networkClass(err, cred); ok {
		return text
	}
	if code, answered := statusOf(err); answered {
		return fmt.Sprintf("answers with HTTP status %d", code)
	}
	if text, ok := sshClass(err, cred); ok {
		return text
	}
	if _, network := errors.AsType[net.Error](err); network {
		return "cannot be reached"
	}
	return "does not answer like a git server"
}

// sshClass names what went wrong between here and an ssh server.
func sshClass(err error, cred credential) (string, bool) {
	for _, known := range []struct {
		err  error
		text string
	}{
		{errIdentity, "cannot be fetched: Secret %s holds no private key in key " + keyIdentity},
		{errPassphrase, "cannot be fetched: Secret %s has not the passphrase of " + keyIdentity + " in key " + keyPassword},
		{errRounds, "cannot be fetched: Secret %s holds in key " + keyIdentity + " a private key whose passphrase costs too many rounds"},
		{errKnownHosts, "cannot be fetched: Secret %s holds in key " + keyKnownHosts + " what OpenSSH would not write"},
		{errHostUnknown, "is on a host that key " + keyKnownHosts + " of Secret %s does not name"},
		{errHostChanged, "is on a host that shows another key than " + keyKnownHosts + " of Secret %s has"},
		{errKeyRefused, "is on a host that refuses the identity of Secret %s"},
		{errDenied, "is not given to the identity of Secret %s"},
	} {
		if errors.Is(err, known.err) {
			return fmt.Sprintf(known.text, cred.secret), true
		}
	}
	return "", false
}

// unwrapped takes off the wrappers of go-git that hide what they wrap from errors.Is.
func unwrapped(err error) error {
	var unexpected *plumbing.UnexpectedError
	var permanent *plumbing.PermanentError
	switch {
	case errors.As(err, &unexpected):
		return errors.Join(err, unwrapped(unexpected.Err))
	case errors.As(err, &permanent):
		return errors.Join(err, unwrapped(permanent.Err))
	}
	return err
}

// invalidSource is for what can never work.
func invalidSource(format string, args ...any) error {
	return failure.Terminal(v1alpha1.ReasonSourceFailed, nil, format, args...)
}

func notFound(cause error, format string, args ...any) error {
	return failure.Transient(v1alpha1.ReasonSourceNotFound, cause, format, args...)
}

func failed(cause error, format string, args ...any) error {
	return failure.Transient(v1alpha1.ReasonSourceFailed, cause, format, args...)
}
