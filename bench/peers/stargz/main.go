// Command stargz is the snapshotter of stargz-snapshotter, as its containerd-stargz-grpc runs it, whose own module is not at
// the module proxy. It also writes layers in the eStargz form.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"os"

	snapshotsapi "github.com/containerd/containerd/api/services/snapshots/v1"
	"github.com/containerd/containerd/v2/contrib/snapshotservice"
	"github.com/containerd/stargz-snapshotter/estargz"
	"github.com/containerd/stargz-snapshotter/service"
	"google.golang.org/grpc"
)

func main() {
	var err error
	switch args := os.Args[1:]; {
	case len(args) == 4 && args[0] == "serve":
		err = serve(args[1], args[2], args[3])
	case len(args) == 3 && args[0] == "write":
		err = write(args[1], args[2])
	default:
		log.Fatal("usage: stargz serve SOCKET FOLDER SETTINGS-AS-JSON | stargz write LAYER RESULT")
	}
	if err != nil {
		log.Fatal(err)
	}
}

// serve answers containerd until the process is ended.
func serve(socket, folder, settings string) error {
	var config service.Config
	if err := json.Unmarshal([]byte(settings), &config); err != nil {
		return err
	}
	snapshotter, err := service.NewStargzSnapshotterService(context.Background(), folder, &config)
	if err != nil {
		return err
	}
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return err
	}
	server := grpc.NewServer()
	snapshotsapi.RegisterSnapshotsServer(server, snapshotservice.FromSnapshotter(snapshotter))
	log.Print("serving")
	return server.Serve(listener)
}

// write writes a layer in the eStargz form, and prints the digests of its tar file and of its table of contents.
func write(layer, result string) error {
	from, err := os.Open(layer)
	if err != nil {
		return err
	}
	about, err := from.Stat()
	if err != nil {
		return err
	}
	blob, err := estargz.Build(io.NewSectionReader(from, 0, about.Size()))
	if err != nil {
		return err
	}
	to, err := os.Create(result)
	if err != nil {
		return err
	}
	if _, err := io.Copy(to, blob); err != nil {
		return err
	}
	if err := blob.Close(); err != nil {
		return err
	}
	fmt.Printf("%s %s\n", blob.DiffID(), blob.TOCDigest())
	return to.Close()
}
