package signin

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/bcrypt"
	"golang.org/x/time/rate"

	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/signin/way"
	"github.com/outboxctl/outboxctl/internal/wait"
	"github.com/outboxctl/outboxctl/ui"
)

const (
	// remembered is how long a password that was right is not checked again, which takes a while.
	remembered = 5 * time.Minute
	kept       = 10_000 // at most
)

// Users lets in the people and scripts of a file, by HTTP Basic with a password or by a Bearer
// token.
type Users struct {
	now    func() time.Time
	people map[string]user
	// tokens is by the hash of the token.
	tokens map[string]ui.Identity
	key    []byte

	// known and unknown are the wrong passwords of names that exist and of others: who makes up names
	// must not use up the limits of those that exist.
	known, unknown guesses
	// made is how many made-up names have a password checked; took is how long the last check did.
	made *rate.Limiter
	took atomic.Int64

	// checking is held while a password is checked.
	checking sync.Mutex

	mu sync.Mutex
	// right is when a password was last found right, by its mark.
	right map[string]time.Time
}

type user struct {
	role ui.Role
	hash []byte
}

// ParseUsers reads lines of name:role:bcrypt-hash and name:role:sha256:hash-of-a-token. It reports
// every line that is wrong, by its number: what the line holds is a secret.
func ParseUsers(text string, now func() time.Time) (*Users, error) {
	u := &Users{
		now: now, people: map[string]user{}, tokens: map[string]ui.Identity{}, key: make([]byte, 32),
		right: map[string]time.Time{}, known: newGuesses(), unknown: newGuesses(), made: rate.NewLimiter(rate.Every(time.Minute/madeUp), madeUp),
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
		return ui.Identity{}, ui.ErrNotSignedIn // a token is too long to be guessed
	}
	name, password, given := r.BasicAuth()
	if !given {
		return ui.Identity{}, fault.Hint(ui.ErrNotSignedIn, "sign in with your name and password; scripts send Authorization: Bearer")
	}
	mark := u.mark(name, password)
	if lately, _ := u.wasRight(mark); lately {
		return u.identity(name), nil
	}
	if _, exists := u.people[name]; !exists && !u.made.Allow() {
		return ui.Identity{}, u.pretend(r, name)
	}
	// One at a time: many that come at once would all be checked before the first of them is counted.
	u.checking.Lock()
	defer u.checking.Unlock()
	lately, once := u.wasRight(mark)
	if lately {
		return u.identity(name), nil
	}
	if err := u.check(addressOf(r), name, password, once); err != nil {
		return ui.Identity{}, err
	}
	u.remember(mark)
	return u.identity(name), nil
}

// check checks a password. One that was right before is no guess: it is checked however many were
// wrong, so that nobody who signed in before is locked out by others.
func (u *Users) check(address, name, password string, once bool) error {
	limits, hash := u.unknown, u.anyHash() // an unknown name takes as long as a known one
	person, exists := u.people[name]
	if exists {
		limits, hash = u.known, person.hash
	}
	if !once && !limits.left(address, name) {
		return errGuessed
	}
	began := time.Now()
	err := bcrypt.CompareHashAndPassword(hash, []byte(password))
	u.took.Store(int64(time.Since(began)))
	if err != nil || !exists {
		limits.wrong(address, name)
		return ui.ErrNotSignedIn
	}
	return nil
}

// pretend refuses a made-up name after the time that a check takes, without one: they would take
// the processor from those who exist.
func (u *Users) pretend(r *http.Request, name string) error {
	address := addressOf(r)
	if !u.unknown.left(address, name) {
		return errGuessed
	}
	u.unknown.wrong(address, name)
	_ = wait.For(r.Context(), time.Duration(u.took.Load())) // who has gone needs no answer
	return ui.ErrNotSignedIn
}

// Challenge implements Method.
func (u *Users) Challenge() string { return `Basic realm="outboxctl", charset="UTF-8"` }

func (u *Users) identity(name string) ui.Identity {
	return ui.Identity{Name: name, Role: u.people[name].role, Auth: way.Users}
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

// wasRight reports whether a password was right lately, or at least once.
func (u *Users) wasRight(mark string) (lately, once bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	at, once := u.right[mark]
	return once && u.now().Before(at.Add(remembered)), once
}

func (u *Users) remember(mark string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.right) >= kept {
		clear(u.right)
	}
	u.right[mark] = u.now()
}
