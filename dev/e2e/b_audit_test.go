package e2e

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"

	"kumodo.io/convoy/dev/env"
)

// auditLine is what the tests need of a request that an API server recorded.
type auditLine struct {
	Verb       string `json:"verb"`
	RequestURI string `json:"requestURI"`
	UserAgent  string `json:"userAgent"`
	User       struct {
		Username string `json:"username"`
	} `json:"user"`
	ObjectRef struct {
		APIGroup    string `json:"apiGroup"`
		Resource    string `json:"resource"`
		Namespace   string `json:"namespace"`
		Name        string `json:"name"`
		Subresource string `json:"subresource"`
	} `json:"objectRef"`
	ResponseStatus struct {
		Code int `json:"code"`
	} `json:"responseStatus"`
}

// String is the request for a message.
func (l auditLine) String() string { return l.Verb + " " + l.RequestURI }

func (l auditLine) writes() bool {
	return l.ObjectRef.Resource != "" && !slices.Contains([]string{"get", "list", "watch"}, l.Verb)
}

// auditLog reads each line of an audit log once, however many tests ask.
type auditLog struct {
	path string

	mu     sync.Mutex
	offset int64
	lines  []auditLine
}

var (
	auditLogsMu sync.Mutex
	auditLogs   = map[string]*auditLog{}
)

func auditLogOf(c *env.ControlPlane) *auditLog {
	auditLogsMu.Lock()
	defer auditLogsMu.Unlock()
	if auditLogs[c.AuditLog()] == nil {
		auditLogs[c.AuditLog()] = &auditLog{path: c.AuditLog()}
	}
	return auditLogs[c.AuditLog()]
}

// read returns the requests so far, oldest first. The caller must not change them.
func (a *auditLog) read() ([]auditLine, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	file, err := os.Open(a.path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	if _, err := file.Seek(a.offset, io.SeekStart); err != nil {
		return nil, err
	}
	reader := bufio.NewReader(file)
	for {
		content, err := reader.ReadBytes('\n')
		if errors.Is(err, io.EOF) { // a line without its end is still being written
			return a.lines, nil
		}
		if err != nil {
			return nil, err
		}
		var line auditLine
		if err := json.Unmarshal(content, &line); err != nil {
			return nil, fmt.Errorf("read %s: %w", a.path, err)
		}
		a.offset += int64(len(content))
		a.lines = append(a.lines, line)
	}
}
