package consumer

// UUIDs travel as text with a cast: that works in every protocol mode a pooler
// may force upon the driver.

// insertInbox claims the event for the effect that follows in the same
// transaction. A second transaction with the same key waits here for the first
// and then inserts nothing.
const insertInbox = `
INSERT INTO inbox_events (consumer, event_id)
VALUES ($1, $2::uuid)
ON CONFLICT (consumer, event_id) DO NOTHING`

const insertNotification = `
INSERT INTO notifications (id, type, audience, store_id, license_id, status, reason, message, event_id)
VALUES ($1::uuid, 'compliance', $2, $3::uuid, $4::uuid, $5, nullif($6, ''), $7, $8::uuid)`

// checkTables fails to parse when a table or a column is missing, and reads nothing.
const checkTables = `
SELECT i.consumer, i.event_id, n.id, n.type, n.audience, n.store_id, n.license_id, n.status, n.reason, n.message, n.event_id
  FROM inbox_events AS i, notifications AS n
 WHERE false`
