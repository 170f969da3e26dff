package source

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"

	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/credentials"
)

var (
	errDockerConfig = errors.New("holds no Docker configuration")
	errDockerLogin  = errors.New("holds no login that can be read")
)

// dockerLogin is the login of a registry in a Docker configuration, empty when that has none. Nothing else of the
// configuration is read: neither the entries of other registries nor the names of programs that would give a login.
func dockerLogin(ctx context.Context, config []byte, host string) (auth.Credential, error) {
	var c struct {
		Auths map[string]json.RawMessage `json:"auths"`
	}
	if err := json.Unmarshal(config, &c); err != nil {
		return auth.EmptyCredential, errDockerConfig
	}
	entry, ok := dockerEntry(c.Auths, host)
	if !ok {
		return auth.EmptyCredential, nil
	}
	const only = "registry"
	one, err := json.Marshal(map[string]any{"auths": map[string]json.RawMessage{only: entry}})
	if err != nil {
		return auth.EmptyCredential, errDockerLogin
	}
	store, err := credentials.NewMemoryStoreFromDockerConfig(one)
	if err != nil {
		return auth.EmptyCredential, errDockerLogin
	}
	login, err := store.Get(ctx, only)
	if err != nil {
		return auth.EmptyCredential, errDockerLogin
	}
	return login, nil
}

// dockerEntry finds the entry of a host. One by the very host goes before one by a URL, as older tools write it.
func dockerEntry(entries map[string]json.RawMessage, host string) (json.RawMessage, bool) {
	hosts := []string{host}
	if host == "docker.io" || host == "registry-1.docker.io" { // what docker login writes for them comes first
		hosts = []string{"index.docker.io", "docker.io", "registry-1.docker.io"}
	}
	for _, host := range hosts {
		if entry, ok := entries[host]; ok {
			return entry, true
		}
		for _, key := range slices.Sorted(maps.Keys(entries)) {
			if hostOfEntry(key) == host {
				return entries[key], true
			}
		}
	}
	return nil, false
}

func hostOfEntry(key string) string {
	key = strings.TrimPrefix(strings.TrimPrefix(key, "http://"), "https://")
	host, _, _ := strings.Cut(key, "/")
	return host
}
