package source

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"testing"

	"github.com/go-git/go-git/v5/plumbing"
)

// packOfCommit makes a pack of the newest commit with git.
func packOfCommit(t *testing.T, s *gitServer) []byte {
	t.Helper()
	cmd := exec.Command("git", "pack-objects", "--stdout", "--revs", "-q")
	cmd.Dir = s.work
	cmd.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null")
	cmd.Stdin = bytes.NewBufferString("HEAD\n")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestAPackIsMeasuredBeforeItIsInflated(t *testing.T) {
	s := newGitServer(t)
	var lines bytes.Buffer
	for i := range 5000 {
		_, _ = lines.WriteString(string(rune('a'+i%26)) + "line of a file\n")
	}
	s.push(map[string]string{"f": lines.String()})
	s.push(map[string]string{"f": lines.String() + "one more line, so that one of the two is a delta\n"})
	pack := packOfCommit(t, s)
	hash := plumbing.NewHash(s.git("rev-parse", "HEAD"))
	if _, err := readPack(bytes.NewReader(pack), hash, 1<<20); err != nil {
		t.Errorf("a limit that fits: %v", err)
	}
	if _, err := readPack(bytes.NewReader(pack), hash, int64(lines.Len())+8<<10); !errors.Is(err, errRepositoryTooBig) {
		t.Errorf("a limit that only fits without the delta's result: %v", err)
	}
	if _, err := readPack(bytes.NewReader(pack), plumbing.NewHash("0123456789012345678901234567890123456789"), 1<<20); err == nil {
		t.Error("a commit that the pack does not hold was found")
	}
}

func FuzzPack(f *testing.F) {
	f.Add([]byte("PACK\x00\x00\x00\x02\x00\x00\x00\x00"))
	f.Add([]byte("PACK\x00\x00\x00\x02\x00\x00\x00\x01\xbf\xff\xff\xff\xff\xff\xff\xff\x7fx"))
	f.Add([]byte{})
	hash := plumbing.NewHash("0123456789012345678901234567890123456789")
	f.Fuzz(func(t *testing.T, pack []byte) {
		c, err := safely(func() (any, error) { return readPack(bytes.NewReader(pack), hash, 1<<20) })
		if err == nil && c.(*commit).bytes > 1<<20 {
			t.Errorf("%d bytes", c.(*commit).bytes)
		}
	})
}
