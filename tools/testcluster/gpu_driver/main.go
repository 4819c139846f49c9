// A driver of GPUs that are not there, for tests: it publishes so many devices of its node and hands
// them out by CDI. With a claim comes a folder, the same for every pod that uses the claim, and a
// variable that says where it is: jobs that share GPUs meet there.
//
//	gpu-driver --node node-0 --kubeconfig FILE --gpus 2
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"
	"k8s.io/dynamic-resource-allocation/resourceslice"
)

const (
	driverName = "gpu.weft.test"
	kind       = "weft.test/claim"
	inside     = "/run/company"
)

type driver struct{ specs, companies string }

func main() {
	node := flag.String("node", "", "name of the node")
	kubeconfig := flag.String("kubeconfig", "", "how to reach the API server")
	gpus := flag.Int("gpus", 1, "devices to publish")
	memory := flag.String("memory", "16Gi", "of each device")
	specs := flag.String("specs", "/run/cdi", "where the container runtime looks for CDI")
	companies := flag.String("companies", "/var/lib/company", "where folders of claims are")
	flag.Parse()
	if err := run(*node, *kubeconfig, *gpus, *memory, driver{*specs, *companies}); err != nil {
		log.Fatal(err)
	}
}

func run(node, kubeconfig string, gpus int, memory string, own driver) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	state := filepath.Join(kubeletplugin.KubeletPluginsDir, driverName)
	for _, folder := range []string{state, kubeletplugin.KubeletRegistryDir, own.specs, own.companies} {
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return err
		}
	}
	ctx := context.Background()
	helper, err := kubeletplugin.Start(ctx, own,
		kubeletplugin.DriverName(driverName),
		kubeletplugin.NodeName(node),
		kubeletplugin.KubeClient(client),
		kubeletplugin.PluginDataDirectoryPath(state),
	)
	if err != nil {
		return err
	}
	if err := helper.PublishResources(ctx, published(node, gpus, memory)); err != nil {
		return err
	}
	select {}
}

func published(node string, gpus int, memory string) resourceslice.DriverResources {
	devices := make([]resourceapi.Device, gpus)
	for number := range devices {
		devices[number] = resourceapi.Device{
			Name: "gpu-" + strconv.Itoa(number),
			Capacity: map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{
				"memory": {Value: resource.MustParse(memory)},
			},
		}
	}
	pool := resourceslice.Pool{Slices: []resourceslice.Slice{{Devices: devices}}}
	return resourceslice.DriverResources{Pools: map[string]resourceslice.Pool{node: pool}}
}

// PrepareResourceClaims writes one CDI device for each claim: kubelets ask once for all pods of it.
func (own driver) PrepareResourceClaims(
	_ context.Context, claims []*resourceapi.ResourceClaim,
) (map[types.UID]kubeletplugin.PrepareResult, error) {
	found := map[types.UID]kubeletplugin.PrepareResult{}
	for _, claim := range claims {
		devices, err := own.prepare(claim)
		found[claim.UID] = kubeletplugin.PrepareResult{Devices: devices, Err: err}
	}
	return found, nil
}

func (own driver) prepare(claim *resourceapi.ResourceClaim) ([]kubeletplugin.Device, error) {
	var devices []kubeletplugin.Device
	var names, numbers []string
	id := fmt.Sprintf("%s=%s", kind, claim.UID)
	for _, result := range claim.Status.Allocation.Devices.Results {
		if result.Driver != driverName {
			continue
		}
		numbers = append(numbers, strconv.Itoa(len(names)))
		names = append(names, result.Device)
		devices = append(devices, kubeletplugin.Device{
			Requests:     []string{result.Request},
			PoolName:     result.Pool,
			DeviceName:   result.Device,
			CDIDeviceIDs: []string{id},
		})
	}
	company := filepath.Join(own.companies, string(claim.UID))
	if err := os.MkdirAll(company, 0o777); err != nil {
		return nil, err
	}
	if err := os.Chmod(company, 0o777|os.ModeSticky); err != nil {
		return nil, err
	}
	edits := map[string]any{
		"env": []string{
			"WEFT_TEST_GPUS=" + strings.Join(names, ","),
			"WEFT_MEETING=" + inside + ":" + strings.Join(numbers, ","),
		},
		"mounts": []map[string]any{{
			"hostPath": company, "containerPath": inside, "options": []string{"rw", "rbind"},
		}},
	}
	spec := map[string]any{
		"cdiVersion": "0.6.0",
		"kind":       kind,
		"devices":    []map[string]any{{"name": string(claim.UID), "containerEdits": edits}},
	}
	text, err := json.Marshal(spec)
	if err != nil {
		return nil, err
	}
	path := own.spec(claim.UID)
	if err := os.WriteFile(path+".new", text, 0o644); err != nil {
		return nil, err
	}
	return devices, os.Rename(path+".new", path)
}

// UnprepareResourceClaims takes away what a claim brought; nobody uses it any more.
func (own driver) UnprepareResourceClaims(
	_ context.Context, claims []kubeletplugin.NamespacedObject,
) (map[types.UID]error, error) {
	found := map[types.UID]error{}
	for _, claim := range claims {
		_ = os.Remove(own.spec(claim.UID))
		found[claim.UID] = os.RemoveAll(filepath.Join(own.companies, string(claim.UID)))
	}
	return found, nil
}

// HandleError is told of what goes wrong while nobody asks.
func (own driver) HandleError(_ context.Context, err error, message string) {
	log.Printf("%s: %v", message, err)
}

func (own driver) spec(claim types.UID) string {
	return filepath.Join(own.specs, "weft-test-"+string(claim)+".json")
}
