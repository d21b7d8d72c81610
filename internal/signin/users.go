package signin

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/bcrypt"

	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/signin/way"
	"github.com/outboxctl/outboxctl/ui"
)

const (
	// checksAtOnce is how many passwords are checked at the same time: a check takes a tenth of a second
	// of a core, and guesses must leave the page the others.
	checksAtOnce = 2
	// checkWait is how long a password waits for its check; a person would have asked again by then.
	checkWait = 10 * time.Second
)

// Users lets in the people and scripts of a file, by HTTP Basic with a password or by a Bearer
// token. Nobody is ever locked out: wrong passwords are not counted, and one that was right is not
// checked again, so who has signed in does not wait behind those who guess.
type Users struct {
	people map[string]user
	// tokens is by the hash of the token.
	tokens map[string]ui.Identity
	key    []byte
	// checks has room for as many as may be made at once; compare makes one.
	checks  chan struct{}
	compare func(hash, password []byte) error

	mu sync.Mutex
	// right has the mark of each password that was found right, at most one for each name.
	right map[string]bool
}

type user struct {
	role ui.Role
	hash []byte
}

// ParseUsers reads lines of name:role:bcrypt-hash and name:role:sha256:hash-of-a-token. It reports
// every line that is wrong, by its number: what the line holds is a secret.
func ParseUsers(text string) (*Users, error) {
	u := &Users{
		people: map[string]user{}, tokens: map[string]ui.Identity{}, key: make([]byte, 32), right: map[string]bool{},
		checks: make(chan struct{}, checksAtOnce), compare: bcrypt.CompareHashAndPassword,
	}
	_, _ = rand.Read(u.key) // it never fails
	var problems []error
	for i, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if err := u.add(line); err != nil {
			problems = append(problems, fmt.Errorf("line %d: %w", i+1, err))
		}
	}
	if len(u.people)+len(u.tokens) == 0 && len(problems) == 0 {
		problems = append(problems, errors.New("names no user"))
	}
	return u, errors.Join(problems...)
}

func (u *Users) add(line string) error {
	parts := strings.SplitN(line, ":", 3)
	if len(parts) != 3 || parts[0] == "" {
		return errors.New("must be name:role:hash")
	}
	name, role, hash := parts[0], ui.Role(parts[1]), parts[2]
	if role != ui.Viewer && role != ui.Operator {
		return errors.New("the role is neither viewer nor operator")
	}
	if digest, ok := strings.CutPrefix(hash, "sha256:"); ok {
		if raw, err := hex.DecodeString(digest); err != nil || len(raw) != sha256.Size {
			return errors.New("the hash of the token is not 64 hexadecimal digits")
		}
		u.tokens[strings.ToLower(digest)] = ui.Identity{Name: name, Role: role, Auth: way.Users}
		return nil
	}
	if _, err := bcrypt.Cost([]byte(hash)); err != nil {
		return errors.New("the hash is not one of bcrypt, such as htpasswd -nB -C 12 makes")
	}
	if _, twice := u.people[name]; twice {
		return errors.New("the name has a password already")
	}
	u.people[name] = user{role, []byte(hash)}
	return nil
}

// Identify implements Method.
func (u *Users) Identify(r *http.Request) (ui.Identity, error) {
	if token, ok := bearerOf(r); ok {
		sum := sha256.Sum256([]byte(token))
		if who, known := u.tokens[hex.EncodeToString(sum[:])]; known {
			return who, nil
		}
		return ui.Identity{}, ui.ErrNotSignedIn // a token is too long to be guessed
	}
	name, password, given := r.BasicAuth()
	if !given {
		return ui.Identity{}, fault.Hint(ui.ErrNotSignedIn, "sign in with your name and password; scripts send Authorization: Bearer")
	}
	if err := u.check(r.Context(), name, password); err != nil {
		return ui.Identity{}, err
	}
	return ui.Identity{Name: name, Role: u.people[name].role, Auth: way.Users}, nil
}

// check finds a password right, or waits for its turn to check it.
func (u *Users) check(ctx context.Context, name, password string) error {
	mark := u.mark(name, password)
	if u.wasRight(mark) {
		return nil
	}
	late := time.NewTimer(checkWait)
	defer late.Stop()
	select {
	case u.checks <- struct{}{}:
		defer func() { <-u.checks }()
	case <-late.C:
		return fault.Hint(fmt.Errorf("%w: many passwords wait to be checked", ui.ErrBusy), "try again in a moment")
	case <-ctx.Done():
		return ctx.Err()
	}
	person, exists := u.people[name]
	hash := person.hash
	if !exists {
		hash = u.anyHash() // an unknown name takes as long as a known one
	}
	if err := u.compare(hash, []byte(password)); err != nil || !exists {
		return ui.ErrNotSignedIn
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.right[mark] = true
	return nil
}

// Challenge implements Method.
func (u *Users) Challenge() string { return `Basic realm="outboxctl", charset="UTF-8"` }

func (u *Users) anyHash() []byte {
	for _, person := range u.people {
		return person.hash
	}
	return nil
}

// mark stands for a name and a password in memory, by a key that only this process has.
func (u *Users) mark(name, password string) string {
	mac := hmac.New(sha256.New, u.key)
	_, _ = fmt.Fprintf(mac, "%d:%s%s", len(name), name, password) // a hash takes everything
	return string(mac.Sum(nil))
}

func (u *Users) wasRight(mark string) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.right[mark]
}
