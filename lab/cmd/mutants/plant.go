package main

import (
	"cmp"
	"errors"
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// edit replaces a text that must be exactly once in a declaration, wherever that stands: a function, method, constant,
// variable or type of a package ("internal/dispatch Dispatcher.send"), or a function of the schema as the migrations
// leave it ("migrations outbox_replay").
type edit struct{ in, old, new string }

// addition is a file that a package gets.
type addition struct{ dir, source string }

const additionFile = "planted.go"

// sources are the texts of files that differ from the repository's, by path.
type sources map[string]string

// tags are those of the programs that are tortured.
const tags = "failpoints"

// plant returns the sources that have the bug. Code that has moved on is an error, never a mutant without a bug.
func (m mutant) plant(root string) (sources, error) {
	planted := sources{}
	for _, a := range m.adds {
		planted[filepath.Join(root, a.dir, additionFile)] = a.source
	}
	for _, e := range m.edits {
		if err := planted.apply(root, e); err != nil {
			return nil, fmt.Errorf("%s: %s: %w; let the mutant follow the code", m.name, e.in, err)
		}
	}
	return planted, nil
}

func (s sources) apply(root string, e edit) error {
	dir, name, _ := strings.Cut(e.in, " ")
	find := s.declaration
	if dir == "migrations" {
		find = s.function
	}
	at, err := find(filepath.Join(root, dir), name)
	if err != nil {
		return err
	}
	if n := strings.Count(at.text[at.begin:at.end], e.old); n != 1 {
		return fmt.Errorf("%d times in it: %s", n, e.old)
	}
	s[at.path] = at.text[:at.begin] + strings.Replace(at.text[at.begin:at.end], e.old, e.new, 1) + at.text[at.end:]
	return nil
}

// place is a part of a file.
type place struct {
	path, text string
	begin, end int
}

// read returns a file's text as the edits so far have left it.
func (s sources) read(path string) (string, error) {
	if text, edited := s[path]; edited {
		return text, nil
	}
	text, err := os.ReadFile(path)
	return string(text), err
}

// declaration finds a declaration of a package.
func (s sources) declaration(dir, name string) (place, error) {
	files, err := goFiles(dir)
	if err != nil {
		return place{}, err
	}
	for _, path := range files {
		text, err := s.read(path)
		if err != nil {
			return place{}, err
		}
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, path, text, parser.SkipObjectResolution)
		if err != nil {
			return place{}, err
		}
		if node := declared(file, name); node != nil {
			return place{path, text, fset.Position(node.Pos()).Offset, fset.Position(node.End()).Offset}, nil
		}
	}
	return place{}, fmt.Errorf("no such declaration in %s", dir)
}

// goFiles lists the files of a package that are built into the programs.
func goFiles(dir string) ([]string, error) {
	ctx := build.Default
	ctx.BuildTags = []string{tags}
	pkg, err := ctx.ImportDir(dir, 0)
	if err != nil {
		return nil, err
	}
	paths := make([]string, len(pkg.GoFiles))
	for i, name := range pkg.GoFiles {
		paths[i] = filepath.Join(dir, name)
	}
	return paths, nil
}

func declared(file *ast.File, name string) ast.Node {
	for _, decl := range file.Decls {
		switch decl := decl.(type) {
		case *ast.FuncDecl:
			if receiver(decl)+decl.Name.Name == name {
				return decl
			}
		case *ast.GenDecl:
			for _, spec := range decl.Specs {
				if named(spec, name) {
					return spec
				}
			}
		}
	}
	return nil
}

// receiver is what stands before a method's name.
func receiver(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return ""
	}
	of := f.Recv.List[0].Type
	if pointer, ok := of.(*ast.StarExpr); ok {
		of = pointer.X
	}
	if id, ok := of.(*ast.Ident); ok {
		return id.Name + "."
	}
	return "?."
}

func named(spec ast.Spec, name string) bool {
	switch spec := spec.(type) {
	case *ast.TypeSpec:
		return spec.Name.Name == name
	case *ast.ValueSpec:
		return slices.ContainsFunc(spec.Names, func(id *ast.Ident) bool { return id.Name == name })
	}
	return false
}

// function finds a function of the schema in the last migration that creates it: what an earlier one says is history.
func (s sources) function(dir, name string) (place, error) {
	create := regexp.MustCompile(`(?i)CREATE\s+(OR\s+REPLACE\s+)?FUNCTION\s+` + regexp.QuoteMeta(name) + `\s*\([^$]*(\$\w*\$)`)
	files, err := filepath.Glob(filepath.Join(dir, "*.sql"))
	if err != nil {
		return place{}, err
	}
	slices.SortFunc(files, func(a, b string) int { return cmp.Compare(b, a) })
	for _, path := range files {
		text, err := s.read(path)
		if err != nil {
			return place{}, err
		}
		up, _, _ := strings.Cut(text, "-- +goose Down")
		if m := create.FindStringSubmatchIndex(up); m != nil {
			quote := up[m[4]:m[5]]
			return place{path, text, m[0], m[1] + strings.Index(up[m[1]:], quote)}, nil
		}
	}
	return place{}, errors.New("no migration creates that function")
}
