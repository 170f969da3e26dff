// Package source turns a source of a Release into a bundle: a file tree in memory with an immutable revision. It
// decides which revision is the newest, which files belong to it, what is too much, and which Secret may open it. It never
// writes anything, runs no program, and keeps nothing on disk. The activities call it before a render.
//
// Git is spoken over https, http and ssh, without proxies; one commit is fetched, without its history, and its submodules
// when they are asked for. Credentials are sent to the origin that the source names and to no other. A redirect is
// followed for the look at the references alone, and through the same dialer. Repositories on this machine's disk are read
// only where the operator permits it. A ConfigMap is read from the hub.
package source
