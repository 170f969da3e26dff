// Package observe decides whether objects on a target are healthy, and waits until they are. It only reads: it never
// writes to a target or the hub, and never starts or retries a rollout. The activities call it after an apply.
package observe
