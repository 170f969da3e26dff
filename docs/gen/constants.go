package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"strconv"
	"strings"
)

// group is one const block: its comment, and a row for each constant.
type group struct {
	title, text string
	rows        [][]string
}

// readConstants reads the const blocks of a Go file, in the order of the file. Each block and each constant must
// have a comment: the page is made of them.
func readConstants(path string) ([]group, error) {
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
	if err != nil {
		return nil, err
	}
	var groups []group
	for _, d := range file.Decls {
		block, ok := d.(*ast.GenDecl)
		if !ok || block.Tok != token.CONST {
			continue
		}
		g, err := readBlock(block)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		groups = append(groups, g)
	}
	return groups, nil
}

func readBlock(block *ast.GenDecl) (group, error) {
	if block.Doc == nil {
		return group{}, errors.New("a const block has no comment")
	}
	title, text, _ := strings.Cut(oneLineRaw(block.Doc.Text()), ".")
	g := group{title: title, text: strings.TrimSpace(text)}
	for _, s := range block.Specs {
		spec, ok := s.(*ast.ValueSpec)
		if !ok {
			continue
		}
		row, err := readConstant(spec)
		if err != nil {
			return group{}, err
		}
		g.rows = append(g.rows, row)
	}
	return g, nil
}

// readConstant gives value, name and comment of a constant. The comment loses the constant's name, which Go
// wants at its beginning.
func readConstant(spec *ast.ValueSpec) ([]string, error) {
	name := spec.Names[0].Name
	if spec.Doc == nil {
		return nil, fmt.Errorf("%s has no comment", name)
	}
	if len(spec.Values) != 1 {
		return nil, fmt.Errorf("%s is not one constant with one value", name)
	}
	literal, ok := spec.Values[0].(*ast.BasicLit)
	if !ok {
		return nil, fmt.Errorf("%s is not a plain string", name)
	}
	value, err := strconv.Unquote(literal.Value)
	if err != nil {
		return nil, fmt.Errorf("%s is not a plain string", name)
	}
	text := strings.TrimPrefix(oneLineRaw(spec.Doc.Text()), name)
	text = strings.TrimSpace(strings.TrimPrefix(text, ":"))
	if text == "" {
		return nil, fmt.Errorf("the comment of %s says nothing", name)
	}
	return []string{code(value), oneLine(strings.ToUpper(text[:1]) + text[1:]), code(name)}, nil
}

func (g *group) write(w io.Writer) {
	fmt.Fprintf(w, "### %s\n\n", g.title)
	if g.text != "" {
		fmt.Fprintf(w, "%s\n\n", g.text)
	}
	table(w, []string{"Value", "Meaning", "Constant"}, g.rows)
}
