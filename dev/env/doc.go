// Package env starts convoy's local environment for real, on loopback: a Temporal dev server with its web UI,
// a hub control plane that serves convoy's CRDs, target control planes, and a git server.
//
// It decides how these programs are configured, how they are found to be ready, and that none outlives the
// program that started it. A stopped, killed or frozen part comes back with the same port, certificates and
// data. It never starts convoy itself and never holds a scenario: the demo, the end-to-end tests and the
// benchmark call it and do that.
//
// The programs (etcd, kube-apiserver, kube-controller-manager, kube-scheduler, kwok, temporal) are executed from
// one folder, which `make tools` fills. git must be on the PATH.
package env
