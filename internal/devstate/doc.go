// Package devstate is the folder in which `outboxctl dev` keeps its state: its lock, and the file
// with which a running stack tells other processes where its servers are. It starts nothing and
// links no server, so that every command can look for a stack.
package devstate
