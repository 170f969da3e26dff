package env

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
)

// AuditLog is the path of the file that records each request, one JSON event a line, when Audit was asked for.
func (c *ControlPlane) AuditLog() string { return c.file("audit.log") }

// AuditEvents reads the requests recorded so far, oldest first. A request appears shortly after it was answered; a
// watch appears when it begins (stage ResponseStarted) and again when it ends.
func (c *ControlPlane) AuditEvents() ([]auditv1.Event, error) {
	file, err := os.Open(c.AuditLog())
	if err != nil {
		return nil, fmt.Errorf("read the audit log of %s: %w", c.Name, err)
	}
	defer func() { _ = file.Close() }()
	var events []auditv1.Event
	reader := bufio.NewReader(file)
	for {
		line, err := reader.ReadBytes('\n')
		if errors.Is(err, io.EOF) { // a line without its end is still being written
			return events, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read the audit log of %s: %w", c.Name, err)
		}
		var event auditv1.Event
		if err := json.Unmarshal(line, &event); err != nil {
			return nil, fmt.Errorf("read the audit log of %s: %w", c.Name, err)
		}
		events = append(events, event)
	}
}
