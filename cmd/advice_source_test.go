package cmd_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// adviceOf are the commands of the code: what why does, and doctor's remedies that are commands.
func adviceOf(t *testing.T) []string {
	t.Helper()
	var all []string
	files, names := token.NewFileSet(), []string{}
	for _, pattern := range []string{"../internal/why/w*.go", "../internal/why/fa*.go", "../internal/doctor/*.go"} {
		found, err := filepath.Glob(pattern)
		require.NoError(t, err)
		names = append(names, found...)
	}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(files, name, nil, 0)
		require.NoError(t, err)
		ast.Inspect(file, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
				if text, _ := strconv.Unquote(lit.Value); strings.HasPrefix(text, "outboxctl ") && !slices.Contains(all, text) {
					all = append(all, text)
				}
			}
			return true
		})
	}
	return all
}
