package signin_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/bcrypt"

	"github.com/outboxctl/outboxctl/internal/signin"
	"github.com/outboxctl/outboxctl/internal/signin/way"
	"github.com/outboxctl/outboxctl/ui"
)

// people returns a sign-in of ann, bob and cyd, whose passwords are their names, behind a proxy at 10.0.0.1. The function asks as
// someone at an address that the proxy saw.
func people(t *testing.T, trusted ...string) func(name, password, from string) error {
	t.Helper()
	lines := ""
	for _, name := range []string{"ann", "bob", "cyd"} {
		hash, err := bcrypt.GenerateFromPassword([]byte(name), bcrypt.MinCost)
		require.NoError(t, err)
		lines += name + ":viewer:" + string(hash) + "\n"
	}
	users, err := signin.ParseUsers(lines, time.Now)
	require.NoError(t, err)
	proxies, wrong := way.ParseProxies(trusted)
	require.Empty(t, wrong)
	return func(name, password, from string) (err error) {
		r := request(t, "/", "X-Forwarded-For", from)
		r.RemoteAddr = "10.0.0.1:4711"
		r.SetBasicAuth(name, password)
		signin.Behind(proxies, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { _, err = users.Identify(r) })).ServeHTTP(httptest.NewRecorder(), r)
		return err
	}
}

// guess asks until it is stopped, and returns how many wrong passwords were looked at before.
func guess(t *testing.T, ask func(i int) error) int {
	t.Helper()
	for i := range 1000 {
		if err := ask(i); !errors.Is(err, ui.ErrNotSignedIn) {
			require.ErrorIs(t, err, ui.ErrBusy)
			return i
		}
	}
	t.Fatal("nobody stops a thousand guesses")
	return 0
}

// Behind a proxy all come from one address: who guesses there must not lock out the others.
func TestAStrangerBehindTheSameProxyLocksNobodyOut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { // time stands still, so that no limit is eased
		ask := people(t) // the proxy is not trusted, so nothing else is known
		require.NoError(t, ask("bob", "bob", "192.0.2.2"))
		for i := range 200 {
			require.Error(t, ask(fmt.Sprint("made-up", i), "x", "203.0.113.9"))
		}
		require.NoError(t, ask("ann", "ann", "192.0.2.1"), "made-up names are not hers")
		n := guess(t, func(i int) error { return ask("bob", fmt.Sprint("guess", i), "203.0.113.9") })
		require.Equal(t, 20, n)
		require.NoError(t, ask("bob", "bob", "192.0.2.2"), "what was right before is no guess")
		require.NoError(t, ask("cyd", "cyd", "192.0.2.3"), "and bob's limit is not his")
	})
}

// A trusted proxy tells clients apart, so a stranger at another address does not lock out a name either; guessing a name from
// many addresses ends all the same.
func TestGuessesOfANameAreLimited(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { // time stands still, so that no limit is eased
		ask := people(t, "10.0.0.0/24")
		require.Equal(t, 20, guess(t, func(i int) error { return ask("ann", fmt.Sprint(i), "203.0.113.9") }))
		require.NoError(t, ask("ann", "ann", "192.0.2.1"), "she never signed in before, and comes from elsewhere")
		n := guess(t, func(i int) error { return ask("bob", fmt.Sprint(i), fmt.Sprintf("203.0.113.%d", i%250)) })
		require.Equal(t, 100, n, "all addresses together")
		require.Equal(t, 20, guess(t, func(i int) error { return ask("cyd", fmt.Sprint(i), fmt.Sprintf("2001:db8::%x", i+1)) }), "one network of IPv6 is one client")
		for i := range 12_000 { // more names than are kept
			require.Error(t, ask(fmt.Sprint("made-up", i), "x", "198.51.100.7"))
		}
		require.ErrorIs(t, ask("bob", "guess", "203.0.113.251"), ui.ErrBusy, "made-up names do not make his limit begin again")
	})
}

// Only what a trusted proxy appended is believed.
func TestForwardedAddresses(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		trusted   []string
		peer      string
		forwarded []string
		want      string
	}{
		"no proxy is trusted":        {nil, "10.0.0.1:1", []string{"192.0.2.1"}, "10.0.0.1:1"},
		"a client makes it up":       {[]string{"10.0.0.1"}, "203.0.113.9:1", []string{"192.0.2.1"}, "203.0.113.9:0"},
		"a proxy":                    {[]string{"10.0.0.1"}, "10.0.0.1:1", []string{"192.0.2.1"}, "192.0.2.1:0"},
		"a client lies to the proxy": {[]string{"10.0.0.1"}, "10.0.0.1:1", []string{"127.0.0.1, 10.0.0.1, 203.0.113.9"}, "203.0.113.9:0"},
		"in a header of its own":     {[]string{"10.0.0.1"}, "10.0.0.1:1", []string{"127.0.0.1", "203.0.113.9"}, "203.0.113.9:0"},
		"two proxies":                {[]string{"10.0.0.0/8", "2001:db8::/32"}, "[2001:db8::5]:1", []string{"127.0.0.1, 203.0.113.9, 10.1.1.1"}, "203.0.113.9:0"},
		"a proxy that says nothing":  {[]string{"10.0.0.1"}, "10.0.0.1:1", nil, "10.0.0.1:0"},
		"not an address":             {[]string{"10.0.0.0/8"}, "10.0.0.1:1", []string{"192.0.2.1, evil, 10.0.0.2"}, "10.0.0.2:0"},
		"with a port":                {[]string{"10.0.0.1"}, "10.0.0.1:1", []string{"[2001:db8::1]:443"}, "[2001:db8::1]:0"},
		"a proxy as mapped IPv6":     {[]string{"10.0.0.1"}, "[::ffff:10.0.0.1]:1", []string{"192.0.2.1"}, "192.0.2.1:0"},
	} {
		proxies, wrong := way.ParseProxies(tc.trusted)
		require.Empty(t, wrong)
		r := request(t, "/")
		r.RemoteAddr, r.Header["X-Forwarded-For"] = tc.peer, tc.forwarded
		var got string
		signin.Behind(proxies, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = r.RemoteAddr })).ServeHTTP(httptest.NewRecorder(), r)
		require.Equal(t, tc.want, got, name)
	}
	_, wrong := way.ParseProxies([]string{"10.0.0.1", "proxy.example", "10.0.0.0/33"})
	require.Equal(t, []string{"proxy.example", "10.0.0.0/33"}, wrong)
}
