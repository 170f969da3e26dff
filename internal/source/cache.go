package source

import (
	"sync"

	"github.com/golang/groupcache/lru"
)

// cache keeps the values that were used last, up to a number of bytes.
type cache struct {
	mu    sync.Mutex
	limit int64
	used  int64
	lru   *lru.Cache
}

type sized struct {
	value any
	bytes int64
}

func newCache(limit int64) *cache {
	c := &cache{limit: limit, lru: lru.New(0)}
	c.lru.OnEvicted = func(_ lru.Key, v any) {
		if s, ok := v.(sized); ok {
			c.used -= s.bytes
		}
	}
	return c
}

// cached finds a value of type T.
func cached[T any](c *cache, key any) (value T, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	v, found := c.lru.Get(key)
	if !found {
		return value, false
	}
	s, _ := v.(sized)
	value, ok = s.value.(T)
	return value, ok
}

// put keeps value. A value that is larger than the whole cache is not kept.
func (c *cache) put(key, value any, bytes int64) {
	if bytes > c.limit {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lru.Remove(key)
	c.lru.Add(key, sized{value, bytes})
	c.used += bytes
	for c.used > c.limit {
		c.lru.RemoveOldest()
	}
}
