// Command site makes the documentation of the repository into static pages in bin/site, with hugo, and fails on a
// page without a place in nav.yaml and on a dead link:
//
//	go -C tools run ./site
//
// The pages are the Markdown files of the repository as they are: links between files become links between pages, and
// links to other files lead to the repository. The playground is on the site if it has been built.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

const (
	hugo = "github.com/gohugoio/hugo@v0.165.0"

	home       = "https://github.com/celgate/celgate"
	repository = home + "/blob/main"
)

func main() {
	out := flag.String("out", "../bin/site", "the `folder` to write")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, "..", *out); err != nil {
		fmt.Fprintln(os.Stderr, "site:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, root, out string) error {
	sections, err := arrange(root)
	if err != nil {
		return err
	}
	source, err := os.MkdirTemp("", "celgate-site-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(source)
	if err := write(root, source, sections); err != nil {
		return err
	}
	if out, err = filepath.Abs(out); err != nil {
		return err
	}
	if err := os.RemoveAll(out); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "go", "run", hugo, "--source", source, "--destination", out, "--logLevel", "warn",
		"--panicOnWarning", "--noBuildLock")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=")
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("hugo: %w\n%s", err, text)
	}
	if page := filepath.Join(root, playground); exists(page) {
		if err := os.CopyFS(filepath.Join(out, "playground"), os.DirFS(page)); err != nil {
			return err
		}
	}
	links, err := check(root, out)
	if err != nil {
		return err
	}
	pages := 0
	for _, s := range sections {
		pages += len(s.Pages)
	}
	fmt.Printf("%s: %d pages, %d links\n", out, pages, links)
	return nil
}

// playground is the folder of its built page.
const playground = "bin/playground"

// A section is a group of pages in the navigation.
type section struct {
	Title string `json:"title"`
	Pages []page `json:"pages"`
}

// A page is a Markdown file of the repository.
type page struct {
	Source string `json:"source"` // its path
	Title  string `json:"title"`
	URL    string `json:"url"` // below the root of the site, with slashes at both ends
	body   string // without the title
}

// arrange reads all pages in the order of nav.yaml.
func arrange(root string) ([]section, error) {
	text, err := os.ReadFile(filepath.Join(root, "tools/site/nav.yaml"))
	if err != nil {
		return nil, err
	}
	var plan []struct {
		Title, Folder string
		Pages         []string
	}
	if err := yaml.UnmarshalStrict(text, &plan); err != nil {
		return nil, fmt.Errorf("nav.yaml: %w", err)
	}
	left, err := sources(root)
	if err != nil {
		return nil, err
	}
	var sections []section
	for _, p := range plan {
		s := section{Title: p.Title}
		for _, source := range slices.Clone(left) {
			if p.Folder != "" && strings.HasPrefix(source, p.Folder+"/") {
				p.Pages = append(p.Pages, source)
			}
		}
		for _, source := range p.Pages {
			at := slices.Index(left, source)
			if at < 0 {
				return nil, fmt.Errorf("nav.yaml: %s is not a page, or has two places", source)
			}
			left = slices.Delete(left, at, at+1)
			page, err := readPage(root, source)
			if err != nil {
				return nil, err
			}
			s.Pages = append(s.Pages, page)
		}
		if len(s.Pages) > 0 {
			sections = append(sections, s)
		}
	}
	if len(left) > 0 {
		return nil, fmt.Errorf("nav.yaml has no place for %s", strings.Join(left, ", "))
	}
	return sections, nil
}

// sources returns the paths of the files that are pages, a folder's README before the others.
func sources(root string) ([]string, error) {
	all, err := filepath.Glob(filepath.Join(root, "*.md"))
	if err != nil {
		return nil, err
	}
	for _, folder := range []string{"docs", "examples", "recipes"} {
		err := filepath.WalkDir(filepath.Join(root, folder), func(file string, _ fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			if strings.HasSuffix(file, ".md") {
				all = append(all, file)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	for i := range all {
		if all[i], err = filepath.Rel(root, all[i]); err != nil {
			return nil, err
		}
		all[i] = filepath.ToSlash(all[i])
	}
	slices.SortFunc(all, func(a, b string) int { return strings.Compare(urlOf(a), urlOf(b)) })
	return all, nil
}

// urlOf is the URL of a page: its path without the ending, and without the name README.
func urlOf(source string) string {
	name := strings.TrimSuffix(source, ".md")
	if name = strings.TrimSuffix(name, "README"); name == "" {
		return "/"
	}
	return "/" + strings.TrimSuffix(strings.ToLower(name), "/") + "/"
}

var (
	heading = regexp.MustCompile(`\A(?:---\n(?s:.*?)\n---\n)?(?:<!--(?s:.*?)-->\s*)*# (.+)\n`) // after front matter
	fence   = regexp.MustCompile("(?m)^```(\\w+) ([^\n{}`]+)$")                                // with the name of a file
	plain   = strings.NewReplacer("`", "", "*", "")
)

func readPage(root, source string) (page, error) {
	text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(source)))
	if err != nil {
		return page{}, err
	}
	title := heading.FindSubmatch(text)
	if title == nil {
		return page{}, fmt.Errorf("%s does not begin with a title", source)
	}
	body := fence.ReplaceAll(text[len(title[0]):], []byte("```$1 {title=\"$2\"}"))
	return page{source, plain.Replace(string(title[1])), urlOf(source), string(body)}, nil
}

// write makes the folder that hugo reads.
func write(root, folder string, sections []section) error {
	own := filepath.Join(root, "tools", "site")
	for to, from := range map[string]string{"layouts": "layouts", "static": "assets"} {
		if err := os.CopyFS(filepath.Join(folder, to), os.DirFS(filepath.Join(own, from))); err != nil {
			return err
		}
	}
	config, err := os.ReadFile(filepath.Join(own, "hugo.yaml"))
	if err != nil {
		return err
	}
	urls := map[string]string{}
	type entry struct {
		section
		Paths []string `json:"paths"`
	}
	var nav []entry
	files := map[string]any{"hugo.yaml": config}
	for _, s := range sections {
		e := entry{section: s}
		for _, p := range s.Pages {
			urls[p.Source], e.Paths = p.URL, append(e.Paths, p.URL)
			if base, ok := strings.CutSuffix(p.Source, "README.md"); ok {
				urls[path.Clean(base)] = p.URL
			}
			files[filepath.Join("content", contentOf(p.Source))] = p
		}
		nav = append(nav, e)
	}
	about := map[string]string{"repository": repository, "home": home}
	if exists(filepath.Join(root, playground)) {
		about["playground"] = "/playground/"
	}
	files["data/pages.json"], files["data/nav.json"], files["data/site.json"] = urls, nav, about
	for name, content := range files {
		var text []byte
		switch content := content.(type) {
		case []byte:
			text = content
		case page:
			head, err := json.Marshal(map[string]string{"title": content.Title, "url": content.URL, "source": content.Source})
			if err != nil {
				return err
			}
			text = append(append(head, "\n\n"...), content.body...)
		default:
			if text, err = json.Marshal(content); err != nil {
				return err
			}
		}
		file := filepath.Join(folder, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(file, text, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// contentOf is the path of a page for hugo, to which a README is a page like others, and that of the root its home.
func contentOf(source string) string {
	if source == "README.md" {
		return "_index.md"
	}
	return strings.ToLower(source)
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

// check reports links of the site to pages, parts of pages and files of the repository that do not exist. It returns
// the number of links that it has followed.
func check(root, out string) (int, error) {
	pages, err := readSite(out)
	if err != nil {
		return 0, err
	}
	links := 0
	var dead []error
	for name, p := range pages {
		for _, link := range p.links {
			if file, ok := strings.CutPrefix(link, repository+"/"); ok {
				file, _, _ = strings.Cut(file, "#")
				if !exists(filepath.Join(root, filepath.FromSlash(file))) {
					dead = append(dead, fmt.Errorf("%s links to %s, which is not in the repository", name, file))
				}
				links++
				continue
			}
			if strings.Contains(link, ":") {
				continue // another site
			}
			links++
			to, fragment, _ := strings.Cut(link, "#")
			target := name
			if to != "" {
				if target = path.Join(path.Dir(name), to); strings.HasSuffix(to, "/") || to == "." || to == ".." {
					target = path.Join(target, "index.html")
				}
			}
			at, known := pages[target]
			switch {
			case !known && !exists(filepath.Join(out, filepath.FromSlash(target))):
				dead = append(dead, fmt.Errorf("%s links to %s, which does not exist", name, link))
			case known && fragment != "" && !at.ids[fragment]:
				dead = append(dead, fmt.Errorf("%s links to %s, and %s has no such part", name, link, target))
			}
		}
	}
	slices.SortFunc(dead, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return links, errors.Join(dead...)
}
