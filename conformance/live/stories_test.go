package live

import (
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
)

// TestStories asks the server about the manifests of the script stories, which says what celgate answers: each is
// refused, in the words of the script.
func TestStories(t *testing.T) {
	archive, err := txtar.ParseFile("../../cmd/internal/cli/testdata/script/stories.txtar")
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for _, file := range archive.Files {
		files[file.Name] = string(file.Data)
	}
	put(t, files["definition.yaml"])
	stories := objects(t, files["stories.yaml"])
	for _, story := range stories {
		status := try(t, api, story).Status()
		switch {
		case status == nil:
			t.Errorf("the server takes %v", story)
		case status.Code != 422 || !strings.Contains(files["want.txt"], "denied: "+status.Message+"\n"):
			t.Errorf("%d %s", status.Code, status.Message)
		}
	}
	if len(stories) < 7 {
		t.Errorf("%d stories", len(stories))
	}
}
