package main

import (
	"errors"
	"fmt"
	"net"
	"sync"
)

// doorHost is where doors are. Nothing connects from this address, so no connection takes a port that is free for now.
const doorHost = "127.0.0.2"

// freeAddress is an address that nobody listens on.
func freeAddress() (string, error) {
	l, err := net.Listen("tcp", doorHost+":0") //nolint:noctx // to bind a loopback port does not wait
	if err != nil {
		return "", fmt.Errorf("find a free port: %w", err)
	}
	return l.Addr().String(), l.Close()
}

// way is what a door does with those who come.
type way int

const (
	refuse  way = iota // nobody listens
	hang               // connections stay open, and nothing answers on them
	forward            // connections lead to the API server
)

// door is an address of an API server that can be made to look dead, and alive again.
type door struct {
	address string
	to      string

	mu       sync.Mutex
	way      way
	listener net.Listener // nil when nobody listens
	conns    map[net.Conn]struct{}
}

// newDoor makes a door that hangs. It listens from the beginning, so that no other door gets the same port.
func newDoor(to string) (*door, error) {
	d := &door{address: doorHost + ":0", to: to, conns: map[net.Conn]struct{}{}}
	if err := d.turn(hang); err != nil {
		return nil, err
	}
	d.address = d.listener.Addr().String()
	return d, nil
}

// turn changes what the door does. Open connections are cut, but for those that begin to hang.
func (d *door) turn(to way) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.way = to
	if to != hang {
		for c := range d.conns {
			_ = c.Close() // it is given up
		}
		clear(d.conns)
	}
	if to == refuse && d.listener != nil {
		err := d.listener.Close()
		d.listener = nil
		return err
	}
	if to == refuse || d.listener != nil {
		return nil
	}
	l, err := net.Listen("tcp", d.address) //nolint:noctx // to bind a loopback port does not wait
	if err != nil {
		return fmt.Errorf("open a door: %w", err)
	}
	d.listener = l
	go d.accept(l)
	return nil
}

// accept lets in whoever comes, until the listener is closed.
func (d *door) accept(l net.Listener) {
	for {
		from, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err == nil {
			go d.serve(from)
		}
	}
}

// serve serves one connection until one of its ends closes it. One that begins with hanging has no other end.
func (d *door) serve(from net.Conn) {
	defer d.close(from)
	if !d.hold(from) {
		return
	}
	if d.is(hang) {
		d.carry(nil, from)
		return
	}
	to, err := net.Dial("tcp", d.to) //nolint:noctx // loopback: it is taken or refused at once
	if err != nil {
		return
	}
	defer d.close(to)
	if !d.hold(to) {
		return
	}
	go func() {
		defer d.close(from)
		d.carry(from, to)
	}()
	d.carry(to, from)
}

// carry carries bytes while the door forwards, and drops them while it hangs, until the connection ends.
func (d *door) carry(to, from net.Conn) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 && to != nil && d.is(forward) {
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

func (d *door) is(w way) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.way == w
}

// hold keeps a connection for turn to cut, and reports false when it came too late.
func (d *door) hold(c net.Conn) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.way != refuse {
		d.conns[c] = struct{}{}
	}
	return d.way != refuse
}

func (d *door) close(c net.Conn) {
	_ = c.Close() // whoever was first has closed it
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.conns, c)
}
