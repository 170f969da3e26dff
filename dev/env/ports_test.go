package env

import (
	"testing"
	"time"
)

func TestAReservedPortIsListenedAtOnceItsTrialIsOver(t *testing.T) {
	p, err := reservePort()
	if err != nil {
		t.Fatal(err)
	}
	defer releasePorts([]*port{p})
	trial, err := listen(p.number) // as a program that is being started holds it
	if err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(50*time.Millisecond, func() { _ = trial.Close() })
	l, err := p.listen()
	if err != nil {
		t.Fatal(err)
	}
	_ = l.Close()
}
