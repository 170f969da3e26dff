package main

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

// printer writes lines that begin with the time since the demo began. It is safe for concurrent use.
type printer struct {
	began time.Time

	mu      sync.Mutex
	w       io.Writer
	partial []byte // of a line that Write has not seen the end of
}

// line says what is done now.
func (p *printer) line(format string, args ...any) { p.write("", format, args) }

// detail says more about the line before.
func (p *printer) detail(format string, args ...any) { p.write("   ", format, args) }

func (p *printer) write(indent, format string, args []any) {
	stamp := fmt.Sprintf("%6.1f s  %s", time.Since(p.began).Seconds(), indent)
	more := strings.Repeat(" ", len(stamp))
	text := strings.ReplaceAll(strings.TrimRight(fmt.Sprintf(format, args...), "\n"), "\n", "\n"+more)
	p.mu.Lock()
	defer p.mu.Unlock()
	fmt.Fprintf(p.w, "%s%s\n", stamp, text)
}

// text writes lines without the time.
func (p *printer) text(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	fmt.Fprintln(p.w, strings.TrimRight(text, "\n"))
}

// Write makes a detail of each whole line.
func (p *printer) Write(b []byte) (int, error) {
	p.mu.Lock()
	p.partial = append(p.partial, b...)
	end := bytes.LastIndexByte(p.partial, '\n')
	whole := string(p.partial[:end+1])
	p.partial = p.partial[end+1:]
	p.mu.Unlock()
	for line := range strings.Lines(whole) {
		p.detail("%s", line)
	}
	return len(b), nil
}
