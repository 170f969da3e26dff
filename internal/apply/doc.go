// Package apply brings rendered objects to a target and takes them away again. It decides the order, who owns an
// object, which refusal waiting may heal, and what may be deleted; it keeps the inventory on the hub, ahead of every
// write to the target. It never renders, never judges health beyond what the answer to a write says, and never
// deletes what it has not seen its own mark on. The activities call it, one call per step of a rollout or deletion.
//
// Every call may be repeated: it reads what is there and does what is missing. Errors that are returned mean that
// target or hub could not be used, or that the context ended; what the target says about a single object is in the
// result.
package apply
