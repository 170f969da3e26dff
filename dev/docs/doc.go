// Package docs holds the documentation to what it says: it reads the pages of the repository, runs their commands in the
// order in which a reader would, against a real hub, real targets, a real Temporal and the real convoy, and compares what
// the pages show of the output with what came out. What the pages show of objects is asked of the hub by a dry run.
//
// It decides what of a page is run, and what counts as the same output. Pages say for themselves what cannot be run, and why,
// in a comment that readers do not see:
//
//	<!-- not run: the nodes of the hub here play pods, and have no logs -->
//
// before a block leaves that block out; before the title it leaves out the whole page. A comment that begins with a line
// `<!-- run` holds commands that bring about what the page takes for granted. CONTRIBUTING.md says how to write pages.
package docs
