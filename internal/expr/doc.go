// Package expr is the one template environment of convoy. It decides what a template may do: read the values it is
// given and build text from them. A template never sees time, randomness, the environment, the network or files, and
// is bounded in output, steps and time. render calls it for mutations.
package expr
