package main

import (
	"cmp"
	"fmt"
	"go/token"
	"regexp"
	"slices"

	"codeberg.org/polyfloyd/go-errorlint/errorlint"
	testify "github.com/Antonboom/testifylint/analyzer"
	"github.com/charithe/durationcheck"
	"github.com/golangci/unconvert"
	"github.com/gordonklaus/ineffassign/pkg/ineffassign"
	"github.com/kisielk/errcheck/errcheck"
	"github.com/ldez/usetesting"
	"github.com/nishanths/predeclared/passes/predeclared"
	"github.com/timakin/bodyclose/passes/bodyclose"
	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/passes/nilness"
	"golang.org/x/tools/go/analysis/suite/vet"
	"golang.org/x/tools/go/packages"
	"honnef.co/go/tools/analysis/lint"
	"honnef.co/go/tools/quickfix"
	"honnef.co/go/tools/simple"
	"honnef.co/go/tools/staticcheck"
	"honnef.co/go/tools/stylecheck"
	"honnef.co/go/tools/unused"
)

// analyzers lists go vet's, staticcheck's and those of a few more linters that find mistakes in this repository.
func analyzers() []*analysis.Analyzer {
	all := slices.Concat(vet.Suite, []*analysis.Analyzer{
		nilness.Analyzer,
		// mistakes
		bodyclose.Analyzer, durationcheck.Analyzer, uncheckedErrors(), errorlint.NewAnalyzer(), ineffassign.Analyzer, predeclared.Analyzer,
		unnecessaryConversions(), unusedNames(),
		// tests
		with(testify.New(), map[string]string{
			// The very bytes matter here: what is stored is what is published.
			"disable": "float-compare,encoded-compare",
			// An error, or what a command printed, says more than its failure in words of ours.
			"formatter.require-string-msg": "false",
		}),
		// The path of a socket has to stay short: t.TempDir has the name of the test in it.
		with(usetesting.NewAnalyzer(), map[string]string{"osmkdirtemp": "false", "ossetenv": "true"}),
	})
	notWanted := []string{
		"ST1000", "ST1020", "ST1021", "ST1022", // house_test.go asks for the comments as well
		"QF1001", "QF1008", // De Morgan's law and the name of an embedded field are a matter of what reads better
	}
	for _, set := range [][]*lint.Analyzer{staticcheck.Analyzers, simple.Analyzers, stylecheck.Analyzers, quickfix.Analyzers} {
		for _, a := range set {
			if !slices.Contains(notWanted, a.Analyzer.Name) {
				all = append(all, a.Analyzer)
			}
		}
	}
	return all
}

func with(a *analysis.Analyzer, flags map[string]string) *analysis.Analyzer {
	for name, value := range flags {
		if err := a.Flags.Set(name, value); err != nil {
			fail(fmt.Errorf("%s: %s=%s: %w", a.Name, name, value, err))
		}
	}
	return a
}

// Errors that nothing can be made of: what a deferred Close says, or a print to the terminal.
var mayFail = regexp.MustCompile(`^(os\.Std(out|err)\..*|.*Close|.*Flush|os\.Remove(All)?|.*[pP]rint(f|ln)?|os\.(Uns|S)etenv)$`)

// uncheckedErrors is errcheck with the names of the functions.
func uncheckedErrors() *analysis.Analyzer {
	return &analysis.Analyzer{Name: "errcheck", Doc: "find errors that are not looked at", Run: func(pass *analysis.Pass) (any, error) {
		checker := errcheck.Checker{Exclusions: errcheck.Exclusions{
			Symbols: errcheck.DefaultExcludedSymbols, BlankAssignments: true, TypeAssertions: true,
		}}
		checked := checker.CheckPackage(&packages.Package{Fset: pass.Fset, Syntax: pass.Files, Types: pass.Pkg, TypesInfo: pass.TypesInfo})
		for _, e := range checked.UncheckedErrors {
			if name := cmp.Or(e.SelectorName, e.FuncName); !mayFail.MatchString(name) {
				report(pass, e.Pos, "the error of "+name+" is not looked at")
			}
		}
		return nil, nil
	}}
}

func unnecessaryConversions() *analysis.Analyzer {
	return &analysis.Analyzer{Name: "unconvert", Doc: "find conversions to the same type", Run: func(pass *analysis.Pass) (any, error) {
		for _, at := range unconvert.Run(pass) {
			report(pass, at, "unnecessary conversion")
		}
		return nil, nil
	}}
}

func unusedNames() *analysis.Analyzer {
	search := unused.Analyzer.Analyzer
	return &analysis.Analyzer{Name: "unused", Doc: search.Doc, Requires: []*analysis.Analyzer{search}, Run: func(pass *analysis.Pass) (any, error) {
		for _, object := range pass.ResultOf[search].(unused.Result).Unused {
			if object.Kind != "type param" {
				report(pass, object.Position, fmt.Sprintf("%s %s is unused", object.Kind, object.Name))
			}
		}
		return nil, nil
	}}
}

// report reports something at a place that a linter does not tell as a token.Pos.
func report(pass *analysis.Pass, at token.Position, text string) {
	for file := range pass.Fset.Iterate {
		if file.Name() == at.Filename {
			pass.Reportf(file.LineStart(at.Line)+token.Pos(at.Column-1), "%s", text)
			return
		}
	}
}
