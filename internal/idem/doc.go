// Package idem is the operator's view of what consumers have processed: it
// reads and deletes the keys that the package consume keeps in Redis.
//
// Key format, values, leases and the time to live are consume's; this package
// asks it and declares none of them again.
package idem
