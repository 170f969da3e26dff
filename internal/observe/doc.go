// Package observe decides whether objects on a target are healthy, and whether they are as they were applied: once, by waiting until
// they are, or by watches. It only reads: it never writes to a target or the hub, and never starts or retries a rollout. The activities
// call it.
package observe
