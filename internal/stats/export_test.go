package stats

import "fmt"

// Queries are the statements a report makes on outbox_events.
func Queries() map[string]string {
	return map[string]string{
		"backlog": backlogQuery, "died": diedQuery, "sample": sampleQuery, "published": publishedQuery, "arrived": arrivedQuery,
		"group": fmt.Sprintf(groupQuery, "event_type"),
	}
}
