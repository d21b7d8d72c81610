package idem

import "errors"

var (
	// ErrInProgress means another delivery of the event is being handled right
	// now. Nack the message; the answer is known when that handler ends.
	ErrInProgress = errors.New("event is being processed by another delivery")

	// ErrLeaseLost is the cause of a handler's cancelled context when its lease
	// ran out or passed to another delivery.
	ErrLeaseLost = errors.New("processing lease lost")

	// ErrUnavailable wraps every failure to get an answer out of Redis.
	ErrUnavailable = errors.New("redis gives no answer")

	// ErrConsumerName refuses a name that cannot be part of a key.
	ErrConsumerName = errors.New("invalid consumer name")

	// ErrEventID refuses the nil id: every event without one would share a key.
	ErrEventID = errors.New("event id is the nil uuid")

	// ErrTTL refuses a time to live that would make marks vanish at once.
	ErrTTL = errors.New("time to live must be at least one millisecond")

	// ErrUnsupportedServer means the server cannot or will not run the keeper's
	// scripts: too old, a read-only replica, a user without the permission.
	ErrUnsupportedServer = errors.New("redis server cannot be used")
)
