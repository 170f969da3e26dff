package e2e

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// readMetrics reads all metrics of the shared convoy as Prometheus would.
func readMetrics(ctx context.Context) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+metricsAt+"/metrics", nil)
	if err != nil {
		return "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("the metrics of convoy: %s", response.Status)
	}
	return string(content), err
}

// keepMetrics writes the metrics beside the log, where the search for leaks finds them.
func keepMetrics() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	content, err := readMetrics(ctx)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(filepath.Dir(shared.log), "metrics.log"), []byte(content), 0o600)
}

func sharedMetrics(t *testing.T) string {
	t.Helper()
	content, err := readMetrics(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// readMetric is the value of a metric without labels.
func readMetric(ctx context.Context, name string) (float64, error) {
	content, err := readMetrics(ctx)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(content) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			return strconv.ParseFloat(strings.TrimSpace(value), 64)
		}
	}
	return 0, fmt.Errorf("there is no metric %s", name)
}
