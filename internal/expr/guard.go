package expr

import (
	"fmt"
	"slices"
	"text/template"
	"text/template/parse"
)

// forbidden are built-in functions that a template must not call: call runs values, the others only suit other
// kinds of output, and grow text faster than their bounds could be checked.
var forbidden = []string{"call", "html", "js", "urlquery", "print", "println"}

// stepFunc is the function that every turn of a range calls.
const stepFunc = "_step"

// guard refuses what cannot be bounded (templates that call templates), and makes every range count its turns:
// without that, nested ranges that print nothing run for ever.
func guard(t *template.Template, funcs template.FuncMap) error {
	if t.Tree == nil || t.Tree.Root == nil {
		return nil
	}
	if len(t.Templates()) > 1 {
		return fmt.Errorf("define, block and template are not available")
	}
	step := template.Must(template.New("t").Funcs(funcs).Parse("{{" + stepFunc + "}}")).Tree.Root.Nodes[0]
	return guardNode(t.Tree.Root, step)
}

func guardNode(n parse.Node, step parse.Node) error {
	switch n := n.(type) {
	case *parse.ListNode:
		return guardList(n, step)
	case *parse.ActionNode:
		return guardPipe(n.Pipe)
	case *parse.IfNode:
		return guardBranch(&n.BranchNode, step)
	case *parse.WithNode:
		return guardBranch(&n.BranchNode, step)
	case *parse.RangeNode:
		if err := guardBranch(&n.BranchNode, step); err != nil {
			return err
		}
		n.List.Nodes = slices.Insert(n.List.Nodes, 0, step)
	case *parse.TemplateNode:
		return fmt.Errorf("define, block and template are not available")
	}
	return nil
}

func guardList(l *parse.ListNode, step parse.Node) error {
	if l == nil {
		return nil
	}
	for _, n := range l.Nodes {
		if err := guardNode(n, step); err != nil {
			return err
		}
	}
	return nil
}

func guardBranch(b *parse.BranchNode, step parse.Node) error {
	if err := guardPipe(b.Pipe); err != nil {
		return err
	}
	if err := guardList(b.List, step); err != nil {
		return err
	}
	return guardList(b.ElseList, step)
}

func guardPipe(p *parse.PipeNode) error {
	if p == nil {
		return nil
	}
	for _, c := range p.Cmds {
		for _, arg := range c.Args {
			if err := guardArg(arg); err != nil {
				return err
			}
		}
	}
	return nil
}

func guardArg(arg parse.Node) error {
	switch arg := arg.(type) {
	case *parse.IdentifierNode:
		if slices.Contains(forbidden, arg.Ident) {
			return fmt.Errorf("the function %s is not available", arg.Ident)
		}
	case *parse.PipeNode:
		return guardPipe(arg)
	case *parse.ChainNode:
		return guardArg(arg.Node)
	}
	return nil
}
