package connect

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
)

// APIs are what a target serves, as charts ask for it.
type APIs struct {
	// Versions are group versions and the kinds in them, sorted: "apps/v1", "apps/v1/Deployment", "v1", "v1/Pod".
	Versions []string
	// Failing are the groups whose discovery fails at the moment, sorted: what is in them is not known.
	Failing []string
	// Digest over the version of Kubernetes and Versions, empty while a group fails.
	Digest string
}

// APIs gives what the target serves, from the cached discovery. kubernetesVersion is that of the target, and probed the
// digest that its last probe found, perhaps by another process: when it is another one, or a group fails here, the cache is
// filled anew.
func (c *Client) APIs(kubernetesVersion, probed string) (APIs, error) {
	found, err := c.apis(kubernetesVersion)
	if err != nil || found.Digest == probed || probed == "" {
		return found, err
	}
	c.Mapper.Reset()
	return c.apis(kubernetesVersion)
}

func (c *Client) apis(kubernetesVersion string) (APIs, error) {
	_, lists, err := c.Discovery.ServerGroupsAndResources()
	partial, ok := errors.AsType[*discovery.ErrGroupDiscoveryFailed](err)
	switch {
	case ok:
		return apisOf(kubernetesVersion, lists, partial.Groups), nil
	case err != nil:
		return APIs{}, fmt.Errorf("read what the target serves: %w", err)
	}
	return apisOf(kubernetesVersion, lists, nil), nil
}

func apisOf(kubernetesVersion string, lists []*metav1.APIResourceList, failing map[schema.GroupVersion]error) APIs {
	var out APIs
	for _, list := range lists {
		out.Versions = append(out.Versions, list.GroupVersion)
		for i := range list.APIResources {
			out.Versions = append(out.Versions, list.GroupVersion+"/"+list.APIResources[i].Kind)
		}
	}
	slices.Sort(out.Versions)
	out.Versions = slices.Compact(out.Versions)
	for gv := range failing {
		out.Failing = append(out.Failing, gv.Group)
	}
	slices.Sort(out.Failing)
	out.Failing = slices.Compact(out.Failing)
	if len(out.Failing) == 0 {
		sum := sha256.Sum256([]byte(kubernetesVersion + "\n" + strings.Join(out.Versions, "\n")))
		out.Digest = "sha256:" + hex.EncodeToString(sum[:])
	}
	return out
}
