//go:build tools

// Package testcluster pins the Kubernetes programs that the tests run.
//
// `go install k8s.io/kubernetes/...@v` is refused because that module carries
// replace directives; a module that repeats them and imports the commands can
// build them all, with every version in go.sum.
package testcluster

import (
	_ "k8s.io/kubernetes/cmd/kube-apiserver"
	_ "k8s.io/kubernetes/cmd/kube-controller-manager"
	_ "k8s.io/kubernetes/cmd/kube-proxy"
	_ "k8s.io/kubernetes/cmd/kube-scheduler"
	_ "k8s.io/kubernetes/cmd/kubectl"
	_ "k8s.io/kubernetes/cmd/kubelet"
)
