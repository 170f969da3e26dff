package connect

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math"
	"net/http"
	"strconv"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

const (
	// maxAnswer bounds what one answer, other than a watch, may cost in memory; maxDiscovery the same for
	// discovery, which the far side may send before convoy knows that it is a Kubernetes API server.
	maxAnswer    = 256 << 20
	maxDiscovery = 32 << 20
	// maxStatus bounds an answer with an error code.
	maxStatus = 1 << 20
	// maxWait is the longest wait, in seconds, that the client library may sit out by itself for a server that
	// asks for it. A longer one becomes an error, so that the caller can use the time.
	maxWait = 10
)

// asStatus makes every answer with an error code a Kubernetes Status. One that is none, a page of a load
// balancer for example, is replaced by a Status without its text, so that the text can come into no
// message and no log. A Status that convoy wrote for a server that is no API server has the cause
// UnexpectedServerResponse.
func asStatus(r *http.Request, resp *http.Response) (*http.Response, error) {
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxStatus))
	if err != nil {
		return nil, err
	}
	var got metav1.Status
	if json.Unmarshal(body, &got) != nil || got.Kind != "Status" || int(got.Code) != resp.StatusCode {
		// An API server marks each answer with an audit ID, also the plain ones of its proxy for other servers.
		foreign := resp.Header.Get("Audit-Id") == ""
		status := apierrors.NewGenericServerResponse(resp.StatusCode, strings.ToLower(r.Method), schema.GroupResource{},
			"", "", retryAfter(resp), foreign).ErrStatus
		status.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
		if body, err = json.Marshal(status); err != nil {
			return nil, err
		}
		resp.Header.Set("Content-Type", "application/json")
		resp.Header.Del("Content-Encoding")
	}
	if wait := retryAfter(resp); wait > maxWait {
		resp.Header.Del("Retry-After")
		if body, err = withWait(body, wait); err != nil {
			return nil, err
		}
	}
	resp.ContentLength = int64(len(body))
	resp.Body = io.NopCloser(bytes.NewReader(body))
	return resp, nil
}

// withWait puts into a Status how long its server asks to wait.
func withWait(body []byte, seconds int) ([]byte, error) {
	var status metav1.Status
	if err := json.Unmarshal(body, &status); err != nil {
		return nil, err
	}
	if status.Details == nil {
		status.Details = &metav1.StatusDetails{}
	}
	status.Details.RetryAfterSeconds = max(status.Details.RetryAfterSeconds, int32(min(seconds, math.MaxInt32))) //nolint:gosec // bounded on this line
	return json.Marshal(status)
}

func retryAfter(resp *http.Response) int {
	seconds, err := strconv.Atoi(resp.Header.Get("Retry-After"))
	if err != nil || seconds < 0 {
		return 0
	}
	return seconds
}

// answersOnly makes an error code an error at once, and without any text of the server. Discovery needs it:
// its client library logs errors, and sleeps and retries by itself where the server asks for that.
type answersOnly struct {
	next http.RoundTripper
}

// RoundTrip turns every answer from 300 on into an *apierrors.StatusError.
func (a answersOnly) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := a.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode < http.StatusMultipleChoices {
		resp.Body = &answer{ReadCloser: resp.Body, left: maxDiscovery, read: func(error) {}, end: func() {}}
		return resp, nil
	}
	defer resp.Body.Close()
	var status metav1.Status
	if err := json.NewDecoder(resp.Body).Decode(&status); err != nil {
		return nil, err
	}
	wait := retryAfter(resp)
	if status.Details != nil {
		wait = max(wait, int(status.Details.RetryAfterSeconds))
	}
	return nil, apierrors.NewGenericServerResponse(resp.StatusCode, "get", schema.GroupResource{}, "", "", wait, foreign(status))
}

// foreign reports whether a Status stands for an answer that is not of Kubernetes.
func foreign(s metav1.Status) bool {
	if s.Details == nil {
		return false
	}
	for _, cause := range s.Details.Causes {
		if cause.Type == metav1.CauseTypeUnexpectedServerResponse {
			return true
		}
	}
	return false
}

// answer is a body with a bound, none when left is negative. It tells how reading it ended, nil when it was read to
// its end, and once when it is done with.
type answer struct {
	io.ReadCloser
	left int64
	once sync.Once
	read func(error)
	end  func()
}

// Read reads until the bound, and then fails.
func (a *answer) Read(p []byte) (int, error) {
	n, err := a.ReadCloser.Read(p)
	if a.left >= 0 && int64(n) > a.left {
		return 0, errTooLarge
	}
	if a.left >= 0 {
		a.left -= int64(n)
	}
	switch {
	case errors.Is(err, io.EOF):
		a.read(nil)
	case err != nil:
		a.read(err)
	}
	return n, err
}

// Close closes the body and ends the request.
func (a *answer) Close() error {
	err := a.ReadCloser.Close()
	a.once.Do(a.end)
	return err
}
