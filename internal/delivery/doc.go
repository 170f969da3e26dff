// Package delivery is convoy's vocabulary and its pure decisions: who owns an object, what a template may
// know, whether the gate is open, whether a rollout is due. It does no I/O and knows no client; everything
// else in convoy may import it.
package delivery
