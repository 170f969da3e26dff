// Package expr is the one template environment and the one CEL environment of convoy. It decides what a template or an
// expression may do: read the values that it is given, and make text, a condition or a change from them. Neither ever sees
// time, randomness, the environment, the network or files, and both are bounded in size, steps and time. No message holds a
// value. render calls it for mutations, hook for hooks, observe for health checks and ignored differences.
package expr
