package apply

import (
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/delivery"
)

// ObjectError says why one object is not as wished.
type ObjectError struct {
	Ref delivery.ObjectRef
	// Reason is a constant of api/v1alpha1: ApplyFailed, ApplyRetrying, Conflict or PruneFailed.
	Reason string
	// Message is short, stable and free of secrets; it does not repeat Ref.
	Message string
	// Terminal: waiting does not heal it.
	Terminal bool
}

// String is the object and the message.
func (e ObjectError) String() string { return e.Ref.String() + ": " + e.Message }

// fatal reports errors that say nothing about one object: the target does not answer, does not speak Kubernetes or
// does not know convoy any more, or the context ended.
func fatal(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return true
	}
	return apierrors.IsUnauthorized(err)
}

// transient is a refusal that waiting may heal.
func transient(ref delivery.ObjectRef, format string, args ...any) ObjectError {
	return ObjectError{Ref: ref, Reason: v1alpha1.ReasonApplyRetrying, Message: fmt.Sprintf(format, args...)}
}

func unknownKind(ref delivery.ObjectRef, gvk schema.GroupVersionKind, err error) ObjectError {
	if errors.Is(err, errGroupFailing) {
		return transient(ref, "the API group %s does not answer on the cluster", gvk.Group)
	}
	return ObjectError{
		Ref: ref, Reason: v1alpha1.ReasonApplyFailed, Terminal: true,
		Message: fmt.Sprintf("kind %s in version %s is not served by the cluster: install its definition", gvk.Kind, gvk.GroupVersion()),
	}
}

// refusal classifies what the server said about one object that was to be applied. err is not fatal.
func refusal(t Target, ref delivery.ObjectRef, err error, clean *scrubber) ObjectError {
	if message, ok := passing(ref, err); ok {
		return transient(ref, "%s", message)
	}
	out := ObjectError{Ref: ref, Reason: v1alpha1.ReasonApplyFailed, Terminal: true}
	switch {
	case isTooLarge(err):
		out.Message = "it is too large for the cluster: make it smaller"
	case isSecret(ref):
		out.Message = fmt.Sprintf("the cluster refused it (%s); what it said is not shown, as the object is a Secret", classOf(err))
	default:
		out.Message = clean.line(messageOf(err))
	}
	if apierrors.IsForbidden(err) {
		out.Message += t.as()
	}
	return out
}

// as says whom a refusal is about, where convoy acts as a service account.
func (t Target) as() string {
	if t.ServiceAccount == "" {
		return ""
	}
	return fmt.Sprintf("; convoy acts as service account %s there: give it that permission, or change spec.serviceAccountName", t.ServiceAccount)
}

// isRefused reports whether the server's answer means that it has stored nothing, and will not.
func isRefused(ref delivery.ObjectRef, err error) bool {
	if err == nil || fatal(err) {
		return false
	}
	_, mayPass := passing(ref, err)
	return !mayPass
}

func isSecret(ref delivery.ObjectRef) bool { return ref.Kind == "Secret" && ref.Group == "" }

var (
	webhookName = regexp.MustCompile(`failed calling webhook "([^"]{1,253})"`)
	// untyped refusals are sent as internal errors, but say that the object does not fit its schema.
	untyped = regexp.MustCompile(`failed to create typed (patch|live) object|illegal base64 data`)
)

// passing finds the refusals that may pass, and says each in words that do not change between attempts.
func passing(ref delivery.ObjectRef, err error) (string, bool) {
	text := messageOf(err)
	switch {
	case isRouteMissing(err):
		return "the cluster does not serve its kind right now", true
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return fmt.Sprintf("namespace %s is being deleted", ref.Namespace), true
	case isNamespaceMissing(ref, err):
		return fmt.Sprintf("namespace %s does not exist", ref.Namespace), true
	case apierrors.IsNotFound(err):
		return "something that it needs does not exist yet", true
	case apierrors.IsConflict(err):
		return "somebody else changed it at the same time", true
	case apierrors.IsTooManyRequests(err):
		return "the cluster is too busy", true
	case apierrors.IsForbidden(err) && strings.Contains(text, "status unknown for quota"):
		return "the quota of its namespace is not counted yet", true
	case apierrors.IsForbidden(err) && strings.Contains(text, "error looking up service account"):
		return "the service account of its namespace does not exist yet", true
	case isTooLarge(err), untyped.MatchString(text):
		return "", false
	}
	if found := webhookName.FindStringSubmatch(text); found != nil && codeOf(err) >= http.StatusInternalServerError {
		return fmt.Sprintf("the admission webhook %s could not be called", found[1]), true
	}
	if apierrors.IsTimeout(err) || apierrors.IsServerTimeout(err) {
		return "the cluster did not finish the request in time", true
	}
	if code := codeOf(err); code >= http.StatusInternalServerError {
		return fmt.Sprintf("the cluster failed inside (%d)", code), true
	}
	return "", false
}

func isNamespaceMissing(ref delivery.ObjectRef, err error) bool {
	d := detailsOf(err)
	return apierrors.IsNotFound(err) && ref.Namespace != "" && d != nil && d.Kind == "namespaces" && d.Name == ref.Namespace
}

func isTooLarge(err error) bool {
	text := messageOf(err)
	return apierrors.IsRequestEntityTooLargeError(err) ||
		strings.Contains(text, "etcdserver: request is too large") ||
		strings.Contains(text, "trying to send message larger than max")
}

// isOwnershipConflict tells that fields belong to another manager, not that a resourceVersion was old.
func isOwnershipConflict(err error) bool {
	return apierrors.IsConflict(err) && apierrors.HasStatusCause(err, metav1.CauseTypeFieldManagerConflict)
}

// classOf names the kind of a refusal without a word of its text.
func classOf(err error) string {
	if reason := apierrors.ReasonForError(err); reason != metav1.StatusReasonUnknown {
		return string(reason)
	}
	return fmt.Sprintf("HTTP %d", codeOf(err))
}

func codeOf(err error) int {
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		return int(status.Status().Code)
	}
	return 0
}

func messageOf(err error) string {
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		return status.Status().Message
	}
	return ""
}

// causesOf are the parts of a refusal, one for each field.
func causesOf(err error) []metav1.StatusCause {
	if d := detailsOf(err); d != nil {
		return d.Causes
	}
	return nil
}

func detailsOf(err error) *metav1.StatusDetails {
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		return status.Status().Details
	}
	return nil
}
