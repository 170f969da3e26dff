package connect

import (
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/room"
)

// places counts the free places among the steps on a Cluster, and leaves them free.
func places(t *testing.T, p *Pool, c *v1alpha1.Cluster) (n int, noAnswer bool) {
	t.Helper()
	for {
		done, err := p.Work(c)
		if busy, ok := errors.AsType[*room.BusyError](err); ok {
			return n, busy.NoAnswer
		}
		if err != nil {
			t.Fatal(err)
		}
		defer done()
		n++
	}
}

func TestATargetThatGivesNoAnswerHasRoomForTwoStepsUntilItAnswers(t *testing.T) {
	const fine, cut, trickle = 0, 1, 2
	var mode atomic.Int32
	s, ca := stub(t, func(w http.ResponseWriter, r *http.Request) {
		switch mode.Load() {
		case cut:
			panic(http.ErrAbortHandler)
		case trickle: // the head of an answer, and then nothing
			w.WriteHeader(http.StatusOK)
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		default:
			always(http.StatusOK, "application/json", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x"}}`)(w, r)
		}
	})
	for _, bad := range []int32{cut, trickle} {
		mode.Store(fine)
		h := &hub{}
		h.put("s", "1", "value", kubeconfigFor(s.URL, ca, "{}"))
		p := newPool(t, h, Options{Concurrency: 5, RequestTimeout: 300e6})
		c := cluster("u", "")
		use := func() error {
			t.Helper()
			conn, err := p.Client(t.Context(), c)
			if err != nil {
				t.Fatal(err)
			}
			return readConfigMap(t.Context(), conn)
		}
		if err := use(); err != nil {
			t.Fatal(err)
		}
		if n, _ := places(t, p, c); n != 5 {
			t.Errorf("%d places on a good target, want 5", n)
		}
		mode.Store(bad)
		if err := use(); !Unreachable(err) {
			t.Fatalf("mode %d: %v", bad, err)
		}
		if n, noAnswer := places(t, p, c); n != room.Troubled || !noAnswer {
			t.Errorf("mode %d: %d places, no answer %v", bad, n, noAnswer)
		}
		// New credentials do not make more room: the target is the same.
		for i := range 3 {
			h.put("s", fmt.Sprint(i+2), "value", kubeconfigFor(s.URL, ca, "{token: t"+fmt.Sprint(i)+"}"))
			if _, err := p.Client(t.Context(), c); err != nil {
				t.Fatal(err)
			}
		}
		if n, _ := places(t, p, c); n != room.Troubled {
			t.Errorf("mode %d: %d places after new credentials", bad, n)
		}
		mode.Store(fine)
		if err := use(); err != nil {
			t.Fatal(err)
		}
		if n, noAnswer := places(t, p, c); n != 5 || noAnswer {
			t.Errorf("%d places on a target that answers again, want 5", n)
		}
		p.Evict(c.UID)
		if len(p.rooms) != 0 {
			t.Error("the room of a Cluster that is gone is kept")
		}
	}
}

func TestAPlaceIsGivenBackOnceAndAnUnreachableClusterBeginsWithLittleRoom(t *testing.T) {
	p := newPool(t, &hub{}, Options{Concurrency: 3})
	dead, unknown := cluster("dead", ""), cluster("unknown", "")
	dead.Status.Reachable = new(false)
	if n, noAnswer := places(t, p, dead); n != room.Troubled || !noAnswer {
		t.Errorf("%d places on a Cluster that is known to be unreachable", n)
	}
	if n, _ := places(t, p, unknown); n != 3 {
		t.Errorf("%d places on a Cluster that was never probed", n)
	}
	done, err := p.Work(unknown)
	if err != nil {
		t.Fatal(err)
	}
	done()
	done()
	if n, _ := places(t, p, unknown); n != 3 {
		t.Errorf("%d places after one was given back twice", n)
	}
	if Unreachable(&room.BusyError{NoAnswer: true}) {
		t.Error("a target without room counts as unreachable")
	}
}

func TestOneProcessAsksForAProbeNowAndThenOnly(t *testing.T) {
	p := newPool(t, &hub{}, Options{})
	asked := 0
	for range 100 {
		if p.Suspect(cluster("u", "")) {
			asked++
		}
	}
	if asked != 1 || !p.Suspect(cluster("other", "")) {
		t.Errorf("asked %d times at once, want once for each Cluster", asked)
	}
}

func TestTheRoomOfAClusterLastsAsLongAsOneOfItsClients(t *testing.T) {
	p := newPool(t, &hub{}, Options{})
	c := cluster("u", "")
	m := material{auth: "token", server: "https://127.0.0.1:1", token: entry{where: "Secret s", data: []byte("t0k")}}
	for _, at := range []place{{cluster: "u", kept: true}, {cluster: "u"}} {
		if _, err := p.client(at, m, c); err != nil {
			t.Fatal(err)
		}
	}
	kept, last := place{cluster: "u", kept: true}, place{cluster: "u"}
	p.retire(kept, p.clients[kept].client)
	if len(p.rooms) != 1 {
		t.Error("the room went with the client of the clean-up, and the other still uses it")
	}
	p.retire(last, p.clients[last].client)
	if len(p.rooms) != 0 {
		t.Error("the room outlives the last client")
	}
}
