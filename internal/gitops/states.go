package gitops

// Transition is one way from a phase to another.
type Transition struct{ Kind, From, To, Who, When string }

// Transitions are all ways of deployments and sync runs; docs/states.md is drawn
// from them. No phase before the first: it is new.
var Transitions = []Transition{
	{"deployment", "", Pending, "user", "it was asked for"},
	{"deployment", Pending, Deploying, "worker", "it was handed to the agent of its cluster"},
	{"deployment", Pending, Failed, "worker", "it cannot be carried out as it is written: the error says why"},
	{"deployment", Deploying, Deployed, "agent", "it is in sync and healthy"},
	{"deployment", Deploying, OutOfSync, "agent", "it is manual, and Git has something else"},
	{"deployment", Deploying, Failed, "agent, worker", "it is in trouble: error or conditions tell"},
	{"deployment", Deploying, Pending, "worker", "its cluster is being removed"},
	{"deployment", Deployed, Deploying, "user, agent", "something else is wanted, or it is no longer in sync or healthy"},
	{"deployment", Deployed, OutOfSync, "agent", "it is manual, and Git has something else"},
	{"deployment", Deployed, Failed, "agent, worker", "it is in trouble: error or conditions tell"},
	{"deployment", Deployed, Pending, "worker", "its cluster is being removed"},
	{"deployment", OutOfSync, Deployed, "agent", "a sync run has brought it in sync"},
	{"deployment", OutOfSync, Deploying, "user, agent", "something else is wanted, or a sync is under way"},
	{"deployment", OutOfSync, Failed, "agent, worker", "it is in trouble: error or conditions tell"},
	{"deployment", OutOfSync, Pending, "worker", "its cluster is being removed"},
	{"deployment", Failed, Pending, "user, worker", "it is written anew, and something is waited for"},
	{"deployment", Failed, Deploying, "user, agent", "it is written anew, or the trouble is over"},
	{"deployment", Failed, Deployed, "agent", "the trouble is over"},
	{"deployment", Failed, OutOfSync, "agent", "the trouble is over"},
	{"deployment", Pending, Deleting, "user", "it is to go"},
	{"deployment", Deploying, Deleting, "user", "it is to go"},
	{"deployment", Deployed, Deleting, "user", "it is to go"},
	{"deployment", OutOfSync, Deleting, "user", "it is to go"},
	{"deployment", Failed, Deleting, "user", "it is to go"},
	{"deployment", Deleting, Deploying, "worker", "somebody has changed the ledger: its custom resource is still there"},
	{"deployment", Gone, Deploying, "worker", "somebody has changed the ledger: its custom resource is still there"},
	{"deployment", Deleting, Gone, "worker", "nothing of it is left; its name is free"},

	{"syncrun", "", Waiting, "user", "it was asked for"},
	{"syncrun", "", RunFailed, "user", "it names a revision that is none"},
	{"syncrun", "", Succeeded, "worker", "the ledger has lost it, and its custom resource says so"},
	{"syncrun", "", Terminated, "worker", "the ledger has lost it, and its custom resource says so"},
	{"syncrun", Waiting, Running, "worker", "its deployment is there, and those before it have ended"},
	{"syncrun", Waiting, Succeeded, "agent", "it was over before anybody looked"},
	{"syncrun", Waiting, RunFailed, "worker", "its deployment follows Git by itself, or it cannot be carried out"},
	{"syncrun", Waiting, Terminating, "user", "it was deleted or ended as it began"},
	{"syncrun", Waiting, Terminated, "user", "it was deleted or ended before it began, or its deployment was deleted"},
	{"syncrun", Running, Succeeded, "agent", "the sync has ended well"},
	{"syncrun", Running, RunFailed, "agent", "the sync has failed, retries included"},
	{"syncrun", Running, Terminating, "user", "it was deleted or ended"},
	{"syncrun", Running, Terminated, "agent, worker", "it was ended in Argo CD, or its deployment was deleted"},
	{"syncrun", Terminating, Running, "agent, worker", "it goes on: somebody ended another one, or only wrote into the ledger that it ends"},
	{"syncrun", Terminating, Terminated, "agent, worker", "it has ended"},
	{"syncrun", Terminating, Succeeded, "agent", "it ended well before it could be ended"},
	{"syncrun", Terminating, RunFailed, "agent", "it failed before it could be ended"},
}
