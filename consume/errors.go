package consume

import "errors"

var (
	// ErrInProgress means another delivery of the event is being handled right
	// now. The answer is known when that handler ends.
	ErrInProgress = errors.New("event is being processed by another delivery")

	// ErrLeaseLost is the cause of a handler's cancelled context when its lease
	// runs out or has passed to another delivery.
	ErrLeaseLost = errors.New("processing lease lost")

	// ErrUnavailable wraps every failure to get an answer from Redis.
	ErrUnavailable = errors.New("redis gives no answer")

	// ErrDatabaseUnavailable is in the error of an event whose database gives no answer or takes no
	// writes. A handler registered with HandleTx or HandleBatch finds out by itself; another may wrap
	// it.
	ErrDatabaseUnavailable = errors.New("database gives no answer")

	// ErrConsumerName refuses a name that cannot be part of a key.
	ErrConsumerName = errors.New("invalid consumer name")

	// ErrEventID refuses an event id that is missing, nil or not a UUID.
	ErrEventID = errors.New("unusable event id")

	// ErrMalformed is in the error of an event that no redelivery can help; see Malformed.
	ErrMalformed = errors.New("malformed event")

	// ErrTTL refuses a time to live that would make marks vanish at once.
	ErrTTL = errors.New("time to live must be at least one millisecond")

	// ErrUnsupportedServer means the server cannot or will not run the guard's
	// scripts: too old, a read-only replica, a user without the permission.
	ErrUnsupportedServer = errors.New("redis server cannot be used")

	// errApplied is a handler's answer that an earlier delivery has had the effect.
	errApplied = errors.New("event was applied before")
)
