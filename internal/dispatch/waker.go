package dispatch

// Waker may tell the dispatcher that rows were committed before its poll
// interval is over. Nothing depends on it.
type Waker interface {
	// Arm asks for hints: the dispatcher is idle.
	Arm()
	// Disarm ends that: the dispatcher polls fast anyway, and emitters should
	// not pay for notifications.
	Disarm()
	// C receives the hints.
	C() <-chan struct{}
}

type noWaker struct{}

func (noWaker) Arm()               {}
func (noWaker) Disarm()            {}
func (noWaker) C() <-chan struct{} { return nil }
