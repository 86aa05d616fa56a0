package report

import (
	"fmt"
	"io"
	"strings"

	"github.com/celgate/celgate/cmd/internal/check"
)

var (
	githubProperty = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C")
	githubMessage  = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A")
)

// writeGitHub writes the workflow commands that make GitHub annotate files. Ignored findings are left out.
func writeGitHub(w io.Writer, all ...finding) error {
	for _, f := range all {
		if f.ignored != "" {
			continue
		}
		command := string(f.level)
		if f.level == check.Note {
			command = "notice"
		}
		var place string
		if f.place.File != "" {
			place = "file=" + githubProperty.Replace(f.place.File) + ","
		}
		if f.place.IsValid() {
			place += fmt.Sprintf("line=%d,col=%d,", f.place.Line, max(f.place.Column, 1))
		}
		_, err := fmt.Fprintf(w, "::%s %stitle=%s::%s\n", command, place, githubProperty.Replace(f.title),
			githubMessage.Replace(f.message))
		if err != nil {
			return err
		}
	}
	return nil
}
