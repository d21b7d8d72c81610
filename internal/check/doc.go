// Package check judges the figures of an outbox by thresholds, for a monitoring system.
package check
