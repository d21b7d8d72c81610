// Package signin tells who uses the web page that outboxctl serves: any process that reaches the
// port, who has the printed link, the users of a file, or those that a proxy vouches for with a
// signed token.
//
// What it guarantees: an identity is believed only with a secret or a signature; a bare header such
// as X-Forwarded-User never is. Secrets are compared in constant time and reach no log.
package signin

import (
	"net/http"

	"github.com/outboxctl/outboxctl/internal/signin/way"
	"github.com/outboxctl/outboxctl/ui"
)

// Method is one way to sign in.
type Method interface {
	// Identify returns who makes a request.
	Identify(r *http.Request) (ui.Identity, error)
	// Challenge is the WWW-Authenticate of an answer to a user who is not signed in.
	Challenge() string
}

// bearing is a Method that scripts use with a Bearer.
type bearing struct{}

// Challenge implements Method.
func (bearing) Challenge() string { return `Bearer realm="outboxctl"` }

// None lets in all who reach the port, as the person who runs the process.
type None struct {
	bearing

	Name string
	Role ui.Role
}

// Identify implements Method.
func (n None) Identify(*http.Request) (ui.Identity, error) {
	return ui.Identity{Name: n.Name, Role: n.Role, Auth: way.None}, nil
}
