package source

import (
	"context"
	"errors"
	"net"
	"net/url"
	"sync"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/room"
)

// perHost is how many steps of this process may wait for one server. One that gives no answer gets less room, so that it
// costs the sources on other servers nothing.
const perHost = 100

// hosts are the rooms of the servers that are being waited for or gave no answer.
type hosts struct {
	mu    sync.Mutex
	rooms map[string]*room.Room
}

// enter does work on a place among the steps that wait for the server of a source, or returns a *room.BusyError when there
// is none. asks: the work cannot succeed without an answer of the server.
func enter[T any](s *Sources, src v1alpha1.Source, asks bool, work func() (T, error)) (out T, err error) {
	host := hostOf(src)
	if host == "" {
		return work()
	}
	place, done, err := s.hosts.take(host)
	if err != nil {
		return out, err
	}
	defer func() {
		done()
		s.hosts.tidy(host, place)
	}()
	out, err = work()
	switch silent := noAnswer(err); {
	case silent:
		place.SetTroubled(true)
	case asks:
		place.SetTroubled(false)
	}
	return out, err
}

func (h *hosts) take(host string) (place *room.Room, done func(), err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	place, known := h.rooms[host]
	if !known {
		place = room.New(false)
		h.rooms[host] = place
	}
	done, err = place.Take(perHost)
	return place, done, err
}

// tidy forgets a room that nobody needs.
func (h *hosts) tidy(host string, place *room.Room) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if place.Idle() && h.rooms[host] == place {
		delete(h.rooms, host)
	}
}

// noAnswer reports whether an error says that a server kept silent.
func noAnswer(err error) bool {
	network, ok := errors.AsType[net.Error](err)
	return errors.Is(err, context.DeadlineExceeded) || ok && network.Timeout()
}

// hostOf is the server of a source, empty when it has none or names none.
func hostOf(src v1alpha1.Source) string {
	var text string
	switch {
	case src.Git != nil:
		a, err := parseAddress(src.Git.URL)
		if err != nil {
			return ""
		}
		return a.url.Host
	case src.OCI != nil:
		text = src.OCI.URL
	case src.Helm != nil:
		text = src.Helm.URL
	}
	u, err := url.Parse(text)
	if err != nil {
		return ""
	}
	return u.Host
}
