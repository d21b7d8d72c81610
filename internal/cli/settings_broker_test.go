package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Every setting that a broker declares is read where it is configured, and refused where another one is.
func TestEveryBrokersSettings(t *testing.T) {
	t.Parallel()
	for _, kind := range brokers() {
		other := "http"
		if kind.Name == other {
			other = "exec"
		}
		for _, s := range kind.Settings {
			require.True(t, strings.HasPrefix(s.Name, kind.Name+"."), s.Name)
			require.NotEmpty(t, s.Help, s.Name)
			if s.Default != "" {
				require.NoError(t, s.Validate(s.Default), s.Name)
			}
			variable := Setting{Name: s.Name}.env()
			cfg, _ := LoadConfig(source(nil, map[string]string{"OUTBOXCTL_BROKER": kind.Name, variable: "7s"}))
			require.Equal(t, "7s", cfg.Value(s.Name), s.Name)
			cfg, problems := LoadConfig(source(nil, map[string]string{"OUTBOXCTL_BROKER": other, variable: "7s"}))
			require.Contains(t, strings.Join(problems, "\n"), s.Name+" (env "+variable+"): the broker is "+other+" (env OUTBOXCTL_BROKER)", s.Name)
			require.Empty(t, cfg.Value(s.Name), s.Name)
		}
	}
}

func TestChoosingABroker(t *testing.T) {
	t.Parallel()
	// A flag of publish chooses, and what a machine sets for other programs is no setting of ours.
	cfg, problems := LoadConfig(source(map[string]string{"http": "http://127.0.0.1:8000/{event_type}"},
		map[string]string{"GOOGLE_CLOUD_PROJECT": "acme-1", "PUBSUB_EMULATOR_HOST": "h:1"}))
	require.Empty(t, problems)
	require.Equal(t, "http", cfg.Broker)
	require.Equal(t, "flag --http", cfg.Origin("broker"))
	require.Empty(t, cfg.Value("pubsub.project"))
	require.Empty(t, cfg.Value("pubsub.emulator"))
	require.Equal(t, []time.Duration{20 * time.Second, 30 * time.Second}, []time.Duration{cfg.Publish.PublishTimeout, cfg.Publish.Lease})

	cfg, problems = LoadConfig(source(map[string]string{"exec": "true"}, nil))
	require.Empty(t, problems)
	require.Equal(t, "exec", cfg.Broker)
	require.Equal(t, []time.Duration{time.Minute, 90 * time.Second}, []time.Duration{cfg.Publish.PublishTimeout, cfg.Publish.Lease},
		"as long as a command may take")

	_, problems = LoadConfig(source(map[string]string{"exec": "true", "http": "http://h/"}, nil))
	require.Len(t, problems, 1, "one of both")
	_, problems = LoadConfig(source(map[string]string{"exec": "true"}, map[string]string{"OUTBOXCTL_PUBLISH_PUBLISH_TIMEOUT": "5s"}))
	require.Len(t, problems, 1, "%v", problems)
	_, problems = LoadConfig(source(nil, map[string]string{"OUTBOXCTL_BROKER": "carrier-pigeon"}))
	require.Len(t, problems, 1)
}
