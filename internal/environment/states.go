package environment

// Transition is one way from a phase to another.
type Transition struct{ Kind, From, To, Who, When string }

// Transitions are all ways of environments, resources, plans and records of drift;
// docs/states.md is drawn from them. No phase before the first: it is new.
var Transitions = []Transition{
	{"environment", "", Deploying, "user", "a plan was applied, or is to be as soon as it is made"},
	{"environment", Deploying, Waiting, "worker", "all resources are ready, and it has status endpoints or entry points"},
	{"environment", Deploying, OK, "worker", "all resources are ready, and there is nothing to probe"},
	{"environment", Deploying, Fail, "worker", "a resource has failed, its first plan was not taken up, or its outputs cannot be told"},
	{"environment", Waiting, OK, "worker", "all endpoints have passed as often as their checks say"},
	{"environment", Waiting, Fail, "worker", "an endpoint was not well within its time"},
	{"environment", OK, Fail, "worker", "an endpoint has failed as often as its check says, or a correction has failed"},
	{"environment", Waiting, Deploying, "user", "another plan was taken up, or it is tried again"},
	{"environment", OK, Deploying, "user", "another plan was taken up, or it is tried again"},
	{"environment", Fail, Deploying, "user", "another plan was taken up, or it is tried again"},
	{"environment", Fail, OK, "worker", "all endpoints pass again"},
	{"environment", Fail, Waiting, "worker", "a retry found all resources ready, and the endpoints are probed anew"},
	{"environment", Deploying, Destroying, "user, clock", "its destruction was taken up, or its end has come"},
	{"environment", Waiting, Destroying, "user, clock", "its destruction was taken up, or its end has come"},
	{"environment", OK, Destroying, "user, clock", "its destruction was taken up, or its end has come"},
	{"environment", Fail, Destroying, "user, clock", "its destruction was taken up, or its end has come"},
	{"environment", Destroying, Destroyed, "worker", "nothing of it is left; the object stays for its history"},

	{"resource", "", Pending, "worker", "it is laid out"},
	{"resource", Pending, Applying, "worker", "its executor takes longer than a moment, or a try has failed and the next one comes"},
	{"resource", Pending, Ready, "worker", "it is made"},
	{"resource", Pending, Failed, "worker", "its tries are used up, or trying cannot help"},
	{"resource", Pending, Blocked, "worker", "what it needs has failed"},
	{"resource", Applying, Ready, "worker", "it is made"},
	{"resource", Applying, Failed, "worker", "its tries are used up, or trying cannot help"},
	{"resource", Applying, Pending, "user", "another turn has begun"},
	{"resource", Ready, Pending, "user", "a plan changes it"},
	{"resource", Ready, Applying, "worker", "it has drifted, or what it uses was made anew by a correction"},
	{"resource", Failed, Pending, "user", "it is tried again, or another plan was taken up"},
	{"resource", Blocked, Pending, "user", "it is tried again, or another plan was taken up"},
	{"resource", Pending, ResourceLeaving, "user, clock", "it is to go"},
	{"resource", Applying, ResourceLeaving, "user, clock", "it is to go"},
	{"resource", Ready, ResourceLeaving, "user, clock", "it is to go"},
	{"resource", Failed, ResourceLeaving, "user, clock", "it is to go"},
	{"resource", Blocked, ResourceLeaving, "user, clock", "it is to go"},
	{"resource", ResourceLeaving, Failed, "worker", "it could not be destroyed"},
	{"resource", ResourceLeaving, Blocked, "worker", "what needs it could not be destroyed"},
	{"resource", ResourceLeaving, Pending, "user", "it is wanted again"},
	{"resource", ResourceLeaving, ResourceGone, "worker", "nothing of it is left"},
	{"resource", ResourceGone, Pending, "user", "it is wanted again"},

	{"plan", "", Planning, "user, clock", "it was asked for, or the environment's end has come"},
	{"plan", Planning, Planned, "worker", "every executor has told what it would do"},
	{"plan", Planning, Asking, "worker", "a policy wants somebody's approval"},
	{"plan", Planning, Forbidden, "worker", "a policy denies it"},
	{"plan", Planning, Unplanned, "worker", "it could not be made"},
	{"plan", Asking, Planned, "user", "it was approved"},
	{"plan", Asking, Forbidden, "user", "it was refused"},
	{"plan", Planned, Applied, "worker", "it was taken up"},
	{"plan", Planned, Superseded, "worker", "something has moved since it was made"},

	{"drift", "", DriftOpen, "worker", "something differs, is gone, or is there and nobody expects it"},
	{"drift", DriftOpen, DriftCorrected, "worker", "it was made as it should be, by a correction or by a plan"},
	{"drift", DriftOpen, DriftGone, "worker", "it is as it should be by itself or somebody's hand, or it was destroyed"},
}
