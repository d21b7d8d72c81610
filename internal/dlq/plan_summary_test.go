package dlq_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/dlq"
)

// Whoever confirms a plan decides by its summary, so its author must not be able to make it up.
func TestASummaryIsCountedFromTheRows(t *testing.T) {
	b := setup(t)
	tenant := uuid.NewString()
	first, _ := b.die(death{Reason: "invalid_payload", Topic: "domain", Tenant: &tenant})
	second, _ := b.die(death{Reason: "max_attempts", Topic: "billing"})
	third, _ := b.die(death{Reason: "invalid_payload", Topic: "domain"})
	plan := b.planned(`{"reasons": {"max_attempts": 3}, "tenants": {}, "behind": 2}`, []string{first, second}, []string{third})
	require.Equal(t, dlq.Summary{
		Reasons: map[string]int64{"invalid_payload": 2, "max_attempts": 1}, Types: plan.Summary.Types,
		Topics: map[string]int64{"domain": 2, "billing": 1}, Tenants: map[string]int64{tenant: 1}, OrderEffects: dlq.OrderEffects{Behind: 2},
	}, plan.Summary)
	require.ErrorContains(t, dlq.RefuseHopeless(plan), "would fail again unchanged: 2 invalid_payload")
}

// Of many names the largest hundred are told apart.
func TestASummaryTellsAHundredNamesApart(t *testing.T) {
	b := setup(t)
	var chunks [2][]string
	for i := range 120 {
		id, _ := b.die(death{Topic: fmt.Sprintf("topic-%03d", i)})
		chunks[0] = append(chunks[0], id)
	}
	id, _ := b.die(death{Topic: "topic-119"})
	chunks[1] = append(chunks[1], id)
	topics := b.planned(`{}`, chunks[:]...).Summary.Topics
	require.Len(t, topics, 101)
	require.EqualValues(t, 20, topics["others"])
	require.EqualValues(t, 2, topics["topic-119"])
	require.NotContains(t, topics, "topic-118")
}

// planned makes a plan by the functions that operators may call, with what one of them says of it.
func (b *bundle) planned(said string, chunks ...[]string) dlq.Plan {
	b.t.Helper()
	var id, lease string
	err := b.pool.QueryRow(b.ctx, `SELECT plan::text, lease::text FROM outbox_plan_create('dlq.replay', 'ann', NULL, '{}', NULL, '{}')`).Scan(&id, &lease)
	require.NoError(b.t, err)
	for i, ids := range chunks {
		b.exec(`SELECT outbox_plan_add($1::text::uuid, $2::text::uuid, $3, $4::text::uuid[], array_fill(NULL::text, ARRAY[$5::int]), true)`,
			id, lease, i, "{"+strings.Join(ids, ",")+"}", len(ids))
	}
	b.exec(`SELECT outbox_plan_ready($1::text::uuid, $2::text::uuid, $3::text::jsonb)`, id, lease, said)
	plan, err := b.store.FindPlan(b.ctx, id)
	require.NoError(b.t, err)
	return plan
}
