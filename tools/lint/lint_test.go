package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Each linter finds the mistake that is planted for it, marked on its line, and nothing else is found.
func TestPlantedMistakesAreFound(t *testing.T) {
	folder, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"go.mod": "module example.com/planted\n\ngo 1.26.0\n",
		"sub/sub.go": `package sub

import "log"

// Old is old.
//
// Deprecated: use New.
func Old() {}

func New(why string) { log.Fatal(why) }

func Logf(format string, args ...any) { log.Printf(format, args...) }
`,
		"planted.go": `package planted

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"example.com/planted/sub"
)

func Planted(r io.Reader, at *time.Time) error {
	fmt.Printf("%d", "text")            // want printf staticcheck
	sub.Logf("%d", "text")              // want printf
	sub.Old()                           // want staticcheck
	http.Get("http://example.com")      // want errcheck bodyclose
	strings.ToLower("A")                // want staticcheck
	wait := time.Duration(2)
	time.Sleep(wait * time.Second)      // want durationcheck
	_, err := io.ReadAll(r)
	if err == io.ErrUnexpectedEOF {     // want errorlint
		return fmt.Errorf("Reads: %w", err) // want staticcheck
	}
	len := int(3)                       // want predeclared
	n := int(len)                       // want unconvert
	fmt.Fprintln(os.Stderr, n)
	n = 4                               // want ineffassign
	if err == nil {
		return errors.New("none")
	}
	if at == nil {
		sub.New("no time")
	}
	fmt.Println(at.Year())
	_ = strings.ToLower("A") == strings.ToLower("B") //nolint:staticcheck // it is explained
	_ = 1                                            //nolint:staticcheck // want nolint
	_ = strings.ToLower("A") == strings.ToLower("B") //nolint // want nolint staticcheck
	return nil
}

// Box is used.
type Box struct{ n int }

type idle struct{} // want unused

func Idle(b *Box) {
	if b == nil {
		fmt.Println(b.n) // want nilness
	}
}
`,
		"planted_test.go": `package planted

import (
	"os"
	"testing"
)

func TestPlanted(t *testing.T) {
	helper(t)
	os.Setenv("A", "B") // want usetesting
}

func helper(t *testing.T) { t.Helper() }
`,
	} {
		name = filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("GOWORK", "off")
	findings, err := check(folder, "./...")
	if err != nil {
		t.Fatal(err)
	}
	var got, want []string
	for _, f := range findings {
		got = append(got, fmt.Sprintf("%s:%d %s", filepath.Base(f.at.Filename), f.at.Line, f.linter))
		t.Log(f.at, f.text, f.linter)
	}
	for _, name := range []string{"planted.go", "planted_test.go"} {
		text, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil {
			t.Fatal(err)
		}
		for i, line := range strings.Split(string(text), "\n") {
			_, linters, _ := strings.Cut(line, "// want ")
			for linter := range strings.FieldsSeq(linters) {
				want = append(want, fmt.Sprintf("%s:%d %s", name, i+1, linter))
			}
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if got = slices.Compact(got); !slices.Equal(got, want) {
		t.Errorf("found\n%s\nplanted\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
