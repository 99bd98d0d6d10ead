package httpapi

import "github.com/droverhq/drover/internal/command"

// commandExamples are a subject and data for each command.
var commandExamples = map[string]struct {
	subject string
	data    node
}{
	"environment.plan":    {"shop-staging", node{"template": "shop@1.2.0", "parameters": node{"size": "small"}}},
	"environment.create":  {"", node{"name": "shop-staging", "template": "shop", "ttl": "8h"}},
	"environment.apply":   {"shop-staging", node{"plan": "4f1d2c3b5a69"}},
	"environment.destroy": {"shop-staging", node{}},
	"environment.extend":  {"shop-staging", node{"ends": "+4h"}},
	"environment.action":  {"shop-staging/restart", node{"arguments": node{"slowly": true}}},
	"instance.create":     {"dinosaurs", node{"name": "rex", "cloud_provider": "local", "region": "local"}},
	"instance.update":     {"dinosaurs/rex", node{"owner": "bob"}},
	"instance.delete":     {"dinosaurs/rex", nil},
	"deployment.sync":     {"shop", node{"revision": "v1.2.0", "prune": true}},
}

// commandExample is a whole message of a command.
func commandExample(name string) node {
	example := commandExamples[name]
	payload := node{
		"specversion": "1.0", "id": "7c0a51de-1", "source": "/pipelines/nightly", "type": command.TypePrefix + name,
		"datacontenttype": "application/json", "data": example.data,
	}
	if example.data == nil {
		payload["data"] = node{}
	}
	if example.subject != "" {
		payload["subject"] = example.subject
	}
	return node{"name": name, "headers": node{"authorization": "Bearer ..."}, "payload": payload}
}
