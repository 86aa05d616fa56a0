package main

import (
	"bytes"
	"io/fs"
	"net/url"
	"os"
	"strings"

	"golang.org/x/net/html"
)

// A built page is the information about an HTML file that links need.
type built struct {
	links []string
	ids   map[string]bool
}

// readSite reads the HTML files below a folder, by their paths, except for those of the playground.
func readSite(folder string) (map[string]built, error) {
	pages := map[string]built{}
	files := os.DirFS(folder)
	err := fs.WalkDir(files, ".", func(name string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(name, ".html") || strings.HasPrefix(name, "playground/") {
			return err
		}
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return err
		}
		root, err := html.Parse(bytes.NewReader(text))
		if err != nil {
			return err
		}
		page := built{ids: map[string]bool{}}
		for n := range root.Descendants() {
			for _, a := range n.Attr {
				switch a.Key {
				case "href", "src":
					link, err := url.PathUnescape(a.Val)
					if err != nil {
						return err
					}
					page.links = append(page.links, link)
				case "id":
					page.ids[a.Val] = true
				}
			}
		}
		pages[name] = page
		return nil
	})
	return pages, err
}
