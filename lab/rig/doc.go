// Package rig holds what several kinds of runs harm a system with: connections cut at the worst moment, and processes
// that die with the run or stand still.
package rig
