// Command kubernetes is kube-apiserver or kube-controller-manager, by the name
// that it is called by: two servers in one file are half the size of two.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	_ "time/tzdata" // cron jobs have time zones

	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllers "k8s.io/kubernetes/cmd/kube-controller-manager/app"
)

func main() {
	switch name := filepath.Base(os.Args[0]); name {
	case "kube-apiserver":
		os.Exit(cli.Run(apiserver.NewAPIServerCommand()))
	case "kube-controller-manager":
		os.Exit(cli.Run(controllers.NewControllerManagerCommand()))
	default:
		fmt.Fprintf(os.Stderr, "%s: call me kube-apiserver or kube-controller-manager\n", name)
		os.Exit(2)
	}
}
