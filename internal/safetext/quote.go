package safetext

import (
	"regexp"
	"strings"
)

// plainWord needs no quotes in any shell.
var plainWord = regexp.MustCompile(`^[A-Za-z0-9_./:,@%+=-]+$`)

// QuoteWord quotes a word for a shell where it must be.
func QuoteWord(word string) string {
	if plainWord.MatchString(word) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
