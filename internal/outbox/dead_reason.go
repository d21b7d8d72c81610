package outbox

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
