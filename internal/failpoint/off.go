//go:build !failpoints || !unix

package failpoint

// Enabled reports whether this build has failpoints.
const Enabled = false

// Hit does nothing in this build.
func Hit(string) {}
