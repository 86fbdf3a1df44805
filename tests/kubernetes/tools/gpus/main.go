// Gives a node devices that are none: a kubelet device plugin for tests.
//
// Like NVIDIA's it tells a container in NVIDIA_VISIBLE_DEVICES which devices it got. It runs until it is killed.
package main

import (
	"context"
	"log"
	"net"
	"os"
	"path/filepath"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	api "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

type plugin struct {
	api.UnimplementedDevicePluginServer
	ids []string
}

func (p *plugin) GetDevicePluginOptions(context.Context, *api.Empty) (*api.DevicePluginOptions, error) {
	return &api.DevicePluginOptions{}, nil
}

func (p *plugin) ListAndWatch(_ *api.Empty, stream api.DevicePlugin_ListAndWatchServer) error {
	answer := &api.ListAndWatchResponse{}
	for _, id := range p.ids {
		answer.Devices = append(answer.Devices, &api.Device{ID: id, Health: api.Healthy})
	}
	if err := stream.Send(answer); err != nil {
		return err
	}
	<-stream.Context().Done()
	return nil
}

func (p *plugin) Allocate(_ context.Context, asked *api.AllocateRequest) (*api.AllocateResponse, error) {
	answer := &api.AllocateResponse{}
	for _, container := range asked.ContainerRequests {
		visible := map[string]string{"NVIDIA_VISIBLE_DEVICES": strings.Join(container.DevicesIds, ",")}
		answer.ContainerResponses = append(answer.ContainerResponses, &api.ContainerAllocateResponse{Envs: visible})
	}
	return answer, nil
}

// Arguments: the name of the resource, then the ids of the devices.
func main() {
	resource, ids := os.Args[1], os.Args[2:]
	endpoint := strings.NewReplacer("/", "-", ".", "-").Replace(resource) + ".sock"
	os.Remove(filepath.Join(api.DevicePluginPath, endpoint))
	listener, err := net.Listen("unix", filepath.Join(api.DevicePluginPath, endpoint))
	if err != nil {
		log.Fatal(err)
	}
	server := grpc.NewServer()
	api.RegisterDevicePluginServer(server, &plugin{ids: ids})
	go server.Serve(listener)
	connection, err := grpc.NewClient("unix://"+api.KubeletSocket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		log.Fatal(err)
	}
	request := &api.RegisterRequest{Version: api.Version, Endpoint: endpoint, ResourceName: resource}
	if _, err := api.NewRegistrationClient(connection).Register(context.Background(), request); err != nil {
		log.Fatal(err)
	}
	select {}
}
