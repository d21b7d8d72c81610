package main

import (
	"fmt"
	"go/types"
	"os"
	"reflect"
	"runtime"
	"sync"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/passes/ctrlflow"
	"golang.org/x/tools/go/analysis/passes/printf"
	"golang.org/x/tools/go/packages"
	"honnef.co/go/tools/analysis/facts/deprecated"
	"honnef.co/go/tools/analysis/facts/purity"
)

// runner runs analyzers over packages, each after what it imports. What the analyzers build of a package is dropped with it; what
// they learned of its declarations, their facts, is kept.
type runner struct {
	all  []*packages.Package // each behind what it imports
	ours func(*packages.Package) bool

	mu    sync.Mutex
	facts map[reflect.Type]map[any]analysis.Fact // by their type, of a types.Object or a types.Package; guarded by mu
}

func newRunner(ours func(*packages.Package) bool) *runner {
	return &runner{ours: ours, facts: map[reflect.Type]map[any]analysis.Fact{}}
}

// run returns what the analyzers report of the roots. Of what those import it only learns what declarations say: what is
// deprecated, takes a format or never returns.
func (r *runner) run(roots []*packages.Package, analyzers []*analysis.Analyzer) map[*packages.Package]map[*analysis.Analyzer][]analysis.Diagnostic {
	reported := map[*packages.Package]map[*analysis.Analyzer][]analysis.Diagnostic{}
	for _, root := range roots {
		reported[root] = nil
	}
	done := map[*packages.Package]chan struct{}{}
	for _, p := range r.all {
		done[p] = make(chan struct{})
	}
	turns := make(chan struct{}, runtime.GOMAXPROCS(0))
	var all sync.WaitGroup
	for _, p := range r.all {
		_, root := reported[p]
		all.Go(func() {
			defer close(done[p])
			for _, imported := range p.Imports {
				<-done[imported]
			}
			turns <- struct{}{}
			defer func() { <-turns }()
			switch {
			case root:
				found := r.analyze(p, analyzers)
				r.mu.Lock()
				defer r.mu.Unlock()
				reported[p] = found
			case hasBodies(p.PkgPath):
				r.analyze(p, []*analysis.Analyzer{deprecated.Analyzer, printf.Analyzer, ctrlflow.Analyzer, purity.Analyzer})
			case r.ours(p) || p.Module == nil:
				r.analyze(p, []*analysis.Analyzer{deprecated.Analyzer, printf.Analyzer, ctrlflow.Analyzer})
			default:
				r.analyze(p, []*analysis.Analyzer{deprecated.Analyzer})
			}
		})
	}
	all.Wait()
	return reported
}

// analyze runs analyzers over a package, those they require before them, each once.
func (r *runner) analyze(p *packages.Package, analyzers []*analysis.Analyzer) map[*analysis.Analyzer][]analysis.Diagnostic {
	results := map[*analysis.Analyzer]any{}
	reported := map[*analysis.Analyzer][]analysis.Diagnostic{}
	var run func(a *analysis.Analyzer)
	run = func(a *analysis.Analyzer) {
		if _, ok := results[a]; ok {
			return
		}
		for _, required := range a.Requires {
			run(required)
		}
		result, err := a.Run(r.pass(p, a, results, func(d analysis.Diagnostic) { reported[a] = append(reported[a], d) }))
		if err != nil {
			fail(fmt.Errorf("%s of %s: %w", a.Name, p.ID, err))
		}
		results[a] = result
	}
	for _, a := range analyzers {
		run(a)
	}
	return reported
}

func (r *runner) pass(p *packages.Package, a *analysis.Analyzer, results map[*analysis.Analyzer]any, report func(analysis.Diagnostic)) *analysis.Pass {
	pass := &analysis.Pass{
		Analyzer: a, Fset: p.Fset, Files: p.Syntax, OtherFiles: p.OtherFiles, IgnoredFiles: p.IgnoredFiles, Pkg: p.Types, TypesInfo: p.TypesInfo,
		TypesSizes: p.TypesSizes, ResultOf: results, Report: report, ReadFile: os.ReadFile,
		ImportObjectFact:  func(object types.Object, fact analysis.Fact) bool { return r.get(object, fact) },
		ExportObjectFact:  func(object types.Object, fact analysis.Fact) { r.set(object, fact) },
		ImportPackageFact: func(pkg *types.Package, fact analysis.Fact) bool { return r.get(pkg, fact) },
		ExportPackageFact: func(fact analysis.Fact) { r.set(p.Types, fact) },
		AllObjectFacts: func() (all []analysis.ObjectFact) {
			r.each(a, func(of any, fact analysis.Fact) {
				if object, ok := of.(types.Object); ok {
					all = append(all, analysis.ObjectFact{Object: object, Fact: fact})
				}
			})
			return all
		},
		AllPackageFacts: func() (all []analysis.PackageFact) {
			r.each(a, func(of any, fact analysis.Fact) {
				if pkg, ok := of.(*types.Package); ok {
					all = append(all, analysis.PackageFact{Package: pkg, Fact: fact})
				}
			})
			return all
		},
	}
	if p.Module != nil {
		pass.Module = &analysis.Module{Path: p.Module.Path, Version: p.Module.Version, GoVersion: p.Module.GoVersion}
	}
	return pass
}

func (r *runner) get(of any, fact analysis.Fact) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	known, ok := r.facts[reflect.TypeOf(fact)][of]
	if ok {
		reflect.ValueOf(fact).Elem().Set(reflect.ValueOf(known).Elem())
	}
	return ok
}

func (r *runner) set(of any, fact analysis.Fact) {
	r.mu.Lock()
	defer r.mu.Unlock()
	kind := reflect.TypeOf(fact)
	if r.facts[kind] == nil {
		r.facts[kind] = map[any]analysis.Fact{}
	}
	r.facts[kind][of] = fact
}

// each calls do for all facts of an analyzer, whatever package they are from.
func (r *runner) each(a *analysis.Analyzer, do func(of any, fact analysis.Fact)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, kind := range a.FactTypes {
		for of, fact := range r.facts[reflect.TypeOf(kind)] {
			do(of, fact)
		}
	}
}
