package safetext_test

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/safetext"
)

func TestLine(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ in, want string }{
		"plain":          {"order 7 café ✓", "order 7 café ✓"},
		"escape":         {"\x1b[31mred", "^[[31mred"},
		"C1 CSI":         {"a\u009b31mb", "a<U+009B>31mb"},
		"bidi override":  {"abc\u202Edef", "abc<U+202E>def"},
		"isolate":        {"\u2066x\u2069", "<U+2066>x<U+2069>"},
		"zero width":     {"pass\u200Bword", "pass<U+200B>word"},
		"line feed":      {"one\ntwo\r", "one^Jtwo^M"},
		"delete":         {"a\x7fb", "a<U+007F>b"},
		"broken UTF-8":   {"a\xffb", "a\uFFFDb"},
		"raw C1 byte":    {"a\x9bb", "a\uFFFDb"},
		"line separator": {"a\u2028b", "a<U+2028>b"},
		"tag characters": {"a\U000E0041b", "a<U+E0041>b"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, safetext.Line(tc.in))
		})
	}
}

func TestBlockKeepsLinesAndTabs(t *testing.T) {
	t.Parallel()
	require.Equal(t, "one\n\ttwo^[c", safetext.Block("one\n\ttwo\x1bc"))
}

func TestJSONKeepsItsMeaning(t *testing.T) {
	t.Parallel()
	in := map[string]string{"a": "x\u009b31m\u202Ey\n\x7f"}
	doc, err := json.MarshalIndent(in, "", "  ")
	require.NoError(t, err)
	out := safetext.JSON(doc)
	require.NotContains(t, string(out), "\u009b")
	require.NotContains(t, string(out), "\u202E")
	require.NotContains(t, string(out), "\x7f")
	var back map[string]string
	require.NoError(t, json.Unmarshal(out, &back))
	require.Equal(t, in, back)
}

func TestCutStaysOnARuneBoundary(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("é", 1000)
	for limit := range 40 {
		got := safetext.Cut(long, limit)
		require.LessOrEqual(t, len(got), limit)
		require.True(t, utf8.ValidString(got), "limit %d gives %q", limit, got)
	}
	require.Equal(t, "short", safetext.Cut("short", 5))
	require.Equal(t, "sho…", safetext.Cut("shorter", 6))
}

func TestRedact(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ in, want string }{
		"url":              {"dial postgres://app:s3cret@db:5432/x: refused", "dial postgres://app:****@db:5432/x: refused"},
		"url, no user":     {"redis://:s3cret@cache:6379/0", "redis://:****@cache:6379/0"},
		"unescaped @":      {"postgres://app:s3@cret@db/x", "postgres://app:****@db/x"},
		"keyword":          {"host=db password=s3cret user=app", "host=db password=**** user=app"},
		"keyword, quoted":  {"password = 's3 \\' cret' host=db", "password = **** host=db"},
		"url, slash":       {"dial postgres://app:a/s3cret@db/x: refused", "dial postgres://app:****@db/x: refused"},
		"keyword, open":    {"host=db password='s3cret", "host=db password=****"},
		"query parameter":  {"postgres://db/x?password=s3cret&sslmode=require", "postgres://db/x?password=****&sslmode=require"},
		"bearer":           {"authorization: Bearer ya29.s3cret-token", "authorization: Bearer ****"},
		"nothing to hide":  {"connect to db:5432 as app: refused", "connect to db:5432 as app: refused"},
		"time is no login": {"at 12:30:01 user@example.com wrote", "at 12:30:01 user@example.com wrote"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, safetext.Redact(tc.in))
		})
	}
}

// The names under which secrets come, and the forms.
func TestRedactHidesNamedSecrets(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		`token: s3cret`:                                 `token: ****`,
		`access_token=ya29.s3cret`:                      `access_token=****`,
		`accessToken=ya29.s3cret`:                       `accessToken=****`,
		`client_secret=s3cret&grant_type=x`:             `client_secret=****&grant_type=x`,
		`refresh_token: s3cret, id_token: s3cret`:       `refresh_token: ****, id_token: ****`,
		`api_key=s3cret apikey=s3cret x-api-key:s3cret`: `api_key=**** apikey=**** x-api-key:****`,
		`secret_key: s3cret passwd: s3cret`:             `secret_key: **** passwd: ****`,
		`PWD=s3cret`:                                    `PWD=****`,
		`GET /o?X-Goog-Signature=s3cret&x=1`:            `GET /o?X-Goog-Signature=****&x=1`,
		`{"password": "s3cret", "user": "app"}`:         `{"password": ****, "user": "app"}`,
		`{"access_token":"ya29.s3cret"}`:                `{"access_token":****}`,
		`{"password": "a\"s3cret"} x`:                   `{"password": ****} x`,
		`body "{\"password\": \"s3cret\"}" x`:           `body "{\"password\": ****}" x`,
		`"{\"password\": \"a\\\"s3cret\"}" x`:           `"{\"password\": ****}" x`,
		`"{\\\"password\\\": \\\"s3cret\\\"}" x`:        `"{\\\"password\\\": ****" x`,
		`{'password': 's3cret'}`:                        `{'password': ****}`,
		`token: Bearer ya29.s3cret`:                     `token: **** ****`,
		`Authorization: Basic s3cret`:                   `Authorization: Basic ****`,
		`Authorization: s3cret`:                         `Authorization: ****`,
		`Proxy-Authorization=basic s3cret`:              `Proxy-Authorization=basic ****`,
		`{"Authorization": "Basic s3cret"}`:             `{"Authorization": "Basic ****"}`,
		`map[Authorization:[Basic s3cret] X:[y]]`:       `map[Authorization:[Basic ****] X:[y]]`,
		"key -----BEGIN RSA PRIVATE KEY-----\ns3cret\n-----END RSA PRIVATE KEY----- x":                  "key **** x",
		"-----BEGIN PRIVATE KEY-----\ns3cret":                                                           "****",
		`private_key: -----BEGIN PRIVATE KEY-----s3cret-----END PRIVATE KEY-----`:                       `private_key: ****`,
		`{"private_key": "-----BEGIN PRIVATE KEY-----\ns3cret\n-----END PRIVATE KEY-----\n", "x": "y"}`: `{"private_key": ****, "x": "y"}`,
		`{"private_key": "-----BEGIN PRIVATE KEY-----\ns3cre`:                                           `{"private_key": ****`,
		`postgres://token="a b":s3cret@db/x`:                                                            `postgres://token=****:****@db/x`,
	} {
		got := safetext.Redact(in)
		require.Equal(t, want, got)
		require.Equal(t, got, safetext.Redact(got), "hiding twice")
	}
}

// What only speaks of secrets stays readable.
func TestRedactKeepsOrdinaryErrors(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"token expired", "invalid token", "the secret is missing", `password authentication failed for user "app"`, "attempts=3",
		"bucket: tokens exhausted", `"Invalid JWT Signature."`, "authorization failed: no rights", "tokens=3",
		"-----BEGIN CERTIFICATE-----", "rpc error: code = Unauthenticated desc = no bearer token",
	} {
		require.Equal(t, text, safetext.Redact(text))
	}
}

// A text that is stored, read and stored again stays the same, wherever the cut fell.
func TestStoredTwiceIsStoredOnce(t *testing.T) {
	t.Parallel()
	for _, secret := range []string{"token: s3cret", "Authorization: Basic s3cret", "postgres://app:s3cret@db/x", "Bearer s3cret-s3cret"} {
		for pad := safetext.MaxStored - 2*len(secret); pad <= safetext.MaxStored; pad++ {
			once := safetext.Stored(strings.Repeat("x", pad) + " " + secret + " and so on")
			require.LessOrEqual(t, len(once), safetext.MaxStored)
			require.NotContains(t, once, "s3c")
			require.Equal(t, once, safetext.Stored(once))
		}
	}
}

func TestURL(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"postgres://app:s3cret@db/x?sslmode=require": "postgres://app:****@db/x?sslmode=require",
		"postgres://db/x?password=s3cret&user=app":   "postgres://db/x?password=****&user=app",
		"host=db password=s3cret":                    "host=db password=****",
		"rediss://:s3cret@cache:6380/1":              "rediss://:****@cache:6380/1",
		"postgres://db/x":                            "postgres://db/x",
		// Passwords that were not escaped.
		"postgres://app:12/s3cret@db:5432/x": "postgres://****@db:5432/x",
		"postgres://app:12#s3cret@db/x":      "postgres://****@db/x",
		"postgres://app:12?s3cret@db/x":      "postgres://****@db/x",
		"postgres://app:a/s3cret@db:5432/x":  "postgres://****@db:5432/x",
		"postgres://app:%zzs3cret@db/x":      "postgres://****@db/x",
		"mysql://app:a/s3cret@db/x":          "mysql://****@db/x",
		"app:s3=cret@db/x":                   "****@db/x",
		"host=db password='s3cret":           "host=db password=****",
		"host=db password=a;s3cret user=app": "host=db password=**** user=app",
		`password=a\ s3cret host=db`:         "password=**** host=db",
		"not a connection string":            "not a connection string",
	} {
		require.Equal(t, want, safetext.URL(in))
	}
}
