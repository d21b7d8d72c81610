package main_test

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// An importRule keeps files from importing packages.
type importRule struct {
	// in and but are folders, or files as path.Match knows them: where the rule holds, everywhere if in is empty, and where not.
	in, but []string
	// inTests says that it holds in tests, too.
	inTests bool
	// deny and allow are packages with all below them. The longest name decides. A dot stands for this repository, and a dollar
	// at the end for the package alone.
	deny, allow []string
	why         string
}

// main → cmd → internal: the arrow never points back, and what users import knows nothing of the program.
var importRules = []importRule{
	{in: []string{"main.go"}, deny: []string{"."}, allow: []string{"./cmd", "./internal/cli"}, why: "main only calls cmd"},
	{in: []string{"internal"}, inTests: true, deny: []string{"./cmd"}, why: "internal packages do not know the command line"},
	{
		in: []string{"internal"}, but: []string{"internal/cli"}, inTests: true, deny: []string{"github.com/spf13/cobra", "./internal/cli"},
		why: "the command line lives in cmd and internal/cli",
	},

	// What users import.
	{
		in: []string{"emit"}, deny: []string{"."}, allow: []string{"./emit"},
		why: "emit is a module of its own and needs nothing of the others",
	},
	{
		in: []string{"catalogue"}, deny: []string{"."}, allow: []string{"./catalogue", "./emit"},
		why: "catalogue is a module of its own; of the others it needs only emit",
	},
	{
		in: []string{"consume"}, deny: []string{"."}, allow: []string{"./emit/wire"},
		why: "consume is a module of its own; of the others it needs only the format of messages",
	},
	{
		in: []string{"dispatch", "migrate"}, but: brokers, deny: []string{"./internal/broker", "cloud.google.com/go"},
		why: "a broker is in a package of its own, such as dispatch/pubsub",
	},
	{
		in: []string{"dispatch", "migrate"}, but: brokers, deny: []string{"./internal/cli", "github.com/rs/zerolog"},
		why: "who embeds a dispatcher brings a command line and a slog.Logger",
	},
	{
		in: []string{"examples"}, deny: []string{"."}, allow: []string{"./consume", "./emit/wire", "./examples"},
		why: "examples are copied by people who cannot import internal packages",
	},

	// The subjects do not know each other; cmd brings them together through the interfaces they declare.
	{
		in: []string{"internal/outbox"}, deny: []string{"."},
		allow: []string{"./catalogue", "./emit", "./internal/fault", "./internal/safetext", "./internal/wait", "./internal/words"},
		why:   "events know no other subject; declare an interface instead",
	},
	{
		in: []string{"internal/dispatch"}, deny: []string{"."},
		allow: []string{"./emit", "./internal/failpoint", "./internal/outbox", "./internal/safetext", "./internal/wait"},
		why:   "the dispatcher knows the row and no broker; declare an interface instead",
	},
	{
		in: []string{"internal/broker"}, deny: []string{"."},
		allow: []string{
			"./dispatch", "./emit/wire", "./internal/broker", "./internal/dispatch", "./internal/forward", "./internal/safetext", "./internal/wait",
			"./internal/words",
		},
		why: "of the other packages, a broker knows only the outbox's interface",
	},
	{
		in: []string{"internal/registry"}, deny: []string{"."},
		allow: []string{
			"./catalogue", "./emit", "./internal/dispatch", "./internal/fault", "./internal/outbox", "./internal/pgread", "./internal/words",
		},
		why: "the registry knows catalogues, and what a publisher makes of events by them",
	},
	{
		in: []string{"internal/dlq"}, deny: []string{"."},
		allow: []string{
			"./consume", "./emit", "./internal/failpoint", "./internal/fault", "./internal/idem", "./internal/outbox", "./internal/registry",
			"./internal/safetext", "./internal/wait", "./internal/words",
		},
		why: "of the other subjects, dlq knows events, catalogues and what consumers remember",
	},
	{
		in: []string{"internal/idem"}, deny: []string{"."},
		allow: []string{"./consume", "./internal/fault", "./internal/outbox", "./internal/safetext"},
		why:   "idem reads what consume writes about events and knows nothing else",
	},
	{in: subjects, deny: []string{"./internal/devstack"}, why: "use cases start no servers"},
	{in: subjects, deny: []string{"github.com/rs/zerolog"}, why: "use cases print nothing"},

	// One user per library, so that replacing it is one file's work.
	{but: []string{"internal/cli/config*.go"}, inTests: true, deny: []string{"github.com/spf13/viper"}, why: "internal/cli/config*.go read the configuration"},
	{
		but: []string{"internal/cli/output*.go"}, inTests: true, deny: []string{"github.com/olekukonko/tablewriter"},
		why: "internal/cli/output*.go draw tables",
	},

	// What is not linked into what runs in production.
	{but: []string{"lab"}, inTests: true, deny: []string{"./lab"}, why: "the laboratory knows the product, not the other way around"},
	{
		but:  []string{"cmd/dev*.go", "internal/devstack", "internal/outboxtest", "lab"},
		deny: []string{"./internal/devstack", "./internal/outboxtest"}, why: "only dev and tests start servers",
	},
	{
		but:  []string{"dispatch/dispatchtest", "internal/devstack", "internal/outboxtest", "lab"},
		deny: []string{"testing$", "github.com/stretchr/testify", "github.com/alicebob/miniredis", "cloud.google.com/go/pubsub/v2/pstest"},
		why:  "test code stays out of the binary",
	},

	// What has a successor.
	{inTests: true, deny: []string{"cloud.google.com/go/pubsub$"}, why: "use cloud.google.com/go/pubsub/v2"},
	{inTests: true, deny: []string{"math/rand$"}, why: "use math/rand/v2"},
	{inTests: true, deny: []string{"github.com/pkg/errors"}, why: "use errors, and fmt.Errorf with %w"},
	{inTests: true, deny: []string{"log$"}, why: "use zerolog in the program, slog in what users import"},
}

var (
	brokers  = []string{"dispatch/exec", "dispatch/http", "dispatch/kafka", "dispatch/nats", "dispatch/pubsub", "dispatch/rabbitmq"}
	subjects = []string{
		"internal/check", "internal/cleanup", "internal/consumers", "internal/dlq", "internal/doctor", "internal/idem", "internal/outbox",
		"internal/registry", "internal/stats", "internal/why",
	}
)

// A nameRule forbids names of other packages.
type nameRule struct {
	pkg   string // its import path; empty: a method, of whatever
	names []string
	but   func(source) bool
	why   string
}

var nameRules = []nameRule{
	{
		"os", []string{"Exit"}, func(s source) bool { return s.isTest() || path.Base(s.name) == "main.go" || s.isIn([]string{"tools"}) },
		"only main exits; return an error",
	},
	{"", []string{"SafeToRetry"}, nil, "it says true for a COMMIT whose reply was lost although it committed"},
	{
		"github.com/jackc/pgx/v5", []string{"ReadWrite"}, nil,
		"it overrides the default with which a read-only context keeps every session from writing",
	},
	// Examples print: their output is what go test compares.
	{
		"fmt", []string{"Print", "Printf", "Println"}, func(s source) bool { return s.isTest() && strings.HasPrefix(path.Base(s.name), "example") },
		"write to the injected stream",
	},
	// Under synctest a sleep moves a clock and takes no time.
	{"time", []string{"Sleep"}, source.isFakeTime, "wait for a signal or select on the context; in tests, synctest or a channel"},
	{"context", []string{"TODO"}, nil, "pass the caller's context"},
}

// A file is a chapter: what is longer tells two things.
const maxLines = 700

// The rules of the house, which a reviewer would otherwise have to remember. They go by the text of each file, so that they hold
// under all build tags and take a second. Mistakes are what `make lint` looks for.
func TestHouseRules(t *testing.T) {
	t.Parallel()
	var problems []string
	documented := map[string]bool{} // folders of packages: whether a file says what the package is for
	require.NoError(t, filepath.WalkDir(".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || name == "." {
			return err
		}
		if entry.IsDir() {
			if strings.HasPrefix(entry.Name(), ".") || slices.Contains([]string{"testdata", "bin", "dist"}, entry.Name()) {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") {
			return nil
		}
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		s := parse(t, filepath.ToSlash(name), text)
		problems = append(problems, s.problems()...)
		if !s.isTest() {
			documented[path.Dir(s.name)] = documented[path.Dir(s.name)] || s.Doc.Text() != ""
		}
		return nil
	}))
	for folder, ok := range documented {
		if !ok {
			problems = append(problems, folder+": no file says in a package comment what the package is for")
		}
	}
	slices.Sort(problems)
	require.Empty(t, strings.Join(problems, "\n"), "fix it, or say why it stays: //nolint:NAME // why")
}

// source is a Go file.
type source struct {
	*ast.File
	name  string // from the root of the repository on
	text  []byte
	files *token.FileSet
}

func parse(t *testing.T, name string, text []byte) source {
	t.Helper()
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, name, text, parser.ParseComments|parser.SkipObjectResolution)
	require.NoError(t, err)
	return source{file, name, text, files}
}

func (s source) isTest() bool { return strings.HasSuffix(s.name, "_test.go") }

// isFakeTime is true of tests where synctest is at work, perhaps in the file beside.
func (s source) isFakeTime() bool {
	return s.isTest() && (s.imports("testing/synctest") != "" || strings.HasPrefix(s.name, "internal/dispatch/"))
}

// imports returns the name under which the file knows a package, empty if it does not.
func (s source) imports(pkg string) string {
	for _, spec := range s.Imports {
		if imported, _ := strconv.Unquote(spec.Path.Value); imported != pkg {
			continue
		}
		if spec.Name != nil {
			return spec.Name.Name
		}
		return path.Base(versionPart.ReplaceAllString(pkg, ""))
	}
	return ""
}

var versionPart = regexp.MustCompile(`/v\d+$`)

// problems lists where the file breaks a rule, but for what a comment on the line explains, and comments that explain nothing.
func (s source) problems() (texts []string) {
	type place struct {
		line int
		rule string
	}
	explained := map[place]bool{}
	for _, group := range s.Comments {
		for _, comment := range group.List {
			if match := explains.FindStringSubmatch(comment.Text); match != nil {
				explained[place{s.explainedBy(comment), match[1]}] = false
			}
		}
	}
	say := func(at ast.Node, rule, format string, args ...any) {
		where := place{s.line(at), rule}
		if _, ok := explained[where]; ok {
			explained[where] = true
			return
		}
		texts = append(texts, fmt.Sprintf("%s:%d: %s (%s)", s.name, where.line, fmt.Sprintf(format, args...), rule))
	}
	s.checkImports(say)
	s.checkNames(say)
	s.checkState(say)
	s.checkComments(say)
	if lines := bytes.Count(s.text, []byte("\n")); lines > maxLines {
		say(s.Name, "long", "%d lines, and a chapter has %d at most: what is the second thing it tells?", lines, maxLines)
	}
	for where, used := range explained {
		if !used {
			texts = append(texts, fmt.Sprintf("%s:%d: there is nothing to explain here (%s)", s.name, where.line, where.rule))
		}
	}
	return texts
}

// explainedBy is the line that a comment is about: its own, or the one below if nothing else stands there.
func (s source) explainedBy(comment *ast.Comment) int {
	at := s.files.Position(comment.Pos())
	before := s.text[at.Offset-at.Column+1 : at.Offset]
	if len(bytes.TrimSpace(before)) == 0 {
		return at.Line + 1
	}
	return at.Line
}

var explains = regexp.MustCompile(`^//nolint:(import|forbidden|global|doc|long) // \S`)

type sayer func(at ast.Node, rule, format string, args ...any)

func (s source) line(at ast.Node) int { return s.files.Position(at.Pos()).Line }

func (s source) checkImports(say sayer) {
	for _, spec := range s.Imports {
		imported, _ := strconv.Unquote(spec.Path.Value)
		for _, rule := range importRules {
			if rule.forbids(s, imported) {
				say(spec, "import", "%s: %s", imported, rule.why)
			}
		}
	}
	last, lastLine := 0, 0
	for _, spec := range s.Imports {
		imported, _ := strconv.Unquote(spec.Path.Value)
		group := 1
		if imported == program || strings.HasPrefix(imported, program+"/") {
			group = 3
		} else if domain, _, _ := strings.Cut(imported, "/"); strings.Contains(domain, ".") {
			group = 2
		}
		if line := s.line(spec); last > group || last != 0 && last < group && line == lastLine+1 {
			say(spec, "import", "%s: first the standard library, then others, then ours, an empty line between", imported)
		}
		last, lastLine = group, s.line(spec)
	}
}

func (r importRule) forbids(s source, imported string) bool {
	holds := (len(r.in) == 0 || s.isIn(r.in)) && !s.isIn(r.but) && (r.inTests || !s.isTest())
	return holds && longest(r.deny, imported) > longest(append(slices.Clone(r.allow), own(r.in)...), imported)
}

// own are the packages that a rule is about, which know themselves.
func own(folders []string) (pkgs []string) {
	for _, folder := range folders {
		pkgs = append(pkgs, "./"+folder)
	}
	return pkgs
}

// isIn says whether the file is in one of the folders, or one of the files.
func (s source) isIn(places []string) bool {
	return slices.ContainsFunc(places, func(place string) bool {
		file, err := path.Match(place, s.name)
		return err == nil && file || strings.HasPrefix(s.name, place+"/")
	})
}

// longest returns how long the longest name is that stands for a package.
func longest(names []string, pkg string) (length int) {
	for _, name := range names {
		if name == "." || strings.HasPrefix(name, "./") {
			name = program + name[1:]
		}
		exact, alone := strings.CutSuffix(name, "$")
		if pkg == exact || !alone && strings.HasPrefix(pkg, name+"/") {
			length = max(length, len(exact))
		}
	}
	return length
}

func (s source) checkNames(say sayer) {
	for _, rule := range nameRules {
		known := s.imports(rule.pkg)
		if rule.pkg != "" && known == "" || rule.but != nil && rule.but(s) {
			continue
		}
		ast.Inspect(s.File, func(n ast.Node) bool {
			used, ok := n.(*ast.SelectorExpr)
			if !ok || !slices.Contains(rule.names, used.Sel.Name) {
				return true
			}
			if of, ok := used.X.(*ast.Ident); rule.pkg == "" || ok && of.Name == known {
				say(used, "forbidden", "%s: %s", used.Sel.Name, rule.why)
			}
			return true
		})
	}
}

// checkState finds init functions and variables of a package. Errors, regular expressions and what go:embed fills are never
// written, and nor is what the linker writes; a test binary has one set of servers, and the tables of its cases.
func (s source) checkState(say sayer) {
	tests := s.isTest() || s.isIn([]string{"internal/outboxtest"})
	for _, declared := range s.Decls {
		if function, ok := declared.(*ast.FuncDecl); ok && function.Recv == nil && function.Name.Name == "init" {
			say(function, "global", "no init: what a package needs is passed to it")
		}
		block, ok := declared.(*ast.GenDecl)
		if !ok || block.Tok != token.VAR || tests || s.name == "cmd/version.go" {
			continue
		}
		for _, spec := range block.Specs {
			values := spec.(*ast.ValueSpec)
			for i, name := range values.Names {
				if i < len(values.Values) && isPattern(values.Values[i]) || embeds(block.Doc) || embeds(values.Doc) || name.Name == "_" ||
					regexp.MustCompile(`^[eE]rr([A-Z]|$)`).MatchString(name.Name) {
					continue
				}
				say(name, "global", "%s: no state in packages; a function that returns it, or a field", name.Name)
			}
		}
	}
}

func isPattern(value ast.Expr) bool {
	call, ok := value.(*ast.CallExpr)
	if !ok {
		return false
	}
	function, ok := call.Fun.(*ast.SelectorExpr)
	return ok && function.Sel.Name == "MustCompile"
}

func embeds(doc *ast.CommentGroup) bool {
	return doc != nil && slices.ContainsFunc(doc.List, func(c *ast.Comment) bool { return strings.HasPrefix(c.Text, "//go:embed ") })
}

// checkComments asks of everything that is exported, but constants, for a comment that begins with its name.
func (s source) checkComments(say sayer) {
	if s.isTest() {
		return
	}
	want := func(name *ast.Ident, docs ...*ast.CommentGroup) {
		for _, doc := range docs {
			if first := strings.TrimSpace(doc.Text()); first != "" {
				if !regexp.MustCompile(`^((A|An|The|This) )?` + name.Name + `\b`).MatchString(first) {
					say(name, "doc", "the comment of %s begins with its name", name.Name)
				}
				return
			}
		}
		say(name, "doc", "%s is exported: say what it is for", name.Name)
	}
	for _, declared := range s.Decls {
		switch declared := declared.(type) {
		case *ast.FuncDecl:
			// The names that interfaces of the standard library prescribe say it themselves.
			wellKnown := declared.Recv != nil && slices.Contains([]string{"Error", "Read", "ServeHTTP", "String", "Write", "Unwrap", "Len", "Less", "Swap"}, declared.Name.Name)
			if of := receiverOf(declared); declared.Name.IsExported() && !wellKnown && (of == "" || ast.IsExported(of)) {
				want(declared.Name, declared.Doc)
			}
		case *ast.GenDecl:
			for _, spec := range declared.Specs {
				switch spec := spec.(type) {
				case *ast.TypeSpec:
					if spec.Name.IsExported() {
						want(spec.Name, spec.Doc, declared.Doc)
					}
				case *ast.ValueSpec:
					// A comment above the block speaks of all of it.
					if declared.Tok == token.VAR && spec.Names[0].IsExported() && (!declared.Lparen.IsValid() || declared.Doc == nil) {
						want(spec.Names[0], spec.Doc, spec.Comment, declared.Doc)
					}
				}
			}
		}
	}
}

// Each rule is seen to hold, and to hold no further.
func TestHouseRulesAreBroken(t *testing.T) {
	t.Parallel()
	code := func(body string) string { return "package p\n\n" + body + "\n" }
	imports := func(pkg string) string { return code(`import _ "` + strings.Replace(pkg, "./", program+"/", 1) + `"`) }
	for _, tc := range []struct {
		file, text string
		want       string // empty: it is right
	}{
		{"main.go", imports("./internal/dlq"), "main only calls cmd"},
		{"main.go", imports("./cmd"), ""},
		{"internal/words/a_test.go", imports("./cmd"), "internal packages do not know the command line"},
		{"internal/words/a.go", imports("github.com/spf13/cobra"), "the command line lives in cmd and internal/cli"},
		{"internal/words/a.go", imports("./internal/cli"), "the command line lives in cmd and internal/cli"},
		{"internal/cli/a.go", imports("github.com/spf13/cobra"), ""},
		{"emit/wire/a.go", imports("./consume"), "emit is a module of its own"},
		{"emit/wire/a.go", imports("./emit/internal/short"), ""},
		{"catalogue/a.go", imports("./internal/words"), "catalogue is a module of its own"},
		{"consume/a.go", imports("./emit"), "consume is a module of its own"},
		{"consume/a.go", imports("./emit/wire"), ""},
		{"consume/a_test.go", imports("./internal/outboxtest"), ""},
		{"dispatch/a.go", imports("./internal/broker/pubsub"), "a broker is in a package of its own"},
		{"dispatch/a.go", imports("cloud.google.com/go/pubsub/v2"), "a broker is in a package of its own"},
		{"dispatch/pubsub/a.go", imports("./internal/broker/pubsub"), ""},
		{"migrate/a.go", imports("github.com/rs/zerolog"), "who embeds a dispatcher brings a command line and a slog.Logger"},
		{"examples/notifications/a.go", imports("./internal/words"), "examples are copied"},
		{"internal/outbox/a.go", imports("./internal/dlq"), "declare an interface instead"},
		{"internal/outbox/a.go", imports("./internal/outbox/b"), ""},
		{"internal/outbox/a.go", imports("./internal/outboxtest"), "declare an interface instead"},
		{"internal/dispatch/a.go", imports("./internal/broker"), "the dispatcher knows the row and no broker"},
		{"internal/broker/kafka/a.go", imports("./internal/outbox"), "knows only the outbox's interface"},
		{"internal/broker/kafka/a.go", imports("./emit"), "knows only the outbox's interface"},
		{"internal/broker/kafka/a.go", imports("./emit/wire"), ""},
		{"internal/registry/a.go", imports("./internal/dlq"), "the registry knows catalogues"},
		{"internal/dlq/a.go", imports("./internal/stats"), "of the other subjects, dlq knows"},
		{"internal/idem/a.go", imports("./internal/dlq"), "idem reads what consume writes"},
		{"internal/why/a.go", imports("./internal/devstack"), "use cases start no servers"},
		{"internal/why/a.go", imports("github.com/rs/zerolog"), "use cases print nothing"},
		{"cmd/a_test.go", imports("github.com/spf13/viper"), "read the configuration"},
		{"internal/cli/config_file.go", imports("github.com/spf13/viper"), ""},
		{"cmd/a.go", imports("github.com/olekukonko/tablewriter"), "draw tables"},
		{"cmd/a_test.go", imports("./lab/rig"), "the laboratory knows the product"},
		{"lab/torture/a.go", imports("./lab/rig"), ""},
		{"cmd/publish.go", imports("./internal/devstack"), "only dev and tests start servers"},
		{"cmd/dev_view.go", imports("./internal/devstack"), ""},
		{"cmd/a.go", imports("testing"), "test code stays out of the binary"},
		{"cmd/a.go", imports("testing/fstest"), ""},
		{"cmd/a.go", imports("github.com/stretchr/testify/require"), "test code stays out of the binary"},
		{"cmd/a_test.go", imports("github.com/stretchr/testify/require"), ""},
		{"cmd/a_test.go", imports("math/rand"), "use math/rand/v2"},
		{"cmd/a_test.go", imports("math/rand/v2"), ""},
		{"cmd/a.go", imports("log"), "use zerolog"},
		{"cmd/a.go", imports("log/slog"), ""},
		{"cmd/a.go", imports("cloud.google.com/go/pubsub"), "use cloud.google.com/go/pubsub/v2"},
		{"cmd/a.go", imports("github.com/pkg/errors"), "use errors"},
		{"cmd/a.go", code("import (\n\t_ \"example.com/a\"\n\t_ \"fmt\"\n)"), "first the standard library"},
		{"cmd/a.go", code("import (\n\t_ \"fmt\"\n\t_ \"example.com/a\"\n)"), "first the standard library"},
		{"cmd/a.go", code("import (\n\t_ \"fmt\"\n\n\t_ \"example.com/a\"\n)"), ""},

		{"cmd/a.go", code(`import "os"` + "\nfunc f() { os.Exit(1) }"), "only main exits"},
		{"lab/cmd/torture/main.go", code(`import "os"` + "\nfunc f() { os.Exit(1) }"), ""},
		{"cmd/a.go", code(`import system "os"` + "\nfunc f() { system.Exit(1) }"), "only main exits"},
		{"cmd/a.go", code(`import "example.com/os/v2"` + "\nfunc f() { os.Exit(1) }"), ""},
		{"cmd/a_test.go", code("var retry = conn.SafeToRetry"), "whose reply was lost"},
		{"cmd/a.go", code(`import "github.com/jackc/pgx/v5"` + "\nconst mode = pgx.ReadWrite"), "keeps every session from writing"},
		{"cmd/a.go", code(`import "fmt"` + "\nfunc f() { fmt.Println() }"), "write to the injected stream"},
		{"cmd/a.go", code(`import "fmt"` + "\nfunc f() { fmt.Fprintln(w) }"), ""},
		{"emit/example_test.go", code(`import "fmt"` + "\nfunc f() { fmt.Println() }"), ""},
		{"cmd/a_test.go", code(`import "time"` + "\nfunc f() { time.Sleep(1) }"), "wait for a signal"},
		{"cmd/a_test.go", code("import (\n\t_ \"testing/synctest\"\n\t\"time\"\n)\nfunc f() { time.Sleep(1) }"), ""},
		{"cmd/a.go", code(`import "context"` + "\nvar _ = context.TODO()"), "pass the caller's context"},

		{"cmd/a.go", code("func init() {}"), "no init"},
		{"cmd/a.go", code("var a, errB = 1, c"), "a: no state in packages"},
		{"cmd/a.go", code("var errB, _ = 1, c"), ""},
		{"cmd/a.go", code("var pattern = regexp.MustCompile(`a`)"), ""},
		{"cmd/a.go", code("//go:embed a\nvar a string"), ""},
		{"cmd/a_test.go", code("var a = 1"), ""},
		{"cmd/a.go", code("var a = 1 //nolint:global // never written"), ""},
		{"cmd/a.go", code("//nolint:global // never written\nvar a = 1"), ""},
		{"cmd/a.go", code("//nolint:global // never written\n\nvar a = 1"), "there is nothing to explain here"},
		{"cmd/a.go", code("var a = 1 //nolint:global"), "no state in packages"},
		{"cmd/a.go", code("var a = 1 //nolint:doc // another rule"), "no state in packages"},

		{"cmd/a.go", code("func F() {}"), "F is exported"},
		{"cmd/a.go", code("// It does.\nfunc F() {}"), "begins with its name"},
		{"cmd/a.go", code("// F does.\nfunc F() {}"), ""},
		{"cmd/a.go", code("type t struct{}\nfunc (t) F() {}"), ""},
		{"cmd/a.go", code("// T is.\ntype T struct{}\nfunc (*T) F() {}"), "F is exported"},
		{"cmd/a.go", code("// T is.\ntype T struct{}\nfunc (*T) Error() string { return \"\" }"), ""},
		{"cmd/a.go", code("type T struct{}"), "T is exported"},
		{"cmd/a.go", code("// A T is.\ntype T struct{}"), ""},
		{"cmd/a.go", code("var ErrGone = e"), "ErrGone is exported"},
		{"cmd/a.go", code("const C = 1"), ""},
		{"cmd/a_test.go", code("func F() {}"), ""},
		{"cmd/a_test.go", code(strings.Repeat("// A line.\n", maxLines)), "a chapter has"},
	} {
		got := strings.Join(parse(t, tc.file, []byte(tc.text)).problems(), "\n")
		if tc.want == "" {
			require.Empty(t, got, tc.text)
		} else {
			require.Contains(t, got, tc.want, tc.text)
			require.Contains(t, got, tc.file+":", tc.text)
		}
	}
}

// A rule about what is gone would hold nothing.
func TestHouseRulesAreAboutWhatIsThere(t *testing.T) {
	t.Parallel()
	for _, rule := range importRules {
		for _, place := range slices.Concat(rule.in, rule.but, rule.allow, rule.deny) {
			if strings.Contains(place, ".") && !strings.HasPrefix(place, ".") && !strings.HasSuffix(place, ".go") || strings.HasSuffix(place, "$") {
				continue // not ours
			}
			found, err := filepath.Glob(place)
			require.NoError(t, err)
			require.NotEmpty(t, found, "%s: %s", rule.why, place)
		}
	}
}
