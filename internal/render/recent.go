package render

import (
	"sync"

	"github.com/golang/groupcache/lru"

	"kumodo.io/convoy/api/v1alpha1"
)

// recentBytes is how much of the renders that were used last stays in memory.
const recentBytes = 64 << 20

// recentKey has the namespace and name, so that a reference into another namespace finds nothing.
type recentKey struct {
	namespace string
	ref       v1alpha1.RenderRef
}

// recent keeps canonical forms that were used last, up to a number of bytes.
type recent struct {
	mu    sync.Mutex
	limit int
	used  int
	lru   *lru.Cache
}

func newRecent(limit int) *recent {
	r := &recent{limit: limit, lru: lru.New(0)}
	r.lru.OnEvicted = func(_ lru.Key, v any) {
		canonical, _ := v.([]byte)
		r.used -= len(canonical)
	}
	return r
}

func (r *recent) get(key recentKey) ([]byte, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	v, ok := r.lru.Get(key)
	if !ok {
		return nil, false
	}
	canonical, ok := v.([]byte)
	return canonical, ok
}

func (r *recent) put(key recentKey, canonical []byte) {
	if len(canonical) > r.limit {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lru.Remove(key)
	r.lru.Add(key, canonical)
	r.used += len(canonical)
	for r.used > r.limit {
		r.lru.RemoveOldest()
	}
}
