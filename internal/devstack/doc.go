// Package devstack starts the servers outboxctl needs on one machine: PostgreSQL from installed
// binaries, Redis, and a Pub/Sub fake. Tests, `outboxctl dev` and the laboratory all start them
// here, so what is tested is what runs.
//
// What a caller may rely on:
//
//   - Servers listen on the loopback interface only and, when the caller is root, run as an unprivileged user.
//   - Stop returns after the server's process has ended and been waited for; no goroutine stays behind.
//   - When the calling process dies without Stop (SIGKILL), the kernel ends its servers on Linux; everywhere else the next
//     start on the same folder finds and ends them first. Only a process that provably works in that folder is touched.
//   - Any number of stacks can run at once, each with a folder of its own.
package devstack
