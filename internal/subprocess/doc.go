// Package subprocess runs a piece of work in a process of its own, which is this program once more. It decides what such
// a process may take and how it ends: when it has taken too much memory, time of the CPU or output, when its caller gives
// up, and when the program that started it is gone. So work on input of strangers, which cannot be stopped or bounded
// where it runs, ends alone. It does not know what the work is, starts no other program, and never shows what a process
// writes to its standard error. render runs kustomize in it.
package subprocess
