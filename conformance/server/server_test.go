package server_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/celgate/celgate/conformance/server"
)

// child makes a process of this test start a server, print its folder and wait to be killed.
const child = "CELGATE_TEST_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(child) == "" {
		os.Exit(m.Run())
	}
	s, err := server.Start(context.Background(), server.Options{})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(s.Folder)
	select {}
}

func TestServer(t *testing.T) {
	s, err := server.Start(t.Context(), server.Options{})
	if err != nil {
		t.Fatal(err)
	}
	get := func(path, user string) *server.Answer {
		t.Helper()
		answer, err := s.Do(t.Context(), server.Call{Method: http.MethodGet, Path: path, User: user})
		if err != nil {
			t.Fatal(err)
		}
		return answer
	}
	var version struct{ Major, Minor string }
	if err := json.Unmarshal(get("/version", "").Body, &version); err != nil ||
		version.Major+"."+version.Minor != "1.37" {
		t.Errorf("version %v, %v", version, err)
	}
	if code := get("/api/v1/secrets", "").Code; code != http.StatusOK {
		t.Errorf("admin: %d", code)
	}
	if status := get("/api/v1/secrets", "nobody").Status(); status == nil ||
		!strings.Contains(status.Message, `User "nobody" cannot list resource "secrets"`) {
		t.Errorf("nobody: %v", status)
	}
	answer := get("/api/v1/namespaces/default/endpoints", "")
	if len(answer.Warnings) != 1 || !strings.HasPrefix(answer.Warnings[0], "v1 Endpoints is deprecated") {
		t.Errorf("warnings %q", answer.Warnings)
	}
	if log, err := os.ReadFile(s.AuditLog); err != nil || !strings.Contains(string(log), answer.AuditID) {
		t.Errorf("the audit log does not hold %s: %v", answer.AuditID, err)
	}
	folder := s.Folder
	if err := s.Stop(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(folder); !os.IsNotExist(err) {
		t.Errorf("%s is left: %v", folder, err)
	}
	if left := processes(t, folder); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// TestKilled kills a process with a running server: nothing may be left running.
func TestKilled(t *testing.T) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), child+"=1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	folder, err := bufio.NewReader(out).ReadString('\n')
	folder = strings.TrimSpace(folder)
	defer os.RemoveAll(folder)
	if err != nil || !filepath.IsAbs(folder) {
		t.Fatalf("%q, %v", folder, err)
	}
	if running := processes(t, folder); len(running) != 2 {
		t.Errorf("running: %v", running)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	for range 100 {
		if len(processes(t, folder)) == 0 {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Errorf("left: %v", processes(t, folder))
}

// processes returns the command lines of running processes that name the folder.
func processes(t *testing.T, folder string) (lines []string) {
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil || len(files) == 0 {
		t.Skip("no /proc")
	}
	for _, file := range files {
		if line, err := os.ReadFile(file); err == nil && strings.Contains(string(line), folder) {
			lines = append(lines, strings.ReplaceAll(string(line), "\x00", " "))
		}
	}
	return lines
}
