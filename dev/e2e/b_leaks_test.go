package e2e

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kumodo.io/convoy/api/v1alpha1"
)

// checkLeaks looks, after all tests, through everything that convoy wrote where people look: the history and the state of
// every workflow, closed ones too, the status of every object, Inventories, Events, records of what was left behind, and
// the logs. None of it may hold a credential, a value of a Secret or a piece of a manifest.
func checkLeaks() error {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	forbidden, err := forbiddenTexts(ctx)
	if err != nil {
		return fmt.Errorf("look for leaks: %w", err)
	}
	scan := &leakScan{forbidden: forbidden}
	for _, at := range sites() {
		scan.at = at
		for _, look := range []func(context.Context, *leakScan) error{scanTemporal, scanHub} {
			if err := look(ctx, scan); err != nil {
				return fmt.Errorf("look for leaks: %w", err)
			}
		}
	}
	for place, status := range removed.statuses {
		scan.look(place, status)
	}
	if err := scanLogs(scan); err != nil {
		return fmt.Errorf("look for leaks: %w", err)
	}
	if scan.places == 0 {
		return errors.New("look for leaks: there is nothing to look through")
	}
	return errors.Join(scan.found...)
}

// removed are the statuses of Clusters that were deleted after their test had passed.
var removed = struct {
	mu       sync.Mutex
	statuses map[string][]byte
}{statuses: map[string][]byte{}}

// removeClusters deletes the Clusters of a scene that is over: all that are left are probed at each resync, which slows the
// tests that follow. The search for leaks still gets to see what they said.
func (s *scene) removeClusters() {
	s.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute) // that of the test has ended
	defer cancel()
	var clusters v1alpha1.ClusterList
	s.must(s.hub.List(ctx, &clusters, client.InNamespace(s.ns)))
	removed.mu.Lock()
	defer removed.mu.Unlock()
	for i := range clusters.Items {
		c := &clusters.Items[i]
		removed.statuses["the last status of Cluster "+c.Namespace+"/"+c.Name] = []byte(encoded(c.Status))
	}
	s.must(s.hub.DeleteAllOf(ctx, &v1alpha1.Cluster{}, client.InNamespace(s.ns)))
}

// leakScan collects where something forbidden stands.
type leakScan struct {
	forbidden map[string][]byte // what it is -> the text
	at        site              // where it looks now
	places    int
	found     []error
}

func (s *leakScan) look(place string, content []byte) {
	s.places++
	for what, text := range s.forbidden {
		if bytes.Contains(content, text) {
			s.found = append(s.found, fmt.Errorf("%s holds %s", place, what))
		}
	}
}

// lookJSON looks at a value as it is written to the hub.
func (s *leakScan) lookJSON(place string, value any) error {
	content, err := json.Marshal(value)
	s.look(place, content)
	return err
}

// forbiddenTexts are the sentinels, and the credentials of every kubeconfig that is or was on the hub.
func forbiddenTexts(ctx context.Context) (map[string][]byte, error) {
	forbidden := map[string][]byte{}
	for _, sentinel := range []string{secretSentinel, manifestSentinel, stubSentinel} {
		forbidden["the sentinel "+sentinel] = []byte(sentinel)
		for shift := range 3 { // Base64 looks different at each position within a group of three
			whole := (shift + len(sentinel)) / 3 * 3 // what follows may share the last group, what precedes the first
			padded := base64.StdEncoding.EncodeToString(append(make([]byte, shift), sentinel...)[:whole])
			forbidden[fmt.Sprintf("the sentinel %s in Base64 (%d)", sentinel, shift)] = []byte(padded[(shift+2)/3*4:])
		}
	}
	kubeconfigs := map[string][]byte{}
	for _, target := range local.Targets {
		kubeconfigs[target.Name] = target.Kubeconfig()
	}
	for _, at := range sites() {
		kubeconfigs["hub of "+at.convoy.name] = at.local.Hub.Kubeconfig()
		var secrets corev1.SecretList
		if err := at.hub.List(ctx, &secrets); err != nil {
			return nil, err
		}
		for i := range secrets.Items {
			if content, ok := secrets.Items[i].Data["kubeconfig"]; ok {
				kubeconfigs[secrets.Items[i].Namespace+"/"+secrets.Items[i].Name] = content
			}
		}
	}
	for name, content := range kubeconfigs {
		for what, text := range credentialsOf(content) {
			forbidden[what+" of the kubeconfig "+name] = text
		}
	}
	return forbidden, nil
}

// credentialsOf are recognisable pieces of what a kubeconfig keeps secret, and of the kubeconfig itself in Base64.
func credentialsOf(kubeconfig []byte) map[string][]byte {
	pieces := map[string][]byte{}
	if encoded := base64.StdEncoding.EncodeToString(kubeconfig); len(encoded) > 400 {
		pieces["a piece"] = []byte(encoded[200:280])
	}
	config, err := clientcmd.Load(kubeconfig)
	if err != nil {
		return pieces // some tests use broken ones
	}
	for _, user := range config.AuthInfos {
		if user.Token != "" {
			pieces["the token"] = []byte(user.Token)
		}
		for what, pem := range map[string][]byte{"the key": user.ClientKeyData, "the certificate": user.ClientCertificateData} {
			if lines := bytes.Split(pem, []byte("\n")); len(lines) > 2 {
				pieces[what+" as PEM"] = lines[1]
				pieces[what+" as Base64"] = []byte(base64.StdEncoding.EncodeToString(pem)[60:140])
			}
		}
	}
	return pieces
}

func TestTheSearchForLeaksFindsWhatIsHiddenInBase64(t *testing.T) {
	forbidden, err := forbiddenTexts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{secretSentinel + "-login", "x" + manifestSentinel + "y", "{}" + secretSentinel + "-login", "abc" + manifestSentinel} {
		scan := &leakScan{forbidden: forbidden}
		scan.look("a place", []byte("before "+base64.StdEncoding.EncodeToString([]byte(text))+" after"))
		if len(scan.found) != 1 {
			t.Errorf("%q in Base64: found %v", text, scan.found)
		}
	}
	key := credentialsOf(beta.Kubeconfig())["the key as PEM"]
	scan := &leakScan{forbidden: forbidden}
	scan.look("a place", append([]byte("before "), key...))
	if len(key) < 20 || len(scan.found) == 0 {
		t.Errorf("the key %q is not found", key)
	}
}

// scanTemporal looks through the history and the state of all workflows. Payloads are kept as they are in the encoding of
// the API, so that nothing in them is hidden by Base64.
func scanTemporal(ctx context.Context, scan *leakScan) error {
	var page []byte
	for {
		list, err := scan.at.temporal.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{NextPageToken: page})
		if err != nil {
			return err
		}
		for _, w := range list.GetExecutions() {
			if err := scanWorkflow(ctx, scan, w); err != nil {
				return err
			}
		}
		if page = list.GetNextPageToken(); len(page) == 0 {
			return nil
		}
	}
}

func scanWorkflow(ctx context.Context, scan *leakScan, w *workflowpb.WorkflowExecutionInfo) error {
	id, run := w.GetExecution().GetWorkflowId(), w.GetExecution().GetRunId()
	description, err := scan.at.temporal.DescribeWorkflow(ctx, id, run)
	if err != nil {
		return err
	}
	for place, message := range map[string]proto.Message{"the list entry of " + id: w, "the state of " + id: description.RawResponse} {
		content, err := proto.Marshal(message)
		if err != nil {
			return err
		}
		scan.look(place, content)
	}
	events := scan.at.temporal.GetWorkflowHistory(ctx, id, run, false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for events.HasNext() {
		event, err := events.Next()
		if err != nil {
			return err
		}
		content, err := proto.Marshal(event)
		if err != nil {
			return err
		}
		scan.look(fmt.Sprintf("event %d of %s, %s,", event.GetEventId(), id, event.GetEventType()), content)
	}
	return nil
}

func scanHub(ctx context.Context, scan *leakScan) error {
	var (
		clusters    v1alpha1.ClusterList
		releases    v1alpha1.ReleaseList
		inventories v1alpha1.InventoryList
		events      corev1.EventList
		records     corev1.ConfigMapList
	)
	for list, options := range map[client.ObjectList][]client.ListOption{
		&clusters: nil, &releases: nil, &inventories: nil, &events: nil, &records: {client.HasLabels{v1alpha1.LabelReleaseUID}},
	} {
		if err := scan.at.hub.List(ctx, list, options...); err != nil {
			return err
		}
	}
	var errs []error
	for i := range clusters.Items {
		o := &clusters.Items[i]
		errs = append(errs, scan.lookJSON("the status of Cluster "+o.Namespace+"/"+o.Name, o.Status))
	}
	for i := range releases.Items {
		o := &releases.Items[i]
		errs = append(errs, scan.lookJSON("the status of Release "+o.Namespace+"/"+o.Name, o.Status))
	}
	for i := range inventories.Items {
		errs = append(errs, scan.lookJSON("Inventory "+inventories.Items[i].Name, inventories.Items[i]))
	}
	for i := range events.Items {
		errs = append(errs, scan.lookJSON("Event "+events.Items[i].Name, events.Items[i]))
	}
	for i := range records.Items {
		errs = append(errs, scan.lookJSON("ConfigMap "+records.Items[i].Name, records.Items[i]))
	}
	return errors.Join(errs...)
}

func scanLogs(scan *leakScan) error {
	logs, err := filepath.Glob(filepath.Join(local.Dir(), "convoy-*", "*.log"))
	if err != nil || len(logs) == 0 {
		return fmt.Errorf("there is no log of convoy (%w)", err)
	}
	for _, path := range logs {
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		scan.look("the log "+filepath.Base(filepath.Dir(path)), content)
	}
	return nil
}
