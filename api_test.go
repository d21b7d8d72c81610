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
	for _, folder := range public() {
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

// public lists the folders of packages that others import.
func public() []string {
	folders := []string{"dispatch", "migrate", "traces", "ui"}
	for _, library := range libraries {
		folders = append(folders, strings.TrimPrefix(library, program+"/"))
	}
	return folders
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
		packages[name] = append(packages[name], declarations(t, files, file, func(string) bool { return true })...)
		packages[name] = append(packages[name], behind(t, file)...)
		return nil
	}))
	var all strings.Builder
	for _, name := range slices.Sorted(maps.Keys(packages)) {
		slices.Sort(packages[name])
		all.WriteString("package " + name + "\n" + strings.Join(packages[name], "\n") + "\n\n")
	}
	return all.String()
}

// declarations prints what a file declares, without bodies. The names of types, and of the receivers of methods, are
// those that wanted takes.
func declarations(t *testing.T, files *token.FileSet, file *ast.File, wanted func(name string) bool) (texts []string) {
	t.Helper()
	for _, declared := range file.Decls {
		if function, ok := declared.(*ast.FuncDecl); ok {
			receiver := receiverOf(function)
			if receiver != "" && (!ast.IsExported(receiver) || !wanted(receiver)) || receiver == "" && !wanted(function.Name.Name) {
				continue
			}
			function.Body = nil
		}
		if general, ok := declared.(*ast.GenDecl); ok {
			general.Specs = slices.DeleteFunc(general.Specs, func(spec ast.Spec) bool {
				named, ok := spec.(*ast.TypeSpec)
				return ok && !wanted(named.Name.Name)
			})
			if len(general.Specs) == 0 || general.Tok != token.TYPE && !wanted("") {
				continue
			}
		}
		var text bytes.Buffer
		require.NoError(t, format.Node(&text, files, declared))
		// Where a comment was, an empty line is left.
		texts = append(texts, strings.ReplaceAll(text.String(), "\n\n", "\n"))
	}
	return texts
}

// behind prints the types of internal packages that a file gives public names to, with their methods.
func behind(t *testing.T, file *ast.File) (texts []string) {
	t.Helper()
	folders := map[string]string{}
	for _, spec := range file.Imports {
		if folder, internal := strings.CutPrefix(strings.Trim(spec.Path.Value, `"`), program+"/internal/"); internal {
			folders[path.Base(folder)] = filepath.Join("internal", folder)
		}
	}
	names := map[string]map[string]bool{}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.TypeSpec)
		if !ok || !spec.Assign.IsValid() {
			return true
		}
		if target, ok := spec.Type.(*ast.SelectorExpr); ok && folders[target.X.(*ast.Ident).Name] != "" {
			folder := folders[target.X.(*ast.Ident).Name]
			if names[folder] == nil {
				names[folder] = map[string]bool{}
			}
			names[folder][target.Sel.Name] = true
		}
		return true
	})
	for folder, wanted := range names {
		sources, err := filepath.Glob(filepath.Join(folder, "*.go"))
		require.NoError(t, err)
		for _, source := range sources {
			files := token.NewFileSet()
			parsed, err := parser.ParseFile(files, source, nil, parser.SkipObjectResolution)
			require.NoError(t, err)
			if strings.HasSuffix(source, "_test.go") || !ast.FileExports(parsed) {
				continue
			}
			for _, text := range declarations(t, files, parsed, func(name string) bool { return wanted[name] }) {
				texts = append(texts, "internal: "+text)
			}
		}
	}
	return texts
}

// receiverOf is the name of the type that a function is a method of.
func receiverOf(function *ast.FuncDecl) string {
	if function.Recv == nil {
		return ""
	}
	receiver := function.Recv.List[0].Type
	if pointer, ok := receiver.(*ast.StarExpr); ok {
		receiver = pointer.X
	}
	switch generic := receiver.(type) {
	case *ast.IndexExpr:
		receiver = generic.X
	case *ast.IndexListExpr:
		receiver = generic.X
	}
	if name, ok := receiver.(*ast.Ident); ok {
		return name.Name
	}
	return ""
}

// The Go blocks of the documentation use names that exist.
func TestTheDocumentationUsesExportedNames(t *testing.T) {
	t.Parallel()
	names := regexp.MustCompile(`\b(emit|packfinderz|wire|consume|catalogue|dispatch|dispatchtest|migrate)\.([A-Z]\w*)`)
	api := map[string]string{}
	for _, folder := range public() {
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
