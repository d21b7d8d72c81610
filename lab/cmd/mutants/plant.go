package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/outboxctl/outboxctl/lab/rig"
)

// edit replaces a text that must be exactly once in a declaration, wherever that stands: a
// function, method, constant, variable or type of a package ("internal/dispatch Dispatcher.send"),
// or a function of the schema as the migrations leave it ("migrations outbox_change").
type edit struct{ in, old, new string }

// addition is a file that a package gets.
type addition struct{ dir, source string }

const additionFile = "planted.go"

// sources are the texts of files that differ from the repository's, by path.
type sources map[string]string

// tags are those of the programs that are tortured.
const tags = "failpoints"

// plant returns the sources that have the bug. Code that has moved on is an error, never a mutant
// without a bug.
func (m mutant) plant(root string) sources {
	planted := sources{}
	for _, a := range m.adds {
		planted[filepath.Join(root, a.dir, additionFile)] = a.source
	}
	for _, e := range m.edits {
		if err := rig.Carry(func() { planted.apply(root, e) }); err != nil {
			rig.Check(fmt.Errorf("%s: %s: %w; let the mutant follow the code", m.name, e.in, err))
		}
	}
	return planted
}

func (s sources) apply(root string, e edit) {
	dir, name, _ := strings.Cut(e.in, " ")
	find := s.declaration
	if dir == "migrations" {
		find = s.function
	}
	at := find(filepath.Join(root, dir), name)
	if n := strings.Count(at.text[at.begin:at.end], e.old); n != 1 {
		rig.Check(fmt.Errorf("%d times in it: %s", n, e.old))
	}
	s[at.path] = at.text[:at.begin] + strings.Replace(at.text[at.begin:at.end], e.old, e.new, 1) + at.text[at.end:]
}

// place is a part of a file.
type place struct {
	path, text string
	begin, end int
}

// read returns a file's text as the edits so far have left it.
func (s sources) read(path string) string {
	if text, edited := s[path]; edited {
		return text
	}
	return string(rig.Must(os.ReadFile(path)))
}

func (s sources) declaration(dir, name string) place {
	for _, path := range goFiles(dir) {
		text, fset := s.read(path), token.NewFileSet()
		file := rig.Must(parser.ParseFile(fset, path, text, parser.SkipObjectResolution))
		if node := declared(file, name); node != nil {
			return place{path, text, fset.Position(node.Pos()).Offset, fset.Position(node.End()).Offset}
		}
	}
	return rig.Must(place{}, fmt.Errorf("no such declaration in %s", dir))
}

// goFiles lists the files of a package that are built into the programs.
func goFiles(dir string) (paths []string) {
	ctx := build.Default
	ctx.BuildTags = []string{tags}
	for _, name := range rig.Must(ctx.ImportDir(dir, 0)).GoFiles {
		paths = append(paths, filepath.Join(dir, name))
	}
	return paths
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

func receiver(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return ""
	}
	return strings.TrimPrefix(types.ExprString(f.Recv.List[0].Type), "*") + "."
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

// function finds a function of the schema in the migration that creates it.
func (s sources) function(dir, name string) place {
	create := regexp.MustCompile(`(?i)CREATE\s+(OR\s+REPLACE\s+)?FUNCTION\s+` + regexp.QuoteMeta(name) + `\s*\([^$]*(\$\w*\$)`)
	for _, path := range rig.Must(filepath.Glob(filepath.Join(dir, "*.sql"))) {
		text := s.read(path)
		if m := create.FindStringSubmatchIndex(text); m != nil {
			quote := text[m[4]:m[5]]
			return place{path, text, m[0], m[1] + strings.Index(text[m[1]:], quote)}
		}
	}
	return rig.Must(place{}, errors.New("no migration creates that function"))
}
