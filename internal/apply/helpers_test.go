package apply

import (
	"errors"
	"io"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// onPath calls do before a request of a method to a path that ends so, and passes it on.
func onPath(method, suffix string, do func()) func(*http.Request) (*http.Response, error) {
	return func(r *http.Request) (*http.Response, error) {
		if r.Method == method && strings.HasSuffix(r.URL.Path, suffix) {
			do()
		}
		return nil, nil
	}
}

// errCut is a connection that broke.
var errCut = errors.New("connection reset by peer")

// breaking breaks the connection for every request of a method to a path that contains part.
func breaking(method, part string) func(*http.Request) (*http.Response, error) {
	return func(r *http.Request) (*http.Response, error) {
		if r.Method == method && strings.Contains(r.URL.Path, part) {
			return nil, errCut
		}
		return nil, nil
	}
}

// reply answers with a code and a body of JSON.
func reply(r *http.Request, code int, body string) *http.Response {
	return &http.Response{
		StatusCode: code, Status: http.StatusText(code), Request: r, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": []string{"application/json"}}, Body: io.NopCloser(strings.NewReader(body)),
	}
}

// conflictOf is the answer of a server that refuses to take fields from others.
func conflictOf(causes ...metav1.StatusCause) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusConflict, Reason: metav1.StatusReasonConflict, Details: &metav1.StatusDetails{Causes: causes},
	}}
}
