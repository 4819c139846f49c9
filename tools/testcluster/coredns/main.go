// Package main is CoreDNS with the few plugins that the test cluster's names need.
//
// The whole of CoreDNS brings clients of every cloud and takes many minutes to
// build; the server and four plugins take one.
package main

import (
	"github.com/coredns/coredns/coremain"
	_ "github.com/coredns/coredns/plugin/bind"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	_ "github.com/coredns/coredns/plugin/template"
)

func main() {
	coremain.Run()
}
