// Package demo produces believable traffic for a local stack: shops that sell, deliver, get paid,
// advertise and upload their licences, and now and then a program that writes an event the
// publisher will refuse.
//
// The same seed gives the same events in the same order; only their ids and times differ.
package demo
