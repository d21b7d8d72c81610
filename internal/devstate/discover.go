package devstate

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/outboxctl/outboxctl/internal/fileowner"
)

// InfoFile is the name of the file in a state folder that says where the servers are.
const InfoFile = "stack.json"

// ErrNotRunning means that no stack runs on a state folder.
var ErrNotRunning = errors.New("no embedded stack is running")

// ForeignError means that a state folder, or what is in it, may be another user's.
type ForeignError struct{ error }

// Unwrap returns what was found.
func (e *ForeignError) Unwrap() error { return e.error }

// Hint names the way out.
func (e *ForeignError) Hint() string {
	return "choose a folder of your own with --state-dir or OUTBOXCTL_STATE_DIR"
}

// Info is what a running stack tells other processes about itself.
type Info struct {
	PID            int       `json:"pid"`
	StartedAt      time.Time `json:"startedAt"`
	DatabaseURL    string    `json:"databaseUrl"`
	RedisURL       string    `json:"redisUrl"`
	PubSubEmulator string    `json:"pubsubEmulator"`
	PubSubProject  string    `json:"pubsubProject"`
	// Broker is the settings of the broker that events go to; none where it is the fake.
	Broker map[string]string `json:"broker,omitempty"`
	// UIURL is where the web page is; empty when the stack runs without it.
	UIURL string `json:"uiUrl,omitempty"`
}

// Destination is the settings by which commands find where events go.
func (i Info) Destination() map[string]string {
	if len(i.Broker) > 0 {
		return i.Broker
	}
	return map[string]string{"pubsub.project": i.PubSubProject, "pubsub.emulator": i.PubSubEmulator}
}

// DefaultDir is where `outboxctl dev` keeps its state: OUTBOXCTL_STATE_DIR, else outboxctl/dev in
// the user's state folder. Root's home is closed to the unprivileged user the servers run as, so
// root's default is elsewhere. getenv is os.Getenv or a stand-in.
func DefaultDir(getenv func(string) string) string {
	if dir := getenv("OUTBOXCTL_STATE_DIR"); dir != "" {
		return dir
	}
	if dir := getenv("XDG_STATE_HOME"); dir != "" {
		return filepath.Join(dir, "outboxctl", "dev")
	}
	if os.Geteuid() == 0 {
		return "/var/lib/outboxctl/dev"
	}
	if home := getenv("HOME"); home != "" {
		return filepath.Join(home, ".local", "state", "outboxctl", "dev")
	}
	return filepath.Join(os.TempDir(), fmt.Sprintf("outboxctl-dev-%d", os.Geteuid()))
}

// Discover returns the stack running on a state folder, or ErrNotRunning. A stack that was killed
// leaves its file behind; the lock, which the kernel drops with the process, tells it from a living
// one.
//
// What it says is where commands connect to, so a folder that another user of the machine made in
// our place is a *ForeignError: the default one may lie in the temporary folder, where all may.
func Discover(dir string) (*Info, error) {
	switch err := fileowner.Check(filepath.Join(dir, InfoFile)); {
	case err == nil, errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission): // told apart below
	default:
		return nil, &ForeignError{err}
	}
	content, err := os.ReadFile(filepath.Join(dir, InfoFile))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return nil, ErrNotRunning // another user's stack is not ours to find
	}
	if err != nil {
		return nil, fmt.Errorf("look for a running stack: %w", err)
	}
	held, err := InUse(dir)
	if err != nil {
		return nil, fmt.Errorf("look for a running stack: %w", err)
	}
	if !held {
		return nil, ErrNotRunning
	}
	var info Info
	if err := json.Unmarshal(content, &info); err != nil {
		return nil, fmt.Errorf("look for a running stack: read %s: %w", InfoFile, err)
	}
	return &info, nil
}

// WriteInfo announces a running stack. The caller holds the folder's lock. Readers see the old file
// or the new one, never half of it.
func WriteInfo(dir string, info Info) error {
	content, err := json.MarshalIndent(info, "", "  ")
	if err != nil {
		return fmt.Errorf("announce the stack: %w", err)
	}
	temp, err := os.CreateTemp(dir, InfoFile+".*") // 0600
	if err != nil {
		return fmt.Errorf("announce the stack: %w", err)
	}
	_, err = temp.Write(append(content, '\n'))
	if err = errors.Join(err, temp.Close()); err == nil {
		err = os.Rename(temp.Name(), filepath.Join(dir, InfoFile))
	}
	if err != nil {
		_ = os.Remove(temp.Name())
		return fmt.Errorf("announce the stack: %w", err)
	}
	return nil
}

// RemoveInfo takes the announcement back.
func RemoveInfo(dir string) error {
	if err := os.Remove(filepath.Join(dir, InfoFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("withdraw the stack's announcement: %w", err)
	}
	return nil
}
