// Package outboxtest gives tests real servers: a fresh migrated database in a few dozen
// milliseconds, Redis, and the Pub/Sub fake with fault hooks.
//
// One PostgreSQL and one Redis serve a whole test process. They start when the first test asks and
// stop when the tests are over, which is why a package that uses them needs
//
//	func TestMain(m *testing.M) { outboxtest.Main(m) }
//
// Tests that break a server take one of their own: Postgres, RedisServer, PubSub.
package outboxtest
