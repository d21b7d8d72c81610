package dispatch

// Waker may tell the dispatcher that rows were committed before its poll
// interval is over. Nothing depends on it.
type Waker interface {
	// Arm says that the dispatcher is idle and wants to be told.
	Arm()
	// Disarm says that it polls fast anyway: emitters should not be made to
	// pay for notifications.
	Disarm()
	// C delivers hints.
	C() <-chan struct{}
}

type noWaker struct{}

func (noWaker) Arm()               {}
func (noWaker) Disarm()            {}
func (noWaker) C() <-chan struct{} { return nil }
