package source

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"io"
	"maps"
	"slices"
)

// digestOf hashes paths and contents. Lengths go first, so that no two trees have the same input.
func digestOf(files map[string][]byte) string {
	h := sha256.New()
	var size [8]byte
	part := func(b []byte) {
		binary.BigEndian.PutUint64(size[:], uint64(len(b)))
		_, _ = h.Write(size[:])
		_, _ = h.Write(b)
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		binary.BigEndian.PutUint64(size[:], uint64(len(name)))
		_, _ = h.Write(size[:])
		_, _ = io.WriteString(h, name)
		part(files[name])
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil))
}

func (b *Bundle) size() int64 {
	total := int64(0)
	for name, content := range b.Files {
		total += int64(len(name) + len(content))
	}
	return total
}
