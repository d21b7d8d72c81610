package catalogue_test

import (
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/catalogue"
	"github.com/outboxctl/outboxctl/emit/wire"
)

func policyFile(policy string) fstest.MapFS {
	return fstest.MapFS{"c.yaml": {Data: []byte("outbox: 1\nname: x\ntopics: {a: a}\ndefaults: {max_attempts: 7}\ntypes:\n  t: {topic: a, aggregate: none, " + policy + "}\n  u: {topic: a, aggregate: none}\n")}}
}

func TestPolicyIsRead(t *testing.T) {
	t.Parallel()
	c, err := catalogue.Load(policyFile("max_attempts: 5, backoff: {min: 2s, max: 5m}, expires_after: 2d, rate: 30/m"), "c.yaml")
	require.NoError(t, err)
	want := wire.Policy{MaxAttempts: 5, BackoffMin: 2 * time.Second, BackoffMax: 5 * time.Minute, ExpiresAfter: 48 * time.Hour, Rate: 0.5}
	found, _ := c.Find("", "t")
	require.Equal(t, want, found.Policy)
	require.Equal(t, "max_attempts 5, backoff min 2s, backoff max 5m, expires_after 48h, rate 0.5/s", found.Policy.String())
	other, _ := c.Find("", "u")
	require.Equal(t, wire.Policy{MaxAttempts: 7}, other.Policy, "defaults hold")

	text, err := c.YAML()
	require.NoError(t, err)
	again, err := catalogue.Load(fstest.MapFS{"c.yaml": {Data: text}}, "c.yaml")
	require.NoError(t, err, string(text))
	back, _ := again.Find("", "t")
	require.Equal(t, found.Digest(), back.Digest(), string(text))
	require.NotEqual(t, found.Digest(), other.Digest())
}

func TestPolicyRefusals(t *testing.T) {
	t.Parallel()
	for policy, want := range map[string]string{
		"max_attempts: 0":             `type t: max_attempts is "0", must be a number of at least 1`,
		"max_attempts: many":          `type t: max_attempts is "many", must be a number of at least 1`,
		"backoff: {min: 5m, max: 1s}": `type t: backoff max 1s is shorter than its min 5m`,
		"backoff: {min: soon}":        `type t: backoff min is "soon", must be a length of time such as 90s, 15m, 12h or 30d`,
		"backoff: {least: 1s}":        `type t: backoff has the unknown key "least"`,
		"backoff: 5s":                 `type t: backoff must be a mapping`,
		"expires_after: 0":            `type t: expires_after is "0", must be a length of time`,
		"expires_after: 20ms":         `type t: expires_after is 20ms, must be at least 1s`,
		"rate: fast":                  `type t: rate is "fast", must be events a second such as 10, 0.5, 200/s or 30/m`,
		"rate: -1":                    `type t: rate is "-1", must be events a second`,
		"rate: 0.0001":                `type t: rate is 0.0001, must be at least one event an hour`,
		"expire_after: 1h":            `unknown key "expire_after" (did you mean expires_after?)`,
	} {
		_, err := catalogue.Load(policyFile(policy), "c.yaml")
		require.ErrorContains(t, err, want, policy)
	}
	_, err := catalogue.New("x", catalogue.Type{Name: "t", Topic: "a", Aggregate: catalogue.None, Policy: wire.Policy{Rate: -1, MaxAttempts: -2}})
	require.ErrorContains(t, err, "type t: max_attempts is -2, must be at least 1")
}
