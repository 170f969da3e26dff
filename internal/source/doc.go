// Package source turns a source of a Release into a bundle: a file tree in memory with an immutable revision. It
// decides which revision is the newest, which files belong to it, and what is too much. It never writes
// anything, runs no program, and keeps nothing on disk. The activities call it before a render.
//
// Git is spoken over http and https without credentials, proxies or submodules; one commit is fetched, without its
// history. A redirect is followed for the look at the references alone, and through
// the same dialer. A ConfigMap is read from the hub.
package source
