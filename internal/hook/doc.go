// Package hook decides what a lifecycle hook does and when it is over: it executes the templates of a hook, judges the
// object that it made, sends the facts of a rollout to a server, evaluates a check over live objects, and knows which
// workflows of users may be run. It writes to no target and no hub, never decides which hook is due or whether one runs
// again, and no message of it holds a value of an object, a body of a server or a word of a far side. The activities call
// it.
//
// A failure.Terminal is the verdict that a hook has failed; any other failure may pass.
package hook
