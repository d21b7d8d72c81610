package main_test

import (
	"bytes"
	"flag"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the api.txt of every library again")

// What a library exports is written down, so that no name becomes public, or disappears, by accident.
func TestTheExportedNamesAreTheOnesWrittenDown(t *testing.T) {
	t.Parallel()
	for _, library := range libraries {
		folder := strings.TrimPrefix(library, program+"/")
		t.Run(folder, func(t *testing.T) {
			t.Parallel()
			file, got := filepath.Join(folder, "api.txt"), exported(t, folder)
			if *update {
				require.NoError(t, os.WriteFile(file, []byte(got), 0o600))
			}
			want, err := os.ReadFile(file)
			require.NoError(t, err)
			require.Equal(t, string(want), got, "if that is meant: go test . -run Exported -update")
		})
	}
}

// exported prints the exported declarations of every public package in a folder, without comments and bodies.
func exported(t *testing.T, folder string) string {
	t.Helper()
	packages := map[string][]string{}
	require.NoError(t, filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if entry.IsDir() && entry.Name() == "internal" {
			return fs.SkipDir
		}
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
		if err != nil || !ast.FileExports(file) {
			return err
		}
		name := filepath.ToSlash(filepath.Dir(path))
		for _, declared := range file.Decls {
			if function, ok := declared.(*ast.FuncDecl); ok {
				if !receiverExported(function) {
					continue
				}
				function.Body = nil
			}
			var text bytes.Buffer
			if err := format.Node(&text, files, declared); err != nil {
				return err
			}
			// Where a comment was, an empty line is left.
			packages[name] = append(packages[name], strings.ReplaceAll(text.String(), "\n\n", "\n"))
		}
		return nil
	}))
	var all strings.Builder
	for _, name := range slices.Sorted(maps.Keys(packages)) {
		slices.Sort(packages[name])
		all.WriteString("package " + name + "\n" + strings.Join(packages[name], "\n") + "\n\n")
	}
	return all.String()
}

// receiverExported reports whether a function is no method, or that of an exported type.
func receiverExported(function *ast.FuncDecl) bool {
	if function.Recv == nil {
		return true
	}
	receiver := function.Recv.List[0].Type
	if pointer, ok := receiver.(*ast.StarExpr); ok {
		receiver = pointer.X
	}
	name, ok := receiver.(*ast.Ident)
	return !ok || name.IsExported()
}

// The Go blocks of the documentation use names that exist.
func TestTheDocumentationUsesExportedNames(t *testing.T) {
	t.Parallel()
	names := regexp.MustCompile(`\b(emit|builtin|wire|consume|catalogue)\.([A-Z]\w*)`)
	api := map[string]string{}
	for _, folder := range []string{"emit", "consume", "catalogue"} {
		for part := range strings.SplitSeq(exported(t, folder), "package ") {
			name, declared, _ := strings.Cut(part, "\n")
			api[path.Base(name)] = declared
		}
	}
	docs, err := filepath.Glob("docs/*.md")
	require.NoError(t, err)
	found := 0
	for _, file := range append(docs, "README.md") {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, block := range regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(string(text), -1) {
			for _, name := range names.FindAllStringSubmatch(block[1], -1) {
				require.Regexp(t, `\b`+name[2]+`\b`, api[name[1]], "%s: %s", file, name[0])
				found++
			}
		}
	}
	require.NotZero(t, found)
}
