package dlq

// Summary describes the set of a plan: how many rows there are of each kind, as outbox_plan_add counted them.
type Summary struct {
	Reasons map[string]int64 `json:"reasons,omitempty"`
	Types   map[string]int64 `json:"types,omitempty"`
	Topics  map[string]int64 `json:"topics,omitempty"`
	Tenants map[string]int64 `json:"tenants,omitempty"`
	OrderEffects
}

// Hopeless counts, by reason, the dead letters of the set that must die again when they are replayed.
func (s Summary) Hopeless() map[string]int64 {
	found := map[string]int64{}
	for reason, n := range s.Reasons {
		if Hopeless(reason) {
			found[reason] = n
		}
	}
	return found
}
