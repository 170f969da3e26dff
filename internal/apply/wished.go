package apply

import (
	"encoding/base64"
	"maps"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"kumodo.io/convoy/internal/delivery"
)

// Wished is an object of a render as an apply sends it to a namespace, empty for a cluster-scoped one. all says whether every field of
// it is convoy's, or only that it is there; neither when the object is none of convoy's.
func Wished(o *unstructured.Unstructured, namespace string, owner delivery.Owner) (applied *unstructured.Unstructured, presence, all bool) {
	opts, problem := optionsOf(o)
	if problem != "" || opts.ignore {
		return nil, false, false
	}
	return marked(o, namespace, owner), true, !opts.ifNotPresent
}

// encodeStringData does to a Secret what its server does. Who applies stringData never owns the data that becomes of it: neither a
// change by somebody else nor a key that left the render could be seen or mended. What the server would refuse stays as it is.
func encodeStringData(object map[string]any) {
	plain, ok := object["stringData"].(map[string]any)
	if !ok || object["kind"] != "Secret" || object["apiVersion"] != "v1" {
		return
	}
	before, _ := object["data"].(map[string]any)
	data := make(map[string]any, len(before)+len(plain))
	maps.Copy(data, before)
	for key, value := range plain {
		text, ok := value.(string)
		if !ok {
			return
		}
		data[key] = base64.StdEncoding.EncodeToString([]byte(text))
	}
	object["data"] = data
	delete(object, "stringData")
}
