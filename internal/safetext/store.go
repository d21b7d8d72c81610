package safetext

import (
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// MaxStored is the length in bytes to which error texts are cut before they are stored.
const MaxStored = 1024

// Hidden stands where a secret was.
const Hidden = "****"

// Stored prepares an error text for a database column: secrets removed, no NUL (PostgreSQL refuses
// it), valid UTF-8, at most MaxStored bytes.
func Stored(s string) string {
	s = strings.ToValidUTF8(s, string(utf8.RuneError))
	s = strings.ReplaceAll(s, "\x00", "")
	if s = Redact(s); len(s) <= MaxStored {
		return s
	}
	// The cut may have left a piece of what stands for a secret, which would be taken for one the next
	// time.
	return Cut(Redact(Cut(s, MaxStored)), MaxStored)
}

// Cut shortens s to at most limit bytes without splitting a rune: half a rune makes PostgreSQL
// refuse the whole update.
func Cut(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	const ellipsis = "…"
	end := max(limit-len(ellipsis), 0)
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	if limit < len(ellipsis) {
		return s[:end]
	}
	return s[:end] + ellipsis
}

// The patterns of secrets that appear inside other people's error messages.
var (
	// userinfo of any URL. The password may itself hold an @ when it was not escaped, so the match
	// runs to the last @ before the next blank, quote or slash.
	urlPassword = regexp.MustCompile(`([a-zA-Z][a-zA-Z0-9+.-]*://[^\s/?#:@"'` + "`" + `]*):[^\s/"'` + "`" + `]*@`)
	// The same for the servers' own schemes, where an unescaped slash belongs to the password rather
	// than to a path.
	serverPassword = regexp.MustCompile(`(?i)((?:postgres(?:ql)?|rediss?)://[^\s/?#:@"'` + "`" + `]*):[^\s"'` + "`" + `]*@`)
	// A private key in PEM form, to its end or, where the text was cut, to the text's.
	privateKey = regexp.MustCompile(`(?s)-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----.*?(?:-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----|\z)`)
	// password=… of a keyword connection string or a query parameter, "password": … of a JSON
	// document, access_token: … of a header: whatever stands before such a name, and the value quoted,
	// quoted inside another quoted text, or bare. What is hidden already ends there, so that hiding
	// twice takes no more away.
	keywordSecret = regexp.MustCompile(`(?i)(` + secretName + `)([\\"']*\s*[=:]\s*)` +
		`(?:\*{4}|'(?:[^'\\]|\\.)*'?|"(?:[^"\\]|\\.)*"?|\\+"(?:[^"\\]|\\+[^"\\]|\\{3,}")*(?:\\+")?|[^\s&;,'"]+)`)
	// The same where the whole text is a keyword connection string: only a blank ends a value there.
	keywordValue = regexp.MustCompile(`(?i)\b((?:ssl)?password)(\s*=\s*)('(?:[^'\\]|\\.)*'?|(?:\\.|[^\s\\])+)`)
	// Authorization: Basic …, also without a scheme, and as Go prints a header.
	authorization = regexp.MustCompile(`(?i)(authorization[\\"']*\s*[=:][\s\\"'\[]*(?:(?:basic|bearer|digest|negotiate|token)\s+)?)(?:\*{4}|[^\s,;\\"'\]]+)`)
	// Bearer … anywhere.
	bearer = regexp.MustCompile(`(?i)\b(bearer\s+)[a-z0-9._~+/=-]{8,}`)
)

// secretName is how the name of a secret ends.
const secretName = `pass(?:word|wd|phrase)|pwd|secret|token|(?:api|access|private|secret)[_-]?key|-signature`

// harmless reports whether no pattern can match: nearly all errors, at a hundredth of the patterns'
// cost. What is not ASCII may fold into a hint, and is left to them.
func harmless(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	s = strings.ToLower(s)
	hints := []string{"://", "bearer", "authorization", "pass", "pwd", "secret", "token", "key", "-signature"} // each pattern needs one
	return !slices.ContainsFunc(hints, func(hint string) bool { return strings.Contains(s, hint) })
}

// Redact hides passwords, tokens and keys inside a text of any kind.
func Redact(s string) string {
	if harmless(s) {
		return s
	}
	s = privateKey.ReplaceAllString(s, Hidden)
	s = redactURLs(s)
	s = bearer.ReplaceAllString(s, "$1"+Hidden)
	s = keywordSecret.ReplaceAllString(s, "$1$2"+Hidden)
	s = authorization.ReplaceAllString(s, "$1"+Hidden)
	// A value that is hidden now may have been what kept the parts of a URL from being seen as one.
	return redactURLs(s)
}

func redactURLs(s string) string {
	s = serverPassword.ReplaceAllString(s, "$1:"+Hidden+"@")
	return urlPassword.ReplaceAllString(s, "$1:"+Hidden+"@")
}

// keywordForm is how a keyword connection string begins.
var keywordForm = regexp.MustCompile(`^\s*[a-zA-Z_]+\s*=`)

// URL returns a connection string, in URL or in keyword form, with its secrets hidden. A malformed
// one is hidden up to its last @, since a password that was not escaped may be what makes it
// malformed.
func URL(s string) string {
	u, err := url.Parse(s)
	if err == nil && u.Host != "" && !strayAt(u) {
		return hideParts(u)
	}
	if scheme, rest, found := strings.Cut(s, "://"); found {
		return Redact(scheme + "://" + hideToLastAt(rest))
	}
	if keywordForm.MatchString(s) {
		return Redact(keywordValue.ReplaceAllString(s, "$1$2"+Hidden))
	}
	return hideToLastAt(s)
}

func hideParts(u *url.URL) string {
	if _, has := u.User.Password(); has {
		u.User = url.UserPassword(u.User.Username(), Hidden)
	}
	q := u.Query()
	for name := range q {
		if keywordSecret.MatchString(name + "=x") {
			q.Set(name, Hidden)
		}
	}
	u.RawQuery = q.Encode()
	// The stars need no escaping to be read; url.URL would write %2A.
	return strings.ReplaceAll(u.String(), "%2A%2A%2A%2A", Hidden)
}

// strayAt reports whether an @ stands behind the host: then what was taken for the host is the
// beginning of a password with an unescaped slash, question mark or hash in it.
func strayAt(u *url.URL) bool {
	if strings.Contains(u.EscapedPath(), "@") || strings.Contains(u.EscapedFragment(), "@") {
		return true
	}
	for name := range u.Query() {
		if strings.Contains(name, "@") {
			return true
		}
	}
	return false
}

// Ambiguous reports whether a connection string has an @ behind its host: a driver would take a
// piece of the password for the name of a database, and say it in its errors.
func Ambiguous(s string) bool {
	u, err := url.Parse(s)
	return err == nil && u.Host != "" && strayAt(u)
}

func hideToLastAt(s string) string {
	at := strings.LastIndex(s, "@")
	if at < 0 {
		return s
	}
	return Hidden + s[at:]
}
