// Package rig is what the scoreboard, torture and the adoption runs stand on: private servers and
// processes that end with the run (World), a broker that is troubled and watched (Broker),
// connections cut at the worst moment (Cutter), and steps of which any may fail (Must, Check,
// Carry).
package rig
