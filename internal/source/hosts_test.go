package source

import (
	"context"
	"errors"
	"testing"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/room"
)

func gitOn(host string) v1alpha1.Source {
	return v1alpha1.Source{Git: &v1alpha1.GitSource{URL: "https://" + host + "/app"}}
}

// places counts how many more steps may wait for the server of a source.
func places(t *testing.T, s *Sources, src v1alpha1.Source) (n int) {
	t.Helper()
	_, err := enter(s, src, false, func() (int, error) {
		n = 1 + places(t, s, src)
		return 0, nil
	})
	if _, busy := errors.AsType[*room.BusyError](err); err != nil && !busy {
		t.Fatal(err)
	}
	return n
}

func TestAServerThatKeepsSilentHasLittleRoomUntilItAnswersAndOthersHaveTheirs(t *testing.T) {
	s := New(nil, nil, Limits{})
	silent, other := gitOn("silent.example.test"), gitOn("other.example.test")
	look := func(err error) {
		_, _ = enter(s, silent, true, func() (int, error) { return 0, err })
	}
	if n := places(t, s, silent); n != perHost {
		t.Errorf("%d places, want %d", n, perHost)
	}
	look(failed(context.DeadlineExceeded, "did not answer"))
	if n := places(t, s, silent); n != room.Troubled {
		t.Errorf("%d places for a silent server, want %d", n, room.Troubled)
	}
	if n := places(t, s, other); n != perHost {
		t.Errorf("%d places for another server, want %d", n, perHost)
	}
	// What is opened from the cache is no answer of the server.
	if _, err := enter(s, silent, false, func() (int, error) { return 0, nil }); err != nil {
		t.Fatal(err)
	}
	if n := places(t, s, silent); n != room.Troubled {
		t.Errorf("%d places after a look into the cache, want %d", n, room.Troubled)
	}
	look(notFound(nil, "does not exist"))
	if n := places(t, s, silent); n != perHost {
		t.Errorf("%d places for a server that answers again, want %d", n, perHost)
	}
	if len(s.hosts.rooms) != 0 {
		t.Errorf("%d rooms are kept of servers that nobody waits for", len(s.hosts.rooms))
	}
}

func TestAConfigMapNeedsNoRoom(t *testing.T) {
	if host := hostOf(v1alpha1.Source{ConfigMap: &v1alpha1.ConfigMapSource{Name: "app"}}); host != "" {
		t.Errorf("host %q", host)
	}
}
