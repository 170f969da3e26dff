package delivery

import (
	"fmt"
	"strings"
)

// Count is a number of things for people, as in 1 object and 2 objects.
func Count(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return fmt.Sprintf("%d %s", n, noun)
}

// Share is a part of a number of things, as in 1 of 2 objects.
func Share(n, of int, noun string) string { return fmt.Sprintf("%d of %s", n, Count(of, noun)) }

// Short cuts a name that goes into a message.
func Short(s string) string {
	const limit = 120
	if len(s) > limit {
		return strings.ToValidUTF8(s[:limit], "") + "…"
	}
	return s
}
