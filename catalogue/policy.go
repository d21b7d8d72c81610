package catalogue

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/outboxctl/outboxctl/emit/wire"
)

// policy reads one key of a type's policy.
func (r *reader) policy(what, key string, node *yaml.Node, p *wire.Policy) {
	if key == "backoff" {
		r.mapping(node, what+": backoff", []string{"min", "max"}, func(key string, value *yaml.Node) {
			r.policy(what, "backoff "+key, value, p)
		})
		return
	}
	text, err := r.text(what+": "+key, node), error(nil)
	switch key {
	case "backoff min":
		p.BackoffMin, err = parseSpan(text)
	case "backoff max":
		p.BackoffMax, err = parseSpan(text)
	case "expires_after":
		p.ExpiresAfter, err = parseSpan(text)
	case "rate":
		p.Rate, err = parseRate(text)
	case "max_attempts":
		if p.MaxAttempts, err = strconv.Atoi(text); err != nil || p.MaxAttempts < 1 || p.MaxAttempts > math.MaxInt32 {
			err = fmt.Errorf("is %q, must be a number of at least 1", cut(text))
		}
	}
	if err != nil {
		r.complain(node, "%s: %s %s", what, key, err)
	}
}

// parseSpan reads a length of time: 90s, 15m, 12h, 30d, 2w.
func parseSpan(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	for unit, length := range map[string]time.Duration{"d": 24 * time.Hour, "w": 7 * 24 * time.Hour} {
		if number, ok := strings.CutSuffix(text, unit); ok {
			var n int
			if n, err = strconv.Atoi(number); err == nil && n < 36500 {
				d = time.Duration(n) * length
			}
		}
	}
	if err != nil || d <= 0 {
		return 0, fmt.Errorf("is %q, must be a length of time such as 90s, 15m, 12h or 30d", cut(text))
	}
	return d, nil
}

// parseRate reads events a second: 10, 0.5, 200/s, 30/m.
func parseRate(text string) (float64, error) {
	number, per := text, 1.0
	if n, ok := strings.CutSuffix(text, "/s"); ok {
		number = n
	} else if n, ok := strings.CutSuffix(text, "/m"); ok {
		number, per = n, 60
	}
	n, err := strconv.ParseFloat(number, 64)
	if err != nil || n <= 0 || math.IsInf(n, 0) || math.IsNaN(n) {
		return 0, fmt.Errorf("is %q, must be events a second such as 10, 0.5, 200/s or 30/m", cut(text))
	}
	return n / per, nil
}

// checkPolicy finds what no file could say, and what contradicts itself.
func checkPolicy(p wire.Policy, complain func(key, format string, args ...any)) {
	switch {
	case p.MaxAttempts < 0 || p.MaxAttempts > math.MaxInt32:
		complain("max_attempts", "max_attempts is %d, must be at least 1", p.MaxAttempts)
	case p.BackoffMin < 0 || p.BackoffMax < 0:
		complain("backoff", "backoff must not be negative")
	case p.BackoffMin > 0 && p.BackoffMax > 0 && p.BackoffMax < p.BackoffMin:
		complain("backoff", "backoff max %s is shorter than its min %s", wire.SpanText(p.BackoffMax), wire.SpanText(p.BackoffMin))
	case p.ExpiresAfter < 0 || p.ExpiresAfter > 0 && p.ExpiresAfter < time.Second:
		complain("expires_after", "expires_after is %s, must be at least 1s", p.ExpiresAfter)
	case p.Rate < 0 || p.Rate > 0 && p.Rate < 1.0/3600 || math.IsNaN(p.Rate) || math.IsInf(p.Rate, 0):
		complain("rate", "rate is %g, must be at least one event an hour", p.Rate)
	}
}

// putPolicy writes the policy as Load reads it.
func putPolicy(node *yaml.Node, p wire.Policy) {
	if p.MaxAttempts > 0 {
		put(node, "max_attempts", json.Number(strconv.Itoa(p.MaxAttempts)))
	}
	backoff := &yaml.Node{Kind: yaml.MappingNode, Style: yaml.FlowStyle}
	if p.BackoffMin > 0 {
		put(backoff, "min", wire.SpanText(p.BackoffMin))
	}
	if p.BackoffMax > 0 {
		put(backoff, "max", wire.SpanText(p.BackoffMax))
	}
	if len(backoff.Content) > 0 {
		put(node, "backoff", backoff)
	}
	if p.ExpiresAfter > 0 {
		put(node, "expires_after", wire.SpanText(p.ExpiresAfter))
	}
	if p.Rate > 0 {
		rate := strconv.FormatFloat(p.Rate, 'g', -1, 64)
		put(node, "rate", &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!float", Value: rate})
	}
}
