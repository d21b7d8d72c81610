package signin

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/bcrypt"

	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/ratelimit"
	"github.com/outboxctl/outboxctl/ui"
)

const (
	// remembered is how long a password that was right is not checked again: a check takes a tenth of a second on purpose.
	remembered = 5 * time.Minute
	// failures is how many wrong sign-ins one address has in a minute.
	failures = 20
	// kept bounds the memory for passwords that were right.
	kept = 10_000
)

// Users lets in the people and scripts of a file, by HTTP Basic with a password or by a Bearer token.
type Users struct {
	now    func() time.Time
	people map[string]user
	// tokens is by the hash of the token.
	tokens map[string]ui.Identity
	key    []byte

	failed *ratelimit.PerName

	// checking is held while a password is checked.
	checking sync.Mutex

	mu    sync.Mutex
	right map[string]time.Time
}

type user struct {
	role ui.Role
	hash []byte
}

// ParseUsers reads lines of name:role:bcrypt-hash and name:role:sha256:hash-of-a-token. It reports every line that is wrong,
// by its number: what the line holds is a secret.
func ParseUsers(text string, now func() time.Time) (*Users, error) {
	u := &Users{
		now: now, people: map[string]user{}, tokens: map[string]ui.Identity{}, key: make([]byte, 32),
		right: map[string]time.Time{}, failed: ratelimit.New(failures),
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
		u.tokens[strings.ToLower(digest)] = ui.Identity{Name: name, Role: role, Auth: NameUsers}
		return nil
	}
	if _, err := bcrypt.Cost([]byte(hash)); err != nil {
		return errors.New("the hash is not one of bcrypt, such as htpasswd -nB makes")
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
		return ui.Identity{}, u.refuse(r)
	}
	name, password, given := r.BasicAuth()
	if !given {
		return ui.Identity{}, fault.Hint(ui.ErrNotSignedIn, "sign in with your name and password; scripts send Authorization: Bearer")
	}
	mark := u.mark(name, password)
	if u.remembers(mark) {
		return u.identity(name), nil
	}
	// One at a time: many that come at once would all be checked before the first of them is counted.
	u.checking.Lock()
	defer u.checking.Unlock()
	if u.remembers(mark) {
		return u.identity(name), nil
	}
	if u.failed.Of(addressOf(r)).Tokens() < 1 {
		return ui.Identity{}, fmt.Errorf("%w: too many wrong passwords from this address", ui.ErrBusy)
	}
	person, known := u.people[name]
	hash := person.hash
	if !known {
		hash = u.anyHash() // an unknown name takes as long as a known one
	}
	if err := bcrypt.CompareHashAndPassword(hash, []byte(password)); err != nil || !known {
		return ui.Identity{}, u.refuse(r)
	}
	u.remember(mark)
	return u.identity(name), nil
}

// Challenge implements Method.
func (u *Users) Challenge() string { return `Basic realm="outboxctl", charset="UTF-8"` }

func (u *Users) identity(name string) ui.Identity {
	return ui.Identity{Name: name, Role: u.people[name].role, Auth: NameUsers}
}

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

func (u *Users) remembers(mark string) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.now().Before(u.right[mark])
}

func (u *Users) remember(mark string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.right) >= kept {
		clear(u.right)
	}
	u.right[mark] = u.now().Add(remembered)
}

// refuse counts a wrong sign-in against the address it came from.
func (u *Users) refuse(r *http.Request) error {
	if !u.failed.Of(addressOf(r)).Allow() {
		return fmt.Errorf("%w: too many wrong sign-ins from this address", ui.ErrBusy)
	}
	return ui.ErrNotSignedIn
}

// addressOf is where a request came from, without the port.
func addressOf(r *http.Request) string {
	address, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return address
}
