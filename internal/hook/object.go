package hook

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/delivery"
	"kumodo.io/convoy/internal/expr"
)

// Object executes the template of a job. id is of the run, and makes a generated name its own.
func Object(h *v1alpha1.HookJob, c delivery.Context, id string) (*unstructured.Unstructured, error) {
	text, err := expr.Template("job.template", h.Template, c.Values())
	if err != nil {
		return nil, verdict(err)
	}
	document, err := onlyDocument(text)
	if err != nil {
		return nil, err
	}
	asJSON, err := yaml.YAMLToJSONStrict(document)
	if err != nil {
		return nil, failed("job.template: it does not give valid YAML, or has a key twice")
	}
	o := &unstructured.Unstructured{}
	if err := o.UnmarshalJSON(asJSON); err != nil || o.IsList() || o.GetAPIVersion() == "" {
		return nil, failed("job.template: it does not give one object with apiVersion and kind")
	}
	if gk := o.GroupVersionKind().GroupKind(); delivery.IsLasting(gk) {
		return nil, failed("job.template: a hook does not make a %s, as its object is deleted before the next run: put it into the source", gk.Kind)
	}
	switch name, prefix := o.GetName(), o.GetGenerateName(); {
	case name != "" && prefix != "":
		return nil, failed("job.template: metadata.name and metadata.generateName exclude one another")
	case prefix != "":
		const longest = 50 // with the ID it is the name of a Job, whose pods bear it as a label
		o.SetGenerateName("")
		o.SetName(prefix[:min(len(prefix), longest)] + id[:10])
	case name == "":
		return nil, failed("job.template: the object has no metadata.name; give it one, or metadata.generateName")
	}
	if err := delivery.CheckObject(o.Object); err != nil {
		return nil, failed("job.template: %s: %v", o.GetKind(), err)
	}
	unstructured.RemoveNestedField(o.Object, "status")
	return o, nil
}

// onlyDocument is the one document of a text that says something.
func onlyDocument(text string) ([]byte, error) {
	documents := utilyaml.NewYAMLReader(bufio.NewReader(strings.NewReader(text)))
	var only []byte
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, failed("job.template: it does not give valid YAML")
		}
		if isBlank(document) {
			continue
		}
		if only != nil {
			return nil, failed("job.template: it gives more than one object; a hook makes exactly one")
		}
		only = document
	}
	if only == nil {
		return nil, failed("job.template: it gives no object; use when to leave a hook out")
	}
	return only, nil
}

func isBlank(document []byte) bool {
	for line := range bytes.Lines(document) {
		line = bytes.TrimSpace(line)
		if len(line) > 0 && line[0] != '#' && !bytes.Equal(line, []byte("---")) {
			return false
		}
	}
	return true
}

// RefOf names an object for the status, as far as its template says it.
func RefOf(o *unstructured.Unstructured, targetNamespace string) *v1alpha1.HookObject {
	ref := delivery.RefOf(o)
	if ref.Namespace == "" {
		ref.Namespace = targetNamespace
	}
	return &v1alpha1.HookObject{Group: ref.Group, Kind: ref.Kind, Namespace: ref.Namespace, Name: ref.Name}
}

// Health is how an object stands.
type Health struct {
	Current bool
	// Failed: its controller says that it does not get there; Final: that it has given up.
	Failed, Final bool
	Message       string
}

// settle is how long a failure that is not final, or a deletion before the end, has to last.
const settle = 5 * time.Second

// Judge follows the object of one run, from look to look.
type Judge struct {
	failing, leaving time.Time
}

// Look judges the object as it is now; live is nil when it is gone. health is of the object as if nobody deleted it: what
// a time-to-live takes away has its result all the same.
func (j *Judge) Look(live *unstructured.Unstructured, health func(*unstructured.Unstructured) Health, now time.Time) (done bool, waiting string, err error) {
	if live == nil {
		return false, "", failed("its object is gone from the cluster, and left no result")
	}
	judged := live.DeepCopy()
	judged.SetDeletionTimestamp(nil)
	is := health(judged)
	if isPod(judged) { // a Pod that is ready has not ended
		phase, _, _ := unstructured.NestedString(judged.Object, "status", "phase")
		is.Current = phase == "Succeeded"
	}
	switch {
	case is.Current:
		return true, "", nil
	case is.Failed && (is.Final || lasts(&j.failing, now)):
		return false, "", failed("%s", is.Message)
	case live.GetDeletionTimestamp() != nil && lasts(&j.leaving, now):
		return false, "", failed("its object was deleted before it had ended")
	case !is.Failed:
		j.failing = time.Time{}
	}
	return false, is.Message, nil
}

// Ended reports whether an object has its result.
func Ended(live *unstructured.Unstructured, health func(*unstructured.Unstructured) Health) bool {
	j := Judge{failing: time.Unix(0, 0)}
	judged := live.DeepCopy()
	judged.SetDeletionTimestamp(nil)
	done, _, err := j.Look(judged, health, time.Unix(0, 0).Add(settle))
	return done || err != nil
}

func isPod(o *unstructured.Unstructured) bool {
	return o.GroupVersionKind().GroupKind() == schema.GroupKind{Kind: "Pod"}
}

// lasts reports whether something has lasted long enough, counted from the first look that saw it.
func lasts(since *time.Time, now time.Time) bool {
	if since.IsZero() {
		*since = now
	}
	return now.Sub(*since) >= settle
}
