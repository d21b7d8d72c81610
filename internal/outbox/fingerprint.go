package outbox

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"strings"
)

// What differs between two occurrences of the same error, most specific
// first: a timestamp must go before its digits do.
//
//nolint:global // compiled once and never written
var fingerprintNoise = []struct {
	pattern *regexp.Regexp
	with    string
}{
	{regexp.MustCompile(`(?i)[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`), "<id>"},
	{regexp.MustCompile(`\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}(:\d{2}(\.\d+)?)?(Z|[+-]\d{2}:?\d{2})?)?`), "<time>"},
	{regexp.MustCompile(`"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|` + "`[^`]*`"), "<value>"},
	{regexp.MustCompile(`\d+(\.\d+){3}(:\d+)?|\[[0-9a-fA-F:]+\](:\d+)?`), "<address>"},
	{regexp.MustCompile(`(?i)\b0x[0-9a-f]+\b|\b[0-9a-f]*\d[0-9a-f]{7,}\b`), "<hex>"},
	{regexp.MustCompile(`\d+(\.\d+)?`), "<n>"},
	{regexp.MustCompile(`\s+`), " "},
}

// NormalizeError replaces what differs between two occurrences of the same
// error (ids, times, quoted values, addresses, numbers) by placeholders.
func NormalizeError(message string) string {
	for _, noise := range fingerprintNoise {
		message = noise.pattern.ReplaceAllString(message, noise.with)
	}
	return strings.TrimSpace(message)
}

// Fingerprint identifies the cause of a death: it is equal for two rows that died of
// the same error, whatever ids and values the error mentions.
func Fingerprint(reason DeadReason, message string) string {
	sum := sha256.Sum256([]byte(string(reason) + "\n" + NormalizeError(message)))
	return hex.EncodeToString(sum[:6])
}

// DeadReason is a value of the enum outbox_dlq_reason.
type DeadReason string

// The reasons for which a row dies.
const (
	ReasonMaxAttempts       DeadReason = "max_attempts"
	ReasonUnknownEventType  DeadReason = "unknown_event_type"
	ReasonInvalidPayload    DeadReason = "invalid_payload"
	ReasonAggregateMismatch DeadReason = "aggregate_mismatch"
	ReasonMessageTooLarge   DeadReason = "message_too_large"
	ReasonRejectedByBroker  DeadReason = "rejected_by_broker"
	// ReasonErased: an operator removed what it carried before it was published.
	ReasonErased DeadReason = "erased"
	// ReasonExpired: it was not published within the time that its type allows.
	ReasonExpired DeadReason = "expired"
)

// DeadReasons lists every reason, in the order of the enum outbox_dlq_reason.
func DeadReasons() []string {
	return []string{
		string(ReasonMaxAttempts), string(ReasonUnknownEventType), string(ReasonInvalidPayload),
		string(ReasonAggregateMismatch), string(ReasonMessageTooLarge), string(ReasonRejectedByBroker),
		string(ReasonErased), string(ReasonExpired),
	}
}
