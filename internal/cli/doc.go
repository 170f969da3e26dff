// Package cli decides what the commands for people ask of the hub, and what they print of it: get, describe, history, diff and
// why read; suspend, resume, reconcile, approve and rollback write one field or object each; reprobe asks Temporal. What a
// name stands for and what may be approved is decided in internal/delivery. It uses the rights of who calls it, and never
// those of the controller; it prints no value of a Secret. cmd/convoy is the only caller.
package cli
