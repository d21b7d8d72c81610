// Package idem is what consumers remember of events, as an operator sees it: it shows the keys that
// package consume keeps in Redis beside the rows of the inbox, and makes a consumer forget an
// event. The audit row of that is committed before anything is deleted, and a deletion that did not
// happen gets one of its own.
//
// Key format, values, leases and the time to live are consume's; this package asks it and declares
// none of them again.
package idem
