package docs

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
)

// kind is what a block of a page is for.
type kind int

const (
	other   kind = iota // shown, and nothing else
	script              // commands of a shell
	console             // commands, each after "$ ", and what they print
	file                // YAML that the page gives the name of a file
	yaml                // other YAML
	hidden              // commands that readers do not see
)

// block is a fenced block or a hidden comment of a page.
type block struct {
	kind kind
	line int // of its first line of text, in the page
	text string
	name string // of a file
	skip string // why it is not run
}

// page is a page of the documentation.
type page struct {
	path   string // from the root of the repository
	blocks []block
	skip   string // why nothing of it is run
}

// alone says whether a page does something to what other pages have: such pages are read one by one, before the others.
func (p page) alone() bool {
	return slices.ContainsFunc(p.blocks, func(b block) bool {
		return b.kind == script && b.skip == "" && strings.Contains(b.text, "--all-namespaces")
	})
}

var (
	fence    = regexp.MustCompile("^( *)(`{3,})(\\w*)\\s*$")
	fileName = regexp.MustCompile(`^# ([\w.-]+\.yaml)$`)
	notRun   = regexp.MustCompile(`^\s*<!-- not run: (.+) -->$`)
)

// readPage reads a page of the repository at root.
func readPage(root, path string) (page, error) {
	text, err := os.ReadFile(root + "/" + path)
	if err != nil {
		return page{}, err
	}
	p, err := parsePage(string(text))
	if err != nil {
		return page{}, fmt.Errorf("%s:%w", path, err)
	}
	p.path = path
	return p, nil
}

// parser goes through the lines of a page.
type parser struct {
	page   page
	lines  []string
	at     int
	reason string // of a comment that nothing has followed yet
}

// parsePage finds the blocks of a page.
func parsePage(text string) (page, error) {
	p := parser{lines: strings.Split(text, "\n")}
	for ; p.at < len(p.lines); p.at++ {
		line := p.lines[p.at]
		var err error
		switch {
		case notRun.MatchString(line):
			p.reason = notRun.FindStringSubmatch(line)[1]
		case strings.TrimSpace(line) == "<!-- run":
			err = p.comment()
		case fence.MatchString(line):
			err = p.fenced(fence.FindStringSubmatch(line))
		case strings.HasPrefix(line, "# "):
			p.page.skip, p.reason = p.reason, ""
		case p.reason != "" && strings.TrimSpace(line) != "":
			err = fmt.Errorf("%d: no block follows the comment %q", p.at, p.reason)
		}
		if err != nil {
			return page{}, err
		}
	}
	if p.reason != "" {
		return page{}, fmt.Errorf("%d: no block follows the comment %q", p.at, p.reason)
	}
	return p.page, nil
}

// comment reads commands that readers do not see.
func (p *parser) comment() error {
	text, line, err := p.until("", func(line string) bool { return line == "-->" })
	if err == nil {
		p.page.blocks = append(p.page.blocks, block{kind: hidden, line: line, text: text})
	}
	return err
}

// fenced reads a fenced block, which may be indented as a part of a list.
func (p *parser) fenced(opening []string) error {
	indent, ticks, language := opening[1], opening[2], opening[3]
	text, line, err := p.until(indent, func(line string) bool { return line == ticks })
	if err != nil {
		return err
	}
	b := block{line: line, text: text, skip: p.reason}
	p.reason = ""
	first, _, _ := strings.Cut(text, "\n")
	switch {
	case language == "sh":
		b.kind = script
	case language == "yaml" && fileName.MatchString(first):
		b.kind, b.name = file, fileName.FindStringSubmatch(first)[1]
	case language == "yaml":
		b.kind = yaml
	case language == "" && strings.HasPrefix(first, "$ "):
		b.kind = console
	}
	p.page.blocks = append(p.page.blocks, b)
	return nil
}

// until takes lines until one that ends the block, without their indentation.
func (p *parser) until(indent string, end func(line string) bool) (text string, first int, err error) {
	first = p.at + 2 // people count from 1
	var taken []string
	for p.at++; p.at < len(p.lines); p.at++ {
		line := strings.TrimPrefix(p.lines[p.at], indent)
		if end(strings.TrimRight(line, " ")) {
			return strings.Join(taken, "\n") + "\n", first, nil
		}
		taken = append(taken, line)
	}
	return "", 0, fmt.Errorf("%d: the block does not end", first-1)
}

// exchange is one command of a console and what the page shows of its output.
type exchange struct {
	command string
	output  []string
}

// exchanges are those of a console.
func (b block) exchanges() []exchange {
	var all []exchange
	for line := range strings.SplitSeq(strings.TrimRight(b.text, "\n"), "\n") {
		if command, ok := strings.CutPrefix(line, "$ "); ok {
			all = append(all, exchange{command: command})
			continue
		}
		last := &all[len(all)-1]
		last.output = append(last.output, line)
	}
	return all
}
