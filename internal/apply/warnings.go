package apply

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"

	"kumodo.io/convoy/internal/delivery"
)

const (
	// maxWarnings bounds what is shown, as the schema of the status does.
	maxWarnings = 10
	// maxHeard bounds what is kept before.
	maxHeard = 200
)

// warnings are what the server warned of, each text once.
type warnings struct {
	mu    sync.Mutex
	texts map[string]*warning
}

// warning is the first object that a text is about, and how many there are.
type warning struct {
	text    string
	first   delivery.ObjectRef
	objects map[delivery.ObjectRef]bool
}

// listen makes a context that notes what the server warns of. What it says about a Secret is not heard: it may quote it.
func (a *applier) listen(ctx context.Context, it *item) context.Context {
	if a.req.Listen == nil || isSecret(it.ref) {
		return ctx
	}
	return a.req.Listen(ctx, func(text string) {
		if len(text) <= longestRead {
			a.heard.note(it.ref, a.clean.line(text))
		}
	})
}

func (w *warnings) note(ref delivery.ObjectRef, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	known := w.texts[text]
	switch {
	case known != nil:
	case len(w.texts) == maxHeard:
		return
	default:
		known = &warning{text: text, first: ref, objects: map[delivery.ObjectRef]bool{}}
		if w.texts == nil {
			w.texts = map[string]*warning{}
		}
		w.texts[text] = known
	}
	known.objects[ref] = true
	if ref.Compare(known.first) < 0 {
		known.first = ref
	}
}

// lines are the warnings in the order of their objects, which is the same each time.
func (w *warnings) lines() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []*warning
	for _, known := range w.texts {
		all = append(all, known)
	}
	slices.SortFunc(all, func(x, y *warning) int { return cmp.Or(x.first.Compare(y.first), cmp.Compare(x.text, y.text)) })
	var out []string
	for i, known := range all {
		if i == maxWarnings-1 && len(all) > maxWarnings {
			return append(out, fmt.Sprintf("and %d warnings more", len(all)-i))
		}
		line := fmt.Sprintf("%s: %s", known.first, known.text)
		if more := len(known.objects) - 1; more > 0 {
			line += fmt.Sprintf(" (and %d objects more)", more)
		}
		out = append(out, line)
	}
	return out
}
