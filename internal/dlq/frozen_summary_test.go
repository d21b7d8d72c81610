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
	first, one := b.die(death{Reason: "invalid_payload", Topic: "domain", Tenant: &tenant})
	second, two := b.die(death{Reason: "max_attempts", Topic: "billing"})
	third, three := b.die(death{Reason: "invalid_payload", Topic: "domain"})
	plan := b.frozen(`{"reasons": {"max_attempts": 3}, "tenants": {}, "behind": 2}`, [][2]string{{first, one}, {second, two}}, [][2]string{{third, three}})
	require.Equal(t, dlq.Summary{
		Reasons: map[string]int64{"invalid_payload": 2, "max_attempts": 1}, Types: plan.Summary.Types,
		Topics: map[string]int64{"domain": 2, "billing": 1}, Tenants: map[string]int64{tenant: 1}, OrderEffects: dlq.OrderEffects{Behind: 2},
	}, plan.Summary)
	require.Equal(t, map[string]int64{"invalid_payload": 2}, plan.Summary.Hopeless())
}

func TestASummaryTellsAHundredNamesApart(t *testing.T) {
	b := setup(t)
	var chunks [3][][2]string
	for i := range 120 {
		id, event := b.die(death{Topic: fmt.Sprintf("topic-%03d", i)})
		chunks[0] = append(chunks[0], [2]string{id, event})
	}
	id, event := b.die(death{Topic: "topic-007"})
	chunks[1] = append(chunks[1], [2]string{id, event})
	id, event = b.die(death{Topic: "a-new-one"})
	chunks[2] = append(chunks[2], [2]string{id, event})
	topics := b.frozen(`{}`, chunks[:]...).Summary.Topics
	require.Len(t, topics, 101)
	require.EqualValues(t, 21, topics["others"])
	require.EqualValues(t, 2, topics["topic-007"])
	require.NotContains(t, topics, "a-new-one")
}

// frozen makes a plan by the functions that operators may call, with what one of them says of it.
func (b *bundle) frozen(said string, chunks ...[][2]string) dlq.Frozen {
	b.t.Helper()
	var plan, lease string
	err := b.pool.QueryRow(b.ctx, `SELECT plan::text, lease::text FROM outbox_plan_create('dlq.replay', 'ann', NULL, '{}', '{}')`).Scan(&plan, &lease)
	require.NoError(b.t, err)
	for _, chunk := range chunks {
		var ids, events []string
		for _, c := range chunk {
			ids, events = append(ids, c[0]), append(events, c[1])
		}
		b.exec(`SELECT outbox_plan_add($1::text::uuid, $2::text::uuid, $3::text::uuid[], $4::text::uuid[], array_fill(NULL::timestamptz, ARRAY[$5::int]), array_fill('\xab'::bytea, ARRAY[$5::int]))`,
			plan, lease, "{"+strings.Join(ids, ",")+"}", "{"+strings.Join(events, ",")+"}", len(ids))
	}
	b.exec(`SELECT outbox_plan_ready($1::text::uuid, $2::text::uuid, '{}', $3::text::jsonb)`, plan, lease, said)
	frozen, err := b.store.Frozen(b.ctx, plan)
	require.NoError(b.t, err)
	return frozen
}
