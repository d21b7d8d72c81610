package rig

// Must returns v. An error ends what Carry runs.
func Must[T any](v T, err error) T {
	Check(err)
	return v
}

// Check ends what Carry runs when there is an error.
func Check(err error) {
	if err != nil {
		panic(failure{err})
	}
}

type failure struct{ error }

// Carry runs the steps of a scenario on this goroutine and returns the error that Must or Check
// ended them with.
func Carry(steps func()) (err error) {
	defer func() {
		if v := recover(); v != nil {
			f, ours := v.(failure)
			if !ours {
				panic(v)
			}
			err = f.error
		}
	}()
	steps()
	return nil
}
