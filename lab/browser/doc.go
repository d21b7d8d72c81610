// Package browser proves the web page in a real Chromium, against real PostgreSQL and Redis: its
// tests are the journeys that people make through it. Any of them fails when the browser's console
// has an error, a request fails, or another host is asked for something.
//
// Without Chromium the journeys are skipped and say so; OUTBOXCTL_REQUIRE_BROWSER=1 makes that a
// failure. make screenshots runs the ones that take the pictures of the documentation.
package browser
