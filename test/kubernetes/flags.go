package kubernetes

import "strconv"

func (c *Cluster) etcdFlags(port, peers string, o options) []string {
	here, peer := "http://127.0.0.1:"+port, "http://127.0.0.1:"+peers
	flags := []string{
		"--data-dir=" + c.file("etcd"), "--log-level=warn", "--unsafe-no-fsync", // what is lost with the machine is a test
		"--listen-client-urls=" + here, "--advertise-client-urls=" + here,
		"--listen-peer-urls=" + peer, "--initial-advertise-peer-urls=" + peer, "--initial-cluster=default=" + peer,
	}
	if o.quota > 0 {
		flags = append(flags, "--quota-backend-bytes="+strconv.FormatInt(o.quota, 10))
	}
	return flags
}

func (c *Cluster) apiFlags(etcd, port string, o options) []string {
	flags := []string{
		"--etcd-servers=http://127.0.0.1:" + etcd,
		"--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", "--secure-port=" + port,
		"--endpoint-reconciler-type=none", // loopback is no address for others
		"--tls-cert-file=" + c.file("server.crt"), "--tls-private-key-file=" + c.file("server.key"),
		"--client-ca-file=" + c.file("ca.crt"), "--token-auth-file=" + c.file("tokens"),
		"--authorization-mode=RBAC",
		"--service-account-issuer=https://kubernetes.default.svc", "--service-account-key-file=" + c.file("accounts.key"),
		"--service-account-signing-key-file=" + c.file("accounts.key"),
		"--kubelet-certificate-authority=" + c.file("ca.crt"), "--kubelet-preferred-address-types=InternalIP",
		"--kubelet-client-certificate=" + c.file("kubelet-client.crt"), "--kubelet-client-key=" + c.file("kubelet-client.key"),
		"--service-cluster-ip-range=10.0.0.0/24", "--profiling=false", "--shutdown-delay-duration=0s",
	}
	if !o.controllers { // nobody makes the accounts that pods would need
		flags = append(flags, "--disable-admission-plugins=ServiceAccount")
	}
	return append(flags, o.flags...)
}

func (c *Cluster) controllerFlags(o options) []string {
	more := ""
	if o.workloads {
		more = ",deployment-controller,replicaset-controller,statefulset-controller"
	}
	return []string{
		"--kubeconfig=" + c.file("kubeconfig"), "--leader-elect=false", "--secure-port=0", "--profiling=false",
		"--service-account-private-key-file=" + c.file("accounts.key"), "--root-ca-file=" + c.file("ca.crt"),
		"--controllers=namespace-controller,garbage-collector-controller,serviceaccount-controller," +
			"serviceaccount-token-controller,resourcequota-controller,clusterrole-aggregation-controller" + more,
	}
}
