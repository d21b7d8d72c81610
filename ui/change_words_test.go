package ui_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

// A plan's page names what it is done to.
func TestAPlanNamesItsRowsAndItsCommand(t *testing.T) {
	b := setup(t, operators)
	for body, want := range map[string]string{
		`{"action": "republish", "ids": ["00000000-0000-7000-8000-0000000000e1"]}`: "Republish 1 published event",
		`{"action": "dlq.replay", "ids": ["` + deadID + `"]}`:                      "Replay 1 dead letter",
	} {
		_, plan, text := b.api(http.MethodPost, "/plans", body)
		require.NotEmpty(t, plan.ID, text)
		b.reaches(plan.ID, "ready")
		_, _, page := b.get("/plans/" + plan.ID)
		require.Contains(t, page, want)
		require.Contains(t, page, "outboxctl plan run "+plan.ID)
	}
}
