package docs

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

var (
	links  = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	titles = regexp.MustCompile(`(?m)^#{1,6} (.+)$`)
	dashed = regexp.MustCompile(`[^\p{L}\p{N}\- _]`)
)

// linksOf are the links of a page that lead to files.
func linksOf(text string) []string {
	var found []string
	for _, match := range links.FindAllStringSubmatch(withoutBlocks(text), -1) {
		if !strings.Contains(match[1], "://") {
			found = append(found, match[1])
		}
	}
	return found
}

// withoutBlocks is a page without its fenced blocks.
func withoutBlocks(text string) string {
	var kept []string
	inside := false
	for line := range strings.Lines(text) {
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			inside = !inside
			continue
		}
		if !inside {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, "")
}

// anchors are what the titles of a page are called in links.
func anchors(text string) []string {
	var all []string
	for _, match := range titles.FindAllStringSubmatch(withoutBlocks(text), -1) {
		all = append(all, strings.ReplaceAll(dashed.ReplaceAllString(strings.ToLower(match[1]), ""), " ", "-"))
	}
	return all
}

// follow says where a link of a page leads to nothing.
func follow(root, page, link string) error {
	path, anchor, _ := strings.Cut(link, "#")
	target := filepath.Join(root, filepath.Dir(page), path)
	if path == "" {
		target = filepath.Join(root, page)
	}
	if _, err := os.Stat(target); err != nil {
		return fmt.Errorf("the link %s leads to no file", link)
	}
	if anchor == "" {
		return nil
	}
	text, err := os.ReadFile(target)
	if err != nil {
		return err
	}
	if !slices.Contains(anchors(string(text)), anchor) {
		return fmt.Errorf("the link %s leads to no title", link)
	}
	return nil
}
