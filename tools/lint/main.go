// Command lint runs all linters of this repository, go vet's among them, in one process over packages that are loaded once:
//
//	lint PATTERN...
//
// It type-checks what the packages import from source and without function bodies, so that nothing is compiled first.
// A finding is fixed, or explained on its line: //nolint:NAME // why.
package main

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/passes/scannererr"
	"golang.org/x/tools/go/packages"
)

func main() {
	// What is loaded stays until the end: looking for garbage twice as rarely saves a quarter of the time.
	debug.SetGCPercent(200)
	folder, err := os.Getwd()
	if err != nil {
		fail(err)
	}
	findings, err := check(folder, os.Args[1:]...)
	if err != nil {
		fail(err)
	}
	for _, f := range findings {
		name, err := filepath.Rel(folder, f.at.Filename)
		if err != nil {
			name = f.at.Filename
		}
		fmt.Fprintf(os.Stdout, "%s:%d:%d: %s (%s)\n", name, f.at.Line, f.at.Column, f.text, f.linter)
	}
	if len(findings) > 0 {
		os.Exit(1)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "lint:", err)
	os.Exit(2)
}

// finding is what a linter says of a line.
type finding struct {
	at           token.Position
	text, linter string
}

// check loads the packages that match the patterns, their tests included, and runs all linters over them.
func check(folder string, patterns ...string) ([]finding, error) {
	goroot, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return nil, fmt.Errorf("ask go where its library is: %w", err)
	}
	library := filepath.Join(strings.TrimSpace(string(goroot)), "src")
	ours := func(name string) bool { return strings.HasPrefix(name, folder+string(filepath.Separator)) }
	loaded, err := packages.Load(&packages.Config{
		Dir:   folder,
		Mode:  packages.LoadAllSyntax | packages.NeedModule | packages.NeedForTest,
		Tests: true,
		// Without cgo nothing at all is compiled.
		Env: append(os.Environ(), "CGO_ENABLED=0"),
		ParseFile: func(files *token.FileSet, name string, source []byte) (*ast.File, error) {
			if ours(name) {
				return parser.ParseFile(files, name, source, parser.ParseComments)
			}
			file, err := parser.ParseFile(files, name, source, parser.ParseComments|parser.SkipObjectResolution)
			if file != nil && !hasBodies(packageOf(library, name)) {
				dropBodies(file)
			}
			return file, err
		},
	}, patterns...)
	if err != nil {
		return nil, err
	}
	r := newRunner(func(p *packages.Package) bool { return len(p.GoFiles) > 0 && ours(p.GoFiles[0]) })
	var broken []string
	packages.Visit(loaded, nil, func(p *packages.Package) {
		// Without bodies some imports are not used: an error in what is not ours is none.
		if r.ours(p) {
			for _, err := range p.Errors {
				broken = append(broken, err.Error())
			}
		}
		r.all = append(r.all, p)
	})
	if len(broken) > 0 {
		return nil, fmt.Errorf("this does not compile:\n%s", strings.Join(broken, "\n"))
	}
	var findings []finding
	for p, reported := range r.run(roots(loaded), analyzers()) {
		findings = append(findings, unexplained(p, reported)...)
	}
	slices.SortFunc(findings, func(a, b finding) int {
		return cmp.Or(cmp.Compare(a.at.Filename, b.at.Filename), cmp.Compare(a.at.Line, b.at.Line), cmp.Compare(a.at.Column, b.at.Column),
			cmp.Compare(a.linter, b.linter), cmp.Compare(a.text, b.text))
	})
	return slices.Compact(findings), nil
}

// hasBodies names the packages of the standard library whose functions are looked into. Some never return, some take a format,
// and so do those of ours that call them; some have no effect but their result.
func hasBodies(pkg string) bool {
	return slices.Contains([]string{"errors", "fmt", "log", "log/slog", "os", "sort", "strings", "testing", "time"}, pkg)
}

// packageOf is the path of the standard library's package that a file belongs to.
func packageOf(library, file string) string {
	path, _ := filepath.Rel(library, filepath.Dir(file))
	return filepath.ToSlash(path)
}

func dropBodies(file *ast.File) {
	for _, declared := range file.Decls {
		// The type checker insists on the body of init and of a generic function.
		if function, ok := declared.(*ast.FuncDecl); ok && function.Name.Name != "init" && function.Type.TypeParams == nil {
			function.Body = nil
		}
	}
}

// roots leaves out the programs that run tests, and packages that stand in the list once more with their tests.
func roots(loaded []*packages.Package) []*packages.Package {
	tested := map[string]bool{}
	for _, p := range loaded {
		if p.ForTest == p.PkgPath {
			tested[p.PkgPath] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(loaded), func(p *packages.Package) bool {
		return strings.HasSuffix(p.ID, ".test") || p.ForTest == "" && tested[p.PkgPath]
	})
}

var staticcheckName = regexp.MustCompile(`^(SA|ST|S|QF)\d+$`)

var nolint = regexp.MustCompile(`//nolint(:([\w,]+))?( // \S)?`)

// houseRule tells the rules of house_test.go, which knows the same comment.
func houseRule(name string) bool {
	return slices.Contains([]string{"doc", "forbidden", "global", "import", "long"}, name)
}

// unexplained returns what was reported of a package, but for what a comment on the line explains; and the comments that explain
// nothing.
func unexplained(p *packages.Package, reported map[*analysis.Analyzer][]analysis.Diagnostic) []finding {
	type place struct {
		file   string
		line   int
		linter string
	}
	explained := map[place]token.Position{}
	var findings []finding
	for _, file := range p.Syntax {
		for _, group := range file.Comments {
			for _, comment := range group.List {
				match := nolint.FindStringSubmatch(comment.Text)
				if match == nil || !strings.HasPrefix(comment.Text, "//nolint") {
					continue
				}
				at := p.Fset.Position(comment.Pos())
				if match[2] == "" || match[3] == "" {
					findings = append(findings, finding{at, "say which linter and why: //nolint:NAME // why", "nolint"})
				}
				for name := range strings.SplitSeq(match[2], ",") {
					if name != "" && !houseRule(name) {
						explained[place{at.Filename, at.Line, name}] = at
					}
				}
			}
		}
	}
	used := map[place]bool{}
	for linter, diagnostics := range reported {
		for _, d := range diagnostics {
			at := p.Fset.Position(d.Pos)
			if linter == scannererr.Analyzer && strings.HasSuffix(at.Filename, "_test.go") {
				continue // a test reads until it has seen what it waits for
			}
			name, text := linter.Name, d.Message
			if staticcheckName.MatchString(name) {
				name, text = "staticcheck", name+": "+text
			}
			where := place{at.Filename, at.Line, name}
			if _, ok := explained[where]; ok {
				used[where] = true
				continue
			}
			findings = append(findings, finding{at, text, name})
		}
	}
	for where, at := range explained {
		if !used[where] {
			findings = append(findings, finding{at, where.linter + " finds nothing here that would have to be explained", "nolint"})
		}
	}
	return findings
}
