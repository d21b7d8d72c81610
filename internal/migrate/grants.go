package migrate

import (
	"fmt"
	"io/fs"
	"regexp"
	"strings"

	"github.com/jackc/pgx/v5"
)

// Roles lists the roles the schema grants to.
func Roles() []string {
	return []string{"outbox_emitter", "outbox_dispatcher", "outbox_operator", "outbox_viewer"}
}

// grantCall is how a migration grants; the statement stands between the quotes.
var grantCall = regexp.MustCompile(`outbox_grant\('(GRANT [^']+ TO (outbox_[a-z]+))'\)`)

// Grants lists the statements that give each role its rights, read from the migrations themselves,
// so that no second list can fall behind. names chooses roles and what they are called, for
// clusters where ours are missing or belong to others; without names it is all of them.
func Grants(fsys fs.FS, names map[string]string) ([]string, error) {
	known, err := steps(fsys)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, step := range known {
		sql, _, err := statements(fsys, step)
		if err != nil {
			return nil, err
		}
		for _, m := range grantCall.FindAllStringSubmatch(sql, -1) {
			statement, role := m[1], m[2]
			name, chosen := names[role]
			if !chosen && len(names) > 0 {
				continue
			}
			if chosen {
				statement = strings.TrimSuffix(statement, role) + quoteRole(name)
			}
			out = append(out, statement+";")
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("no grants in the migrations")
	}
	return out, nil
}

// quoteRole quotes a role name unless it is a plain lower-case word.
func quoteRole(name string) string {
	if regexp.MustCompile(`^[a-z_][a-z0-9_]*$`).MatchString(name) {
		return name
	}
	return pgx.Identifier{name}.Sanitize()
}
