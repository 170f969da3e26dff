package render

import (
	"text/template"
	"text/template/parse"
)

// stepFunction is called at each turn of a loop. No chart calls it by name: it is added to the parsed template.
const stepFunction = "convoyStep"

// guard prepares what was parsed into a set: loops count their turns, and {{template}} becomes a call of include, which
// counts the depth.
func (t *templates) guard(set *template.Template) error {
	for _, tmpl := range set.Templates() {
		if tmpl.Tree == nil || tmpl.Root == nil || t.bounded[tmpl.Tree] {
			continue
		}
		t.bounded[tmpl.Tree] = true
		if err := guardList(tmpl.Root, 0); err != nil {
			return err
		}
	}
	return nil
}

func guardList(list *parse.ListNode, depth int) error {
	if list == nil {
		return nil
	}
	if depth > maxBlocks {
		return boundError("blocks of a template are nested too deeply")
	}
	for i, node := range list.Nodes {
		var err error
		switch n := node.(type) {
		case *parse.IfNode:
			err = guardBranch(&n.BranchNode, depth)
		case *parse.WithNode:
			err = guardBranch(&n.BranchNode, depth)
		case *parse.RangeNode:
			if err = guardBranch(&n.BranchNode, depth); err == nil {
				count := call(n.Pos, n.Line, parse.NewIdentifier(stepFunction).SetPos(n.Pos))
				n.List.Nodes = append([]parse.Node{count}, n.List.Nodes...)
			}
		case *parse.TemplateNode:
			list.Nodes[i] = included(n)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func guardBranch(b *parse.BranchNode, depth int) error {
	if err := guardList(b.List, depth+1); err != nil {
		return err
	}
	return guardList(b.ElseList, depth+1)
}

// included is {{include "name" dot}} in the place of {{template "name" dot}}; both write the same.
func included(n *parse.TemplateNode) parse.Node {
	var dot parse.Node = &parse.NilNode{NodeType: parse.NodeNil, Pos: n.Pos}
	if n.Pipe != nil {
		dot = n.Pipe
	}
	name := &parse.StringNode{NodeType: parse.NodeString, Pos: n.Pos, Quoted: n.Name, Text: n.Name}
	return call(n.Pos, n.Line, parse.NewIdentifier("include").SetPos(n.Pos), name, dot)
}

// call is {{function args}}.
func call(pos parse.Pos, line int, args ...parse.Node) parse.Node {
	command := &parse.CommandNode{NodeType: parse.NodeCommand, Pos: pos, Args: args}
	pipe := &parse.PipeNode{NodeType: parse.NodePipe, Pos: pos, Line: line, Cmds: []*parse.CommandNode{command}}
	return &parse.ActionNode{NodeType: parse.NodeAction, Pos: pos, Line: line, Pipe: pipe}
}
