package torture

import (
	"math/rand/v2"
	"slices"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/outboxctl/outboxctl/internal/failpoint"
)

type planned struct {
	at     time.Duration
	kind   string
	target string
	detail string
	lasts  time.Duration
}

// perFault is the mean pause between two faults.
const perFault = 3 * time.Second

// plan lays out the faults of a run: first every kind and every failpoint once, in random order,
// then again for as long as there is room.
func plan(cfg Config) []planned {
	random := rand.New(rand.NewPCG(cfg.Seed, 0))
	round := func() []planned {
		faults := slices.DeleteFunc(everyKind(random), func(f planned) bool { return !wanted(cfg.Only, f) })
		random.Shuffle(len(faults), func(i, j int) { faults[i], faults[j] = faults[j], faults[i] })
		return faults
	}
	faults := round()
	if len(faults) == 0 {
		return nil
	}
	least, room := len(faults), int(cfg.Duration/perFault)
	for len(faults) < room {
		faults = append(faults, round()...)
	}
	faults = faults[:max(room, least)]
	// The last tenth stays quiet, so that every fault has the time it lasts.
	step := cfg.Duration * 9 / 10 / time.Duration(len(faults))
	for i := range faults {
		faults[i].at = time.Duration(i)*step + time.Duration(random.Int64N(int64(step)))
	}
	return faults
}

func wanted(only []string, f planned) bool {
	return len(only) == 0 || slices.Contains(only, f.kind) ||
		slices.Contains(only, f.kind+":"+f.detail)
}

// everyKind is one fault of each kind and one crash in each failpoint, on targets drawn at random.
func everyKind(random *rand.Rand) []planned {
	publisher := func() string { return publisherName(random.IntN(publishers)) }
	consumer := func() string { return []string{exampleConsumer, workerConsumer}[random.IntN(2)] }
	network := func() string {
		if random.IntN(5) == 0 {
			return "consumers/redis"
		}
		return publisher() + []string{"/postgres", "/broker"}[random.IntN(2)]
	}
	seconds := func(least, most int) time.Duration {
		return time.Duration(least*1000+random.IntN((most-least)*1000+1)) * time.Millisecond
	}
	stream := func() string { return []string{"upstream", "downstream"}[random.IntN(2)] }
	faults := []planned{
		{kind: "publisher.kill", target: publisher()},
		{kind: "publisher.kill", target: publisher()},
		// After the broker's acknowledgement, for longer than the lease.
		{kind: "publisher.stop", target: publisher(), lasts: lease + 3*time.Second},
		{kind: "publisher.term", target: publisher(), lasts: shutdownTimeout + 2*time.Second},
		{kind: "consumer.kill", target: consumer()},
		{kind: "consumer.term", target: consumer()},
		{kind: "postgres.restart"},
		{kind: "postgres.terminate"},
		{kind: "postgres.readonly", lasts: seconds(2, 4)},
		{kind: "postgres.xmin", lasts: seconds(5, 15)},
		{kind: "postgres.lock", lasts: seconds(1, 3)},
		{kind: "network.reset", target: network(), detail: "downstream", lasts: seconds(1, 2)},
		{kind: "network.blackhole", target: network(), detail: stream(), lasts: seconds(3, 6)},
		{kind: "network.latency", target: network(), detail: stream(), lasts: seconds(3, 8)},
		{kind: "network.cut", target: network(), detail: stream(), lasts: seconds(1, 3)},
		{kind: "redis.kill", lasts: seconds(1, 4)},
		{kind: "redis.flush"},
		{kind: "redis.oom", lasts: seconds(2, 5)},
		{kind: "broker.lost_reply", lasts: seconds(1, 3)},
		{kind: "broker.slow", lasts: seconds(2, 4)},
		{kind: "broker.away", lasts: seconds(12, 16)},
	}
	for _, code := range []codes.Code{codes.Unavailable, codes.DeadlineExceeded, codes.Aborted,
		codes.Internal, codes.ResourceExhausted, codes.NotFound, codes.PermissionDenied} {
		if random.IntN(2) == 0 || code == codes.Unavailable {
			faults = append(faults, planned{kind: "broker.error", detail: code.String(), lasts: seconds(1, 5)})
		}
	}
	for _, point := range failpoint.Publisher() {
		faults = append(faults, planned{kind: "publisher.crash", target: publisher(), detail: point})
	}
	for _, point := range failpoint.Consumer() {
		faults = append(faults, planned{kind: "consumer.crash", target: consumer(), detail: point})
	}
	for _, point := range failpoint.Operator() {
		faults = append(faults, planned{kind: "operator.crash", detail: point})
	}
	return faults
}
