package env

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// Ports come from below the range that systems use for outgoing connections: a stopped server's port would
// otherwise be taken by any client before the server is back.
const firstPort, lastPort = 20000, 29999

// nextPort counts the reservations of this program.
var nextPort atomic.Int64

// port is a TCP port on loopback that no other environment of this user takes until it is released or the program ends.
type port struct {
	number int
	lock   *os.File
}

// reservePort finds a free port and reserves it.
func reservePort() (*port, error) {
	dir := filepath.Join(os.TempDir(), fmt.Sprintf("convoy-ports-%d", os.Getuid()))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("reserve a port: %w", err)
	}
	var last error
	// Environments begin to look at different places, and none takes at once what another has just released.
	const count = lastPort - firstPort + 1
	begin := int(nextPort.Add(1)) + os.Getpid()*97
	for i := range count {
		p, err := tryPort(dir, firstPort+(begin+i)%count)
		if err == nil {
			return p, nil
		}
		last = err
	}
	return nil, fmt.Errorf("no free port between %d and %d: %w", firstPort, lastPort, last)
}

func tryPort(dir string, number int) (*port, error) {
	lock, err := os.OpenFile(filepath.Join(dir, strconv.Itoa(number)), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	listener, err := listen(number)
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	if err := listener.Close(); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return &port{number: number, lock: lock}, nil
}

// listen accepts connections on a reserved port. Whatever program is just being started has, until it runs, a copy of the
// listener that tried the port, so the port may be in use for another moment.
func (p *port) listen() (listener net.Listener, err error) {
	_ = wait.ExponentialBackoff(wait.Backoff{Duration: 10 * time.Millisecond, Factor: 1, Steps: 500}, func() (bool, error) {
		listener, err = listen(p.number)
		return !errors.Is(err, syscall.EADDRINUSE), nil
	}) // what it ended with is in err
	return listener, err
}

// reservePorts reserves n ports.
func reservePorts(n int) ([]*port, error) {
	ports := make([]*port, 0, n)
	for range n {
		p, err := reservePort()
		if err != nil {
			releasePorts(ports)
			return nil, err
		}
		ports = append(ports, p)
	}
	return ports, nil
}

func releasePorts(ports []*port) {
	for _, p := range ports {
		_ = p.lock.Close()
	}
}

// listen accepts connections on a loopback port.
func listen(port int) (net.Listener, error) {
	return net.Listen("tcp", loopback(port)) //nolint:noctx // to bind a loopback port does not wait
}

func loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// FreeAddress is a loopback address for a program that the caller runs beside the environment. No environment of this
// user takes its port until the calling program ends.
func FreeAddress() (string, error) {
	p, err := reservePort()
	if err != nil {
		return "", err
	}
	return loopback(p.number), nil
}
