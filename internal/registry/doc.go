// Package registry is the catalogue of event types: for each one it names the
// aggregate the event belongs to, the logical topic it is published on and the
// payload it carries.
//
// It is the only place that decides these three things, and it decides them
// statically: no configuration, no routing by reflection. What it guarantees:
//
//   - every event type has exactly one aggregate type, one topic and one payload;
//   - a payload is either the empty object or decodes completely: no unknown
//     field (names are compared exactly, "orderid" is not "orderId"), no wrong
//     type, no missing required field;
//   - errors name the field and the problem, never the value, so that they may be
//     logged and stored.
//
// The package knows nobody: it imports nothing of this module.
package registry
